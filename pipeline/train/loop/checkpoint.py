"""Unfinished trainings: everything the loop needs to go on, as safetensors (no pickles)."""

import errno
import fcntl
import json
import os
import shutil
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from pipeline.core import fingerprint, json_text, seal
from pipeline.core.atomic import (
    PARTIAL,
    atomic_file,
    disk_errors,
    is_untouched,
    remove_abandoned,
    remove_folder,
)
from pipeline.core.errors import UserError
from pipeline.core.progress import say

HASH_LETTERS = 16
LOCK = ".lock"
BEFORE = ".before.safetensors"
"""Suffix of the state before the last one, which is taken where the last one is damaged."""
NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)
"""What file systems say that have no locks: there trainings that share a cache are not kept apart."""


@dataclass
class Checkpoint:
    """The state of one training, and the one before it, in files that are gone once the training is over.

    Trainings may share a cache: what a running one holds no other removes.
    """

    path: Path
    _held: int | None = field(default=None, compare=False, repr=False)
    """Descriptor of the lock file while the training runs; the system lets go of it when the process ends."""

    @classmethod
    def of(cls, cache: Path, name: str, **identity: str | dict[str, Any]) -> "Checkpoint":
        """The checkpoint of a training: another block, input, starting point or code is another file.

        What an earlier, abandoned training of the same name left in this checkout is removed; that of others,
        which may go on, once it is untouched for a day. What killed ones left half-written goes in any case.
        """
        whole = fingerprint.of_json({**identity, "code": fingerprint.of_code()})
        path = cache / "training" / f"{name}-{whole[:HASH_LETTERS]}.safetensors"
        remove_abandoned(path.parent.glob(f"{PARTIAL}*"))
        # Any of the four may be there alone; a longer name is another training's.
        parts = [
            part
            for suffix in (path.suffix, BEFORE, LOCK, "")
            for part in path.parent.glob(f"{name}-{'?' * HASH_LETTERS}{suffix}")
        ]
        owned: dict[str, list[Path]] = {}
        for part in parts:
            owned.setdefault(part.name[: len(path.stem)], []).append(part)
        for stem in owned.keys() - {path.stem}:
            other = cls(path.with_stem(stem))
            if other._is_of_this_checkout() or all(map(is_untouched, owned[stem])):
                other.clear()
        return cls(path)

    @classmethod
    def clear_all(cls, cache: Path, beginning: str) -> None:
        """Remove what trainings of this checkout whose names begin so have left, whatever they were."""
        left = {path.name.removesuffix(LOCK) for path in (cache / "training").glob(f"{beginning}*{LOCK}")}
        for stem in left:
            one = cls(cache / "training" / f"{stem}.safetensors")
            if one._is_of_this_checkout():
                one.clear()

    def hold(self) -> None:
        """Keep others from removing the state and the inputs until `clear`; one run of a training at a time.

        Raises:
            UserError: the cache cannot be written.
        """
        with disk_errors(self._lock):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._acquire(wait=True)
            self._lock.write_text(_checkout(), encoding="ascii")

    def _acquire(self, *, wait: bool) -> bool:
        """Whether the lock is ours now."""
        while self._held is None:
            held = os.open(self._lock, os.O_RDWR | os.O_CREAT, 0o666)
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if not wait:
                    os.close(held)
                    return False
                say(f"{self.path.stem} is being trained by another process, which is waited for")
                fcntl.flock(held, fcntl.LOCK_EX)
            except OSError as error:
                if error.errno not in NO_LOCKS:
                    raise
            if self._is_at_its_place(held):
                self._held = held
            else:  # whoever held it has removed it
                os.close(held)
        return True

    def _is_of_this_checkout(self) -> bool:
        try:
            return self._lock.read_text(encoding="ascii") == _checkout()
        except (OSError, UnicodeDecodeError):
            return False

    def _is_at_its_place(self, held: int) -> bool:
        try:
            return os.path.samestat(os.fstat(held), self._lock.stat())
        except FileNotFoundError:
            return False

    @property
    def _lock(self) -> Path:
        return self.path.with_suffix(LOCK)

    @property
    def before(self) -> Path:
        """File of the state before the last one."""
        return self.path.with_suffix(BEFORE)

    @property
    def inputs(self) -> Path:
        """Folder of the training's prepared inputs, which goes when the state goes."""
        return self.path.with_suffix("")

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
            return json_text.parse(file.metadata()["state"])

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

    def is_held(self) -> bool:
        """Whether another process is training from it, or may be: another user's lock cannot be tried."""
        if self._held is not None or not self._lock.exists():
            return False
        try:
            free = self._acquire(wait=False)
        except PermissionError:
            return True
        self._let_go()
        return not free

    def clear(self) -> None:
        """Remove the states and the inputs, unless another process holds them."""
        if not self.path.parent.exists():
            return
        try:
            if not self._acquire(wait=False):
                return
        except PermissionError:  # another user's
            return
        for path in (self.path, self.before):
            path.unlink(missing_ok=True)
        with suppress(UserError):  # they cost room alone
            remove_folder(self.inputs)
        self._lock.unlink(missing_ok=True)
        self._let_go()

    def _let_go(self) -> None:
        if self._held is not None:
            os.close(self._held)
            self._held = None


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


def _checkout() -> str:
    """The folder that trainings run in, and its machine."""
    return fingerprint.of_bytes(f"{os.uname().nodename} {Path.cwd()}".encode())[:HASH_LETTERS]


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
