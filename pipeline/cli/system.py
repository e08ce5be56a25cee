"""What `pipeline doctor` finds on this machine, whatever the params."""

import os
import platform
import shutil
import sys
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

from pipeline.cli.finding import Finding
from pipeline.core.machine import cpu, cpus

DISTRIBUTION = "distillation-pipeline"
PYTHON = (3, 11)
GIGABYTE = 1e9
NEEDED_GIGABYTES = 4.0
"""The default run's artifacts, the same again in DVC's cache, and the teacher's vectors."""
NAMED = ("torch", "transformers", "sentence-transformers", "model2vec", "polars", "pyarrow")
"""Libraries whose version is shown; all are checked."""


def python() -> Finding:
    """The interpreter."""
    fix = "" if sys.version_info >= PYTHON else "make setup PYTHON=python3.11"
    return Finding("python", f"{platform.python_version()} on {platform.system()} {platform.machine()}", fix)


def libraries() -> Finding:
    """The versions of the libraries, against those that pyproject.toml allows."""
    try:
        declared = [Requirement(line) for line in metadata.requires(DISTRIBUTION) or ()]
    except metadata.PackageNotFoundError:
        return Finding("libraries", f"{DISTRIBUTION} is not installed here", "make setup")
    needed = [line for line in declared if line.marker is None or line.marker.evaluate({"extra": ""})]
    faults = [fault for requirement in needed if (fault := _fault(requirement))]
    if faults:
        return Finding("libraries", ", ".join(faults), "make setup")
    named = ", ".join(f"{name} {metadata.version(name)}" for name in NAMED)
    return Finding("libraries", f"{named} and {len(needed) - len(NAMED)} more")


def _fault(requirement: Requirement) -> str:
    try:
        version = metadata.version(requirement.name)
    except metadata.PackageNotFoundError:
        return f"{requirement.name} is not installed"
    if requirement.specifier.contains(version, prereleases=True):
        return ""
    return f"{requirement.name} is {version}, not {requirement.specifier}"


def disk(folder: Path) -> Finding:
    """Free space where the data will lie."""
    free = shutil.disk_usage(folder).free / GIGABYTE
    fix = (
        "" if free >= NEEDED_GIGABYTES else f"free {NEEDED_GIGABYTES:.0f} GB; `dvc gc -w` drops old artifacts"
    )
    return Finding("disk", f"{free:,.0f} GB free", fix)


def processor() -> Finding:
    """The processor, its cores that this process may use, and memory."""
    memory = ""
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        memory = f", {os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / GIGABYTE:,.0f} GB of memory"
    return Finding("machine", f"{cpu()}, {cpus()} cores{memory}")


def dvc(repository: Path) -> Finding:
    """DVC, and whether this folder is a DVC repository."""
    command = shutil.which("dvc", path=_search_path())
    if not command:
        return Finding("dvc", "no `dvc` command", "make setup")
    try:
        version = metadata.version("dvc")
    except metadata.PackageNotFoundError:
        return Finding("dvc", f"{command} is another environment's, and this one has no dvc", "make setup")
    if not (repository / ".dvc").is_dir():
        return Finding(
            "dvc", f"{version}, but this folder is no DVC repository", "run from the repository root"
        )
    return Finding("dvc", version)


def _search_path() -> str:
    """The PATH after this interpreter's own folder: an environment need not be activated to be used."""
    return os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
