"""What a stage has done so far and keeps in the cache, so that a killed run goes on from there."""

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from pipeline.core import commits, fingerprint, streams
from pipeline.core.atomic import (
    PARTIAL,
    disk_errors,
    is_untouched,
    remove_abandoned,
    remove_folder,
    scratch_folder,
)
from pipeline.core.commits import Mark
from pipeline.core.errors import Refused, UserError
from pipeline.core.progress import say

HASH_LETTERS = 16
LOCK = ".lock"
STATE = ".safetensors"
BEFORE = ".before.safetensors"
"""Suffix of the state before the last one, which is taken where the last one is damaged."""
OVER = ".over"
"""Suffix of the mark of a run that is over, and may not be committed yet."""
NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)
"""What file systems say that have no locks: there runs that share a cache are not kept apart."""

_waiting: list["Resumable"] = []
"""What this process has cleared, and keeps until DVC has committed its result."""
_earlier: list[dict[str, float]] = []
"""What each uncommitted run took from whose end this process goes on; empty for what it has made anew."""


@dataclass
class Resumable:
    """What one run of a stage has done, in files that are gone once the stage is over.

    Where DVC runs the stage, they stay until dvc.lock has its result: DVC removes a result that it was
    killed before it had committed. Runs may share a cache: what a running one holds no other removes.
    """

    path: Path
    """CACHE/training/NAME-HASH.safetensors: a training's state. What is not trained has the folder alone."""
    _held: int | None = field(default=None, compare=False, repr=False)
    """Descriptor of the lock file while the stage runs; the system lets go of it when the process ends."""
    locks: bool = field(default=True, compare=False, repr=False)
    """Whether the file system has locks, as far as is known."""

    @classmethod
    def of(cls, cache: Path, name: str, **identity: str | dict[str, Any]) -> Self:
        """That of a stage: another block, input, starting point or code is another file.

        What an earlier, abandoned run of the same name left in this checkout is removed; that of others,
        which may go on, once it is untouched for a day. What killed ones left half-written goes in any case.
        """
        whole = fingerprint.of_json({**identity, "code": fingerprint.of_code()})
        path = cache / "training" / f"{name}-{whole[:HASH_LETTERS]}{STATE}"
        remove_abandoned(path.parent.glob(f"{PARTIAL}*"))
        cls.remove_committed(cache)
        # Any of the five may be there alone; a longer name is another run's.
        parts = [
            part
            for suffix in (STATE, BEFORE, LOCK, OVER, "")
            for part in path.parent.glob(f"{name}-{'?' * HASH_LETTERS}{suffix}")
        ]
        owned: dict[str, list[Path]] = {}
        for part in parts:
            owned.setdefault(part.name[: len(path.stem)], []).append(part)
        for stem in owned.keys() - {path.stem}:
            other = cls(path.with_stem(stem))
            if other._is_of_this_checkout() or all(map(is_untouched, owned[stem])):
                other.remove()
        return cls(path)

    @classmethod
    def clear_all(cls, cache: Path, beginning: str) -> None:
        """Remove what earlier runs of this checkout whose names begin so have left, whatever they were."""
        left = {path.name.removesuffix(LOCK) for path in (cache / "training").glob(f"{beginning}*{LOCK}")}
        for stem in left:
            one = cls(cache / "training" / f"{stem}{STATE}")
            if one not in _waiting and one._is_of_this_checkout():
                one.remove()

    @classmethod
    def remove_committed(cls, cache: Path) -> None:
        """Remove what was kept until dvc.lock had the result of its run, and is committed now."""
        for state in committed(cache):
            with suppress(OSError):  # another user's, or a disk to read from: it costs room alone
                cls(state).remove()

    def hold(self) -> None:
        """Keep others from removing the state and the folder until `clear`; one run at a time.

        Raises:
            UserError: the cache cannot be written.
        """
        with disk_errors(self._lock):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._acquire(wait=True)
            self._lock.write_text(_checkout(), encoding="ascii")
        if not self._over.exists():
            made_anew()

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
                say(f"{self.path.stem} is at work in another process, which is waited for")
                streams.let_ctrl_c_interrupt()
                fcntl.flock(held, fcntl.LOCK_EX)
            except OSError as error:
                if error.errno not in NO_LOCKS:
                    raise
                self.locks = False
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
    def _over(self) -> Path:
        return self.path.with_suffix(OVER)

    @property
    def before(self) -> Path:
        """File of the state before the last one."""
        return self.path.with_suffix(BEFORE)

    @property
    def inputs(self) -> Path:
        """Folder of what the run has made for itself, which goes when the state goes."""
        return self.path.with_suffix("")

    def is_held(self) -> bool:
        """Whether another process goes on from it, or may: another user's lock cannot be tried."""
        if self._held is not None or not self._lock.exists():
            return False
        try:
            free = self._acquire(wait=False)
        except PermissionError:
            return True
        self.let_go()
        return not free

    def clear(self) -> None:
        """Have the states and the folder removed, of which the stage has no more use.

        That is done at once, or where DVC runs the stage, when it has committed what this process writes.
        """
        if commits.are_seen():
            _waiting.append(self)
        else:
            self.remove()

    def remove(self) -> None:
        """Remove the states and the folder, unless another process holds them."""
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
        if not self.inputs.exists():  # or else the next one tries again
            self._over.unlink(missing_ok=True)
            self._lock.unlink(missing_ok=True)
        self.let_go()

    @contextmanager
    def folder(self, *, until_commit: bool = True) -> Iterator[Path]:
        """Yield its folder, held, with what a killed run has left; it is cleared at the end.

        At a user's mistake it goes. Where the cache's file system has no locks, it is new, and goes at once.

        Args:
            until_commit: whether DVC commits what is made of it; else it goes at the end.

        Raises:
            UserError: the cache cannot be written.
        """
        self.hold()
        try:
            if self.locks:
                with disk_errors(self.inputs):
                    self.inputs.mkdir(exist_ok=True)
                yield self.inputs
            else:
                with scratch_folder(self.inputs) as alone:
                    yield alone
            if until_commit and self.locks:
                self.clear()
            else:
                self.remove()
        except UserError as error:
            if not isinstance(error, Refused):
                self.remove()
            raise
        finally:
            self.let_go()

    def let_go(self) -> None:
        """Let others have what is there, if it is held."""
        if self._held is not None:
            os.close(self._held)
            self._held = None


