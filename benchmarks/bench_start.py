"""CPU seconds of commands and stages that have next to nothing to do, paired with another revision.

`python benchmarks/bench_start.py [--against REVISION] [--rounds N]`: the small project of the tests (400
texts, the hashing teacher, a one-layer transformer and a table) is run once with the code of each of the two,
in folders of their own; then each command is run by both in turn. Seconds are of user and system together,
medians of the rounds. `import torch` alone stands beside them.
"""

import argparse
import io
import os
import resource
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import numpy as np
from measuring import report
from ruamel.yaml import YAML

REPOSITORY = Path(__file__).resolve().parent.parent
COMMANDS = {
    f"pipeline {arguments}": f"python -m pipeline.cli {arguments}"
    for arguments in (
        "--help",
        "check",
        "doctor",
        "inspect data/vectors/seed",
        "cache list",
        "embed data/raw/texts.txt --student potion",
        "embed data/raw/texts.txt --student hpd",
        "embed data/raw/texts.txt --student data/exported/hpd/onnx",
    )
} | {"import torch": "python -c 'import torch'"}
STAGES = (
    "prepare",
    "augment@wordnet",
    "encode@seed",
    "teacher_parts",
    "fit_pca",
    "gate@wordnet",
    "mine",
    "distill@hpd",
    "distill@potion",
    "finetune@hpd",
    "evaluate@hpd",
    "significance",
    "footprint",
    "search_speed",
    "report",
    "export@hpd",
)


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--against", default="HEAD", help="a revision of git")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    sys.path.insert(0, str(REPOSITORY / "tests"))
    from project import Project

    with tempfile.TemporaryDirectory() as folder:
        before = Path(folder) / "revision"
        archive = subprocess.run(
            ["git", "archive", args.against], cwd=REPOSITORY, stdout=subprocess.PIPE, check=True
        )
        tarfile.open(fileobj=io.BytesIO(archive.stdout)).extractall(before, filter="data")
        projects = {}
        for name, repository in (("now", REPOSITORY), ("before", before)):
            (Path(folder) / name).mkdir()
            projects[name] = Project.start(repository, Path(folder) / name)
            projects[name].repro()
        roots = {name: project.root for name, project in projects.items()}
        rows = [_row(what, _commands(roots, what), args.rounds) for what in (*COMMANDS, *STAGES)]
    command = f"python benchmarks/bench_start.py --against {args.against} --rounds {args.rounds}"
    report("start", rows, command)


def _commands(roots: dict[str, Path], what: str) -> dict[str, tuple[Path, str]]:
    """Where each of the two runs what."""
    if what in COMMANDS:
        return {name: (root, COMMANDS[what]) for name, root in roots.items()}
    locked = {name: YAML(typ="safe").load(root / "dvc.lock")["stages"] for name, root in roots.items()}
    return {name: (root, locked[name][what]["cmd"]) for name, root in roots.items()}


def _row(what: str, commands: dict[str, tuple[Path, str]], rounds: int) -> dict[str, object]:
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    for number in range(rounds + 1):
        for name, (root, command) in commands.items():
            taken = _cpu_seconds(root, command)
            if number:  # the first compiles byte-code and reads files into memory
                seconds[name].append(taken)
    now, before = (float(np.median(seconds[name])) for name in ("now", "before"))
    ratio = float(np.median(np.divide(seconds["before"], seconds["now"])))
    return {"what": what, "CPU seconds": now, "before": before, "times as fast": ratio}


def _cpu_seconds(root: Path, command: str) -> float:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    started = _children()
    subprocess.run(
        command,
        shell=True,
        cwd=root,
        env={**os.environ, "PATH": path},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check="doctor" not in command,  # it says that something is missing: WordNet
    )
    return _children() - started


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
