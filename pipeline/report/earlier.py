"""A file as git last committed it: DVC deletes what a stage writes before it runs the stage again."""

import subprocess
from pathlib import Path


def committed(path: Path) -> str | None:
    """The text of a file in the last commit; None where git, its repository or the file there is missing."""
    folder = path.parent if path.parent.is_dir() else Path()
    name = path.name if path.parent.is_dir() else path.as_posix()
    try:
        shown = subprocess.run(
            ["git", "-C", str(folder), "show", f"HEAD:./{name}"], capture_output=True, check=True
        )
    except (FileNotFoundError, subprocess.CalledProcessError):
        return None
    return shown.stdout.decode("utf-8", errors="replace")