def wait_for_commit(out: Path, text: str, took: dict[str, float]) -> None:
    """Keep what this process has cleared until dvc.lock has `out` with a text, which DVC is to commit.

    Args:
        out: the file, not yet written: without it a mark says nothing.
        text: what no other run of the stage writes alike.
        took: what the stage took, which a run that goes on from here adds to its own.
    """
    for one in _waiting:
        if one._is_of_this_checkout():  # or else another run has taken it over
            with suppress(UserError):  # a full disk: it costs what the run took to be told
                Mark.of(out, text, took).write(one._over)


def remove_waiting() -> None:
    """Remove what this process has cleared, as a user's mistake has ended it: there will be no commit."""
    for one in _waiting:
        one.remove()


def gone_on_from(inputs: Path) -> None:
    """Count what the uncommitted run took whose folder this is, as all that it has left is used again."""
    mark = Mark.read(inputs.with_name(inputs.name + OVER))
    _earlier.append(mark.took if mark else {})


def made_anew() -> None:
    """Note that something is made which an earlier run has not left: what that took is not counted."""
    _earlier.append({})


def earlier(what: str) -> float:
    """What the run took of whose work this process has used all again; 0.0: there is none."""
    return max((took.get(what, 0.0) for took in _earlier), default=0.0) if all(_earlier) else 0.0


def committed(cache: Path) -> list[Path]:
    """The states of runs that are over, and whose results DVC has committed, or others in their place."""
    marks = {path: Mark.read(path) for path in sorted((cache / "training").glob(f"[!.]*{OVER}"))}
    lock = commits.lock_text() if marks else ""
    states = {path.with_suffix(STATE): mark for path, mark in marks.items() if mark}
    return [
        state
        for state, mark in states.items()
        if mark.is_committed(lock) or (Resumable(state)._is_of_this_checkout() and mark.is_replaced(lock))
    ]


def _checkout() -> str:
    """The folder that the run is of, and its machine."""
    return fingerprint.of_bytes(f"{os.uname().nodename} {Path.cwd()}".encode())[:HASH_LETTERS]
