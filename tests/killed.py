"""A process that is killed while it writes."""

import signal
import subprocess
import sys
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
