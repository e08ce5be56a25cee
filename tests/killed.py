"""Processes that are killed while they write, and at random moments."""

import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from multiprocessing.context import SpawnProcess
from pathlib import Path

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
