"""The artifact data/members: PCAs of an ensemble's members, and digests of the code of the members' kinds.

NUMBER/VIEW.safetensors is fitted on a member's normalised vectors of a sample of the corpus. manifest.json
has `code`, `sample` and `pcas`; it is `{}` for a teacher that is no ensemble.
"""

import inspect
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from pipeline.core import fingerprint, json_text
from pipeline.core.atomic import write_text
from pipeline.core.errors import UserError

MANIFEST = "manifest.json"
AGAIN = "run `dvc repro -f members`"


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
    path = folder / _name(number, view)
    path.parent.mkdir(exist_ok=True)
    save_file({"mean": fitted.mean, "components": fitted.components}, path)
    told = {"sha256": fingerprint.of_file(path), "recipe": fingerprint.of_json(recipe)}
    return {_name(number, view): told}


def write_manifest(folder: Path, content: Mapping[str, Any]) -> None:
    """Write the manifest, which comes last.

    Args:
        folder: data/members.
        content: `code` (a digest by kind), `sample` (which texts), `pcas` (what `write` gives); empty for
            a teacher that is no ensemble.
    """
    write_text(folder / MANIFEST, json.dumps(content, indent=2, sort_keys=True) + "\n")


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
    name = _name(number, view)
    path, told = folder / name, _manifest(folder).get("pcas", {}).get(name)
    if told is None or not path.exists():
        raise UserError(
            f"{path} does not exist; the view `sentence` or {view!r} may lack in encode.views; then {AGAIN}"
        )
    if fingerprint.of_file(path) != told["sha256"]:
        raise UserError(f"{path} is damaged: its SHA-256 is not the manifest's; {AGAIN}")
    if recipe is not None and fingerprint.of_json(recipe) != told["recipe"]:
        raise UserError(f"{path} is of another teacher than teacher.members.{number}; {AGAIN}")
    return Reduction(**load_file(path))


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


def _manifest(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    try:
        content = json_text.parse(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path} does not exist; {AGAIN}") from None
    except ValueError as error:
        raise UserError(f"{path} is not JSON ({error}); {AGAIN}") from None
    if not isinstance(content, dict):
        raise UserError(f"{path} is no manifest; {AGAIN}")
    return content


def _name(number: int, view: str) -> str:
    return f"{number}/{view}.safetensors"
