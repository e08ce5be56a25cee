"""The artifact data/members: PCAs and flows of an ensemble's members, and digests of the code of their kinds.

NUMBER/VIEW.safetensors is a PCA of a member's normalised vectors of a sample of the corpus, and
NUMBER/VIEW.flow.safetensors a flow of what that leaves, or of the vectors as they are. manifest.json has
`code`, and where there are such `sample` and `pcas`, `flow_samples` and `flows`; it is `{}` for a teacher
that is no ensemble.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from pipeline.core import fingerprint, seal
from pipeline.core.atomic import write_text
from pipeline.core.errors import UserError
from pipeline.params.teacher import Flow

if TYPE_CHECKING:
    from pipeline.teacher.shared.flow import NormalisingFlow

MANIFEST = "manifest.json"
AGAIN = "run `dvc repro -f members`"
Transformation = Callable[[NDArray[np.float32]], NDArray[np.float32]]
"""Vectors (n, d) to as many others, (n, d)."""


@dataclass(frozen=True)
class Reduction:
    """The first components of a PCA of normalised vectors of d dimensions."""

    mean: NDArray[np.float32]
    """(d,)."""
    components: NDArray[np.float32]
    """(dim, d), one a row, by falling variance."""

    def of(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        """Coordinates (n, dim) of vectors (n, d)."""
        return ((vectors - self.mean) @ self.components.T).astype(np.float32, copy=False)


def write(
    fitted: Reduction, folder: Path, number: int, view: str, recipe: Mapping[str, Any]
) -> dict[str, dict[str, str]]:
    """Write a member's PCA of one of its own views; what the manifest says of it, by its name there."""
    tensors = {"mean": fitted.mean, "components": fitted.components}
    return _write(tensors, folder, _name(number, view), recipe)


def write_flow(
    fitted: "NormalisingFlow", settings: Flow, folder: Path, number: int, view: str, recipe: Mapping[str, Any]
) -> dict[str, dict[str, str]]:
    """Write a member's flow of one of its own views; what the manifest says of it, by its name there."""
    tensors = {name: tensor.detach().numpy() for name, tensor in fitted.state_dict().items()}
    return _write(tensors, folder, _flow_name(number, view), {"of": recipe, "flow": _settings(settings)})


def _write(
    tensors: Mapping[str, NDArray[Any]], folder: Path, name: str, recipe: Mapping[str, Any]
) -> dict[str, dict[str, str]]:
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    save_file({key: np.ascontiguousarray(tensor) for key, tensor in tensors.items()}, path)
    return {name: {"sha256": fingerprint.of_file(path), "recipe": fingerprint.of_json(recipe)}}


def write_manifest(folder: Path, content: Mapping[str, Any]) -> None:
    """Write the manifest, which comes last.

    Args:
        folder: data/members.
        content: `code` (a digest by kind), `sample` (which texts), `pcas` (what `write` gives), and the
            same of flows; empty for a teacher that is no ensemble.
    """
    write_text(folder / MANIFEST, seal.to_json(content))


def read(folder: Path, number: int, view: str, recipe: Mapping[str, Any] | None = None) -> Reduction:
    """The PCA of a member's own view.

    Args:
        folder: data/members.
        number: the member's, from 0.
        view: the member's.
        recipe: the member's; None: any.

    Raises:
        UserError: it is missing, damaged, or of a member of another recipe.
    """
    return Reduction(**_read(folder, _name(number, view), "pcas", number, view, recipe))


def read_flow(
    folder: Path, number: int, view: str, settings: Flow, recipe: Mapping[str, Any] | None = None
) -> Transformation:
    """The flow of a member's own view, as what gives latents (n, d) of vectors (n, d).

    Args:
        folder: data/members.
        number: the member's, from 0.
        view: the member's.
        settings: the member's `flow`.
        recipe: the member's; None: any.

    Raises:
        UserError: it is missing, damaged, or of a member of another recipe or of other settings.
    """
    import torch

    from pipeline.teacher.shared.flow import NormalisingFlow

    wanted = None if recipe is None else {"of": recipe, "flow": _settings(settings)}
    tensors = _read(folder, _flow_name(number, view), "flows", number, view, wanted)
    flow = NormalisingFlow(len(tensors["levels.0.0.bias"]), settings)
    try:
        flow.load_state_dict({name: torch.from_numpy(tensor) for name, tensor in tensors.items()})
    except RuntimeError:
        path = folder / _flow_name(number, view)
        raise UserError(f"{path} is of other settings than teacher.members.{number}.flow; {AGAIN}") from None

    def latents(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        with torch.no_grad():
            found: NDArray[np.float32] = flow(torch.from_numpy(vectors))[0].numpy()
        return found

    return latents


def _read(
    folder: Path, name: str, among: str, number: int, view: str, recipe: Mapping[str, Any] | None
) -> dict[str, NDArray[Any]]:
    path, told = folder / name, _manifest(folder).get(among, {}).get(name)
    if told is None or not path.exists():
        raise UserError(
            f"{path} does not exist; the view `sentence` or {view!r} may lack in encode.views; then {AGAIN}"
        )
    if fingerprint.of_file(path) != told["sha256"]:
        raise UserError(f"{path} is damaged: its SHA-256 is not the manifest's; {AGAIN}")
    if recipe is not None and fingerprint.of_json(recipe) != told["recipe"]:
        raise UserError(f"{path} is of another teacher than teacher.members.{number}; {AGAIN}")
    tensors: dict[str, NDArray[Any]] = load_file(path)
    return tensors


def check_code(folder: Path, kind: str, teacher: type) -> None:
    """Fail unless the manifest was written by the code of a kind that is in use now.

    Args:
        folder: data/members.
        kind: of a member.
        teacher: the class of that kind.

    Raises:
        UserError: it is another, so that DVC did not see that the stage has to run.
    """
    if _manifest(folder).get("code", {}).get(kind) != fingerprint.of_file(Path(inspect.getfile(teacher))):
        raise UserError(f"{folder / MANIFEST} is of other code of the kind {kind} than is here; {AGAIN}")


def sample(folder: Path) -> dict[str, Any]:
    """Which texts the PCAs are fitted on."""
    found = _manifest(folder).get("sample")
    if found is None:
        raise UserError(f"{folder / MANIFEST} is of a teacher without a PCA; {AGAIN}")
    return dict(found)


def flow_sample(folder: Path, number: int) -> dict[str, Any]:
    """Which texts a member's flow is fitted on."""
    found = _manifest(folder).get("flow_samples", {}).get(str(number))
    if found is None:
        raise UserError(f"{folder / MANIFEST} has no flow of teacher.members.{number}; {AGAIN}")
    return dict(found)


def _manifest(folder: Path) -> dict[str, Any]:
    return seal.read_json(folder / MANIFEST, "members")


def _name(number: int, view: str) -> str:
    return f"{number}/{view}.safetensors"


def _flow_name(number: int, view: str) -> str:
    return f"{number}/{view}.flow.safetensors"


def _settings(flow: Flow) -> dict[str, Any]:
    return flow.model_dump(mode="json")
