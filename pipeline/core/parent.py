"""A stage ends with the process that started it: an orphan would overwrite what a newer run has made.

Between DVC and a stage there may be a shell, or torchrun: all processes of the line up to DVC are watched.
Where DVC is not among them, it is the parent alone.
"""

import os
import signal
import threading
import time
from pathlib import Path

from pipeline.core.errors import Refused
from pipeline.core.progress import say

EVERY = 0.5
"""Seconds between two looks."""
GRACE = 10.0
"""Seconds that an orphan has to end by itself: Ray stops its processes."""

_line: list[tuple[int, int]] = []
"""Each watched process with its parent's number, this one first; empty where nothing is watched."""


def watch() -> None:
    """From now on, end this process when its parent is gone, or a process between the parent and DVC."""
    _line[:] = _up_to_dvc()
    threading.Thread(target=_wait, name="watch the parent", daemon=True).start()


def is_orphan() -> bool:
    """Whether a process that is watched is gone."""
    return any(_parent(process) != parent for process, parent in _line)


def check(path: Path) -> None:
    """Fail where the process has become an orphan before it has put `path` in its place.

    Raises:
        Refused: it has; what is at `path` stays.
    """
    if is_orphan():
        raise Refused(f"{path} is not written: what started this process is gone; start it again")


def _wait() -> None:
    while not is_orphan():
        time.sleep(EVERY)
    say("what started this process is gone: it ends")
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE)
    os.kill(os.getpid(), signal.SIGKILL)


def _up_to_dvc() -> list[tuple[int, int]]:
    line: list[tuple[int, int]] = []
    process = os.getpid()
    while (parent := _parent(process)) and parent > 1:
        line.append((process, parent))
        if _is_dvc(parent):
            return line
        process = parent
    return line[:1]


def _parent(process: int) -> int | None:
    """The number of a process' parent; None where it is gone, or the system does not tell."""
    if process == os.getpid():
        return os.getppid()
    try:
        status = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return int(status.rpartition(")")[2].split()[1])  # the name before it may hold anything


def _is_dvc(process: int) -> bool:
    try:
        words = Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return any(Path(os.fsdecode(word)).name == "dvc" for word in words[:3])  # dvc, python dvc, python -m dvc
