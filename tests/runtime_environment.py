"""Environments with one runtime and what it requires: links in a folder, and a Python that sees no other."""

import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path

from packaging.requirements import Requirement


def link_packages(folder: Path, *names: str) -> Path:
    """Link installed distributions, and all that they require, into a folder."""
    folder.mkdir(exist_ok=True)
    waiting, seen = [*names], set()
    while waiting:
        name = waiting.pop().lower().replace("_", "-")
        if name in seen:
            continue
        seen.add(name)
        try:
            distribution = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue  # it is not needed on this machine
        for top in {file.parts[0] for file in distribution.files or [] if file.parts[0] != ".."}:
            if top != "__pycache__" and not (folder / top).exists():
                (folder / top).symlink_to(distribution.locate_file(top))
        for line in distribution.requires or []:
            requirement = Requirement(line)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                waiting.append(requirement.name)
    return folder


def run_alone(program: str, packages: Path, where: Path) -> str:
    """Run a program that can import the standard library and these packages; what it prints."""
    start = f"import sys; sys.path.append({str(packages)!r})\n"
    done = subprocess.run(
        # -S: no site-packages, so neither the other packages nor this project.
        [sys.executable, "-I", "-S", "-B", "-c", start + program],
        cwd=where,
        env={"PATH": os.environ["PATH"], "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "HOME": str(where)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
