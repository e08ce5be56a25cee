"""Processes that are killed while they write, and at random moments."""

import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from itertools import chain
from multiprocessing.context import BaseContext, SpawnProcess
from pathlib import Path

from pipeline.data.common import texts

WRITE = """
import os, signal, sys
from pathlib import Path
from pipeline.core.atomic import atomic_file
with atomic_file(Path(sys.argv[1])) as temporary:
    temporary.write_bytes(b"half")
    print(temporary, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def killed_write(path: Path) -> Path:
    """What a killed process leaves of `path`: a file of four bytes."""
    done = subprocess.run([sys.executable, "-c", WRITE, path], capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    return Path(done.stdout.strip())


def kill_after(
    process: SpawnProcess, begun: Callable[[], bool], moments: random.Random, seconds: float
) -> None:
    """Kill a running process up to so many seconds after it has begun."""
    while not begun() and process.is_alive():
        time.sleep(0.002)
    time.sleep(moments.uniform(0, seconds))
    process.kill()
    process.join()
    assert process.exitcode == -signal.SIGKILL


Start = Callable[[Path, float], SpawnProcess]
"""Where a run notes what it does, how long it waits each time -> the running process."""


def starter(processes: BaseContext, run_slowly: Callable[[Path, Path, float], None], folder: Path) -> Start:
    """What starts a stage in a process of its own."""

    def start(log: Path, seconds: float) -> SpawnProcess:
        process = processes.Process(target=run_slowly, args=(folder, log, seconds))
        process.start()
        return process

    return start


def asked(log: Path) -> list[list[str]]:
    """The pieces, each some texts, that a run began to compute."""
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def kill_many(
    start: Start,
    folder: Path,
    pieces: Sequence[list[str]],
    *,
    kills: int,
    within: int,
    slow: float,
    out: Path,
    stored: Callable[[], set[int]],
) -> set[int]:
    """Start a stage and kill it, again and again; no run may ask for a text that is stored already.

    Args:
        start: starts it.
        folder: where runs note what they ask for.
        pieces: what an undisturbed run asks for.
        kills: how often.
        within: a run is killed after it has begun less than this many pieces.
        slow: seconds that a piece takes, and somewhat less than it is killed in.
        out: what a whole run publishes.
        stored: the ids of texts that are done.

    Returns:
        What is stored in the end.
    """
    moments = random.Random(5)
    for kill in range(kills):
        before, log = stored(), folder / f"asked {kill}"
        process, begun = start(log, slow), moments.randrange(within)
        kill_after(
            process, lambda log=log, begun=begun: len(asked(log)) >= begun, moments, seconds=1.5 * slow
        )
        assert not out.exists()
        assert not before & {texts.text_id(text) for text in chain(*asked(log))}
        assert all(piece in pieces for piece in asked(log))
    return stored()
