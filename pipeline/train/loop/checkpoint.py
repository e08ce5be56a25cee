"""Resumable trainings: everything the loop needs to go on, as safetensors (no pickles)."""

import json
import os
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from pipeline.core import fingerprint, json_text, seal, took
from pipeline.core.atomic import atomic_file
from pipeline.core.progress import say
from pipeline.core.resumable import Resumable, gone_on_from

SECONDS = "seconds"
"""Key of what the stage had taken when the state was written."""
FINISHED = "finished"
"""Key of a state that is the end of its training: it has the best weights, and what losses learned along."""


class Checkpoint(Resumable):
    """The state of one training, and the one before it; its prepared inputs lie in the folder."""

    def save(
        self,
        weights: dict[str, Tensor],
        best: dict[str, Tensor],
        optimizer: dict[str, Tensor],
        state: dict[str, Any],
        averaging: dict[str, Tensor] | None = None,
    ) -> None:
        """Write the weights, the best so far, the optimizers' moments and the loop's state.

        Where averages are evaluated in place of the trained weights, also what they are made of.
        """
        state = {**state, SECONDS: took.seconds()}
        tensors = {f"weights/{name}": tensor for name, tensor in weights.items()}
        tensors |= {f"best/{name}": tensor for name, tensor in best.items()}
        tensors |= {f"optimizer/{name}": tensor for name, tensor in optimizer.items()}
        tensors |= {f"averaging/{name}": tensor for name, tensor in (averaging or {}).items()}
        with (
            atomic_file(self.path) as temporary,
            # Killed, save_file leaves a file whose name does not tell who wrote it: the folder's does.
            TemporaryDirectory(prefix=f"{temporary.stem}_", dir=temporary.parent) as folder,
        ):
            written = Path(folder) / "state"
            save_file(_apart(tensors), written, {"state": json.dumps(state), seal.KEY: seal.BLANK})
            written.replace(temporary)
            seal.fill(temporary)
            self._keep()

    def _keep(self) -> None:
        """Give the last state a second name, under which it stays when the next one is written."""
        if self.path.exists():
            self.before.unlink(missing_ok=True)
            try:
                os.link(self.path, self.before)
            except OSError:  # a file system without hard links
                shutil.copyfile(self.path, self.before)

    def state(self) -> dict[str, Any] | None:
        """The loop's state; None without a file that is whole."""
        if (intact := self._intact()) is None:
            return None
        with safe_open(intact, framework="pt") as file:
            state: dict[str, Any] = json_text.parse(file.metadata()["state"])
        del state[SECONDS]
        return state

    def load(self) -> tuple[dict[str, dict[str, Tensor]], dict[str, Any]] | None:
        """The tensors by group and the loop's state; None without a file that is whole.

        Groups: weights, best, optimizer, averaging.
        """
        if (intact := self._intact()) is None:
            return None
        groups: dict[str, dict[str, Tensor]] = {
            "weights": {},
            "best": {},
            "optimizer": {},
            "averaging": {},
        }
        with safe_open(intact, framework="pt") as file:
            state = json_text.parse(file.metadata()["state"])
            for name in file.keys():
                group, _, rest = name.partition("/")
                groups[group][rest] = file.get_tensor(name)
        took.goes_on(state.pop(SECONDS))
        if state.get(FINISHED):
            gone_on_from(self.inputs)
        return groups, state

    def _intact(self) -> Path | None:
        """The last file that is as it was written; damaged ones are dropped, and said."""
        for path in filter(Path.exists, (self.path, self.before)):
            wrong = _fault(path)
            if wrong is None:
                return path
            older = path == self.path and self.before.exists()
            say(f"{wrong}: training {'goes on from the state before it' if older else 'starts again'}")
            path.unlink(missing_ok=True)  # another process may have
        return None


def _fault(path: Path) -> str | None:
    """What is wrong with a state's file; None where nothing is."""
    if wrong := seal.fault(path):
        return wrong
    try:
        with safe_open(path, framework="pt") as file:
            json_text.parse(file.metadata()["state"])
    except (SafetensorError, LookupError, TypeError, ValueError) as error:  # a cut file has no seal
        return f"{path} is damaged ({error})"
    return None


def _apart(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors as safetensors takes them, contiguous and no two in one storage; others are not copied."""
    apart: dict[str, Tensor] = {}
    storages: set[int] = set()
    for name, tensor in tensors.items():
        whole = tensor.detach().contiguous()
        if whole.untyped_storage().data_ptr() in storages:
            whole = whole.clone()
        storages.add(whole.untyped_storage().data_ptr())
        apart[name] = whole
    return apart


def of_tensors(tensors: dict[str, Tensor]) -> str:
    """SHA-256 (hex) of named tensors."""
    return fingerprint.of_json(
        {
            name: fingerprint.of_bytes(tensor.detach().cpu().contiguous().numpy().tobytes())
            for name, tensor in tensors.items()
        }
    )
