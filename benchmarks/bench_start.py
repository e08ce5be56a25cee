"""CPU seconds of commands and stages that have next to nothing to do, paired with another revision.

`python benchmarks/bench_start.py [--against REVISION] [--rounds N]`: the small project of the tests (400
texts, the hashing teacher, a one-layer transformer and a table) is run once with the code of each of the two,
in folders of their own; then each command is run by both in turn. Seconds are of user and system, and
medians of the rounds. `import torch` alone stands beside them. A stage has two: until its work begins,
at the call of a function (until.py), and as a whole, with next to no work.
"""

import argparse
import io
import os
import resource
import shlex
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
        "inspect data/vectors/corpus",
        "cache list",
        "embed data/raw/texts.txt --student potion",
        "embed data/raw/texts.txt --student hpd",
        "embed data/raw/texts.txt --student data/exported/hpd",
    )
} | {"import torch": "python -c 'import torch'"}
STAGES = {
    "prepare": "pipeline.prepare.tasks:evaluation",
    "augment@wordnet": None,
    "encode@corpus": None,
    "teacher_parts": "transformers.modeling_utils:PreTrainedModel.save_pretrained",
    "fit_pca": "pipeline.vectors.space.pca:fit",
    "gate@wordnet": "pipeline.data.common.texts:read_augmented",
    "mine": "pipeline.select.mining.mining:Miner.mine",
    "distill@hpd": "pipeline.train.loop.data:materialise",
    "distill@potion": "pipeline.train.loop.data:materialise",
    "finetune@hpd": "pipeline.train.finetuning.shared.finetuning:chosen_triplets",
    "evaluate@hpd": "pipeline.encoders.packed_model:PackedModel.encode",
    "significance": "pipeline.score.statistics.examined:read_scores",
    "footprint": "pipeline.score.footprint.cost:measure",
    "search_speed": None,
    "report": "pipeline.report.figures:_svg",
    "export@hpd": "sentence_transformers.sentence_transformer.model:SentenceTransformer.encode",
}
"""Where a stage's work begins, after its imports and the building or reading of a model; None: not told."""
UNTIL = Path(__file__).resolve().with_name("until.py")


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
    rows += _nothing_to_do(args.rounds)
    command = f"python benchmarks/bench_start.py --against {args.against} --rounds {args.rounds}"
    report("start", rows, command, ratios=["times as fast"])


def _nothing_to_do(rounds: int) -> list[dict[str, object]]:
    """`dvc repro` of this checkout, all of whose stages are up to date; no row where they are not."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    status = subprocess.run(["dvc", "status", "-q"], cwd=REPOSITORY, env={**os.environ, "PATH": path})
    if status.returncode:
        print("`dvc repro` has something to do here, so it is not measured", file=sys.stderr)
        return []
    taken = float(np.median([_cpu_seconds(REPOSITORY, "dvc repro") for _ in range(rounds)]))
    cells: dict[str, object] = {"what": "dvc repro, nothing to do", "until its work": None}
    return [cells | {"CPU seconds": taken, "before": None, "times as fast": None}]


def _commands(roots: dict[str, Path], what: str) -> dict[str, tuple[Path, str]]:
    """Where each of the two runs what."""
    found = {}
    for name, root in roots.items():
        locked = YAML(typ="safe").load(root / "dvc.lock")["stages"]
        # Earlier revisions call the text set of the corpus `seed`.
        corpus = "corpus" if "encode@corpus" in locked else "seed"
        command = COMMANDS.get(what) or locked[what.replace("@corpus", f"@{corpus}")]["cmd"]
        found[name] = root, command.replace("data/vectors/corpus", f"data/vectors/{corpus}")
    return found


def _row(what: str, commands: dict[str, tuple[Path, str]], rounds: int) -> dict[str, object]:
    root, command = commands["now"]
    place = STAGES.get(what)
    measured = commands | ({"start": (root, _until(place, command))} if place else {})
    seconds: dict[str, list[float]] = {name: [] for name in measured}
    for number in range(rounds + 1):
        for name, (folder, line) in measured.items():
            taken = _cpu_seconds(folder, line)
            if number:  # the first compiles byte-code and reads files into memory
                seconds[name].append(taken)
    median = {name: float(np.median(taken)) for name, taken in seconds.items()}
    return {
        "what": what,
        "until its work": median.get("start"),
        "CPU seconds": median["now"],
        "before": median["before"],
        "times as fast": float(np.median(np.divide(seconds["before"], seconds["now"]))),
    }


def _until(place: str, command: str) -> str:
    """A stage's command that ends where its work begins."""
    start = "python -m "
    if not command.startswith(start):
        raise ValueError(f"{command!r} does not start with {start!r}")
    return f"python {shlex.quote(str(UNTIL))} {place} {command.removeprefix(start)}"


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
