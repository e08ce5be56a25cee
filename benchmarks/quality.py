"""What students keep of the teacher on real data: runs of the whole pipeline with other params.

`python benchmarks/quality.py NAME [--students A B] [--seeds 3] [--data FOLDER] [--folder FOLDER]` copies the
project to a folder of its own, with `quality/NAME.yaml` or `recipes/NAME.yaml` as params.yaml and the data
folder under data/raw, and runs `dvc repro` there; a second call goes on where the first one stopped. Students
that it does not name are those of params.yaml.

A file of several YAML documents is as many runs, which share encoded vectors: each later document holds the
top-level keys in which it differs from the first. Its students may be names of the first's: the same block.

Scores are written to `results/quality_NAME.json`: times 100, with the training's minutes, the parameters in
millions, and for each kind of task the mean share of the teacher's scores that is kept, before fine-tuning
too: of each task by its headline, `metric` in the file.
Minutes are those of distillation and fine-tuning, steps those of distillation. With `--seeds`, and of
students that differ in their seeds alone, they are means with standard deviations, by the first's name.
Every row says which processor and how many threads it is of; the teacher has a row for each processor.
With `--bfloat16` the teacher encodes in bfloat16 whatever the file says, and the rows say so; with
`--teacher FOLDER` its weights are read from there, where there is no hub.
Earlier rows stay in the results; those of other settings than the file's, and those from before settings
were noted, are in no table. `--table` only prints the others that there are, in Markdown.
Classifiers are trained by the seeds that the file gives them; theirs are `results/classifiers_NAME.json`.
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import mean

import polars as pl
from measuring import RESULTS, machine, report
from quality_classifiers import report_classifiers
from quality_table import Key, Row, aligned, key, markdown
from ruamel.yaml import YAML
from slices import SLICES, write_slices

from pipeline.cli import model_folder

HERE = Path(__file__).parent
PROJECT = HERE.parent
FILES = {path.stem: path for path in (*PROJECT.glob("recipes/*.yaml"), *HERE.glob("quality/*.yaml"))}


def command_line() -> argparse.ArgumentParser:
    """The options."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", choices=sorted(FILES), metavar="NAME", help=", ".join(sorted(FILES)))
    parser.add_argument("--students", nargs="+", default=[], help="only these; default: all of the file")
    parser.add_argument("--seeds", type=int, default=1, help="trainings of each student, by seeds 0, 1, ...")
    parser.add_argument("--bfloat16", action="store_true", help="the teacher encodes in bfloat16")
    parser.add_argument(
        "--teacher", type=Path, metavar="FOLDER", help="the file's teacher, where it cannot be downloaded"
    )
    parser.add_argument("--table", action="store_true", help="print the results, and run nothing")
    shared, raw = PROJECT.parent / "shared" / "data", PROJECT / "data" / "raw"
    parser.add_argument(
        "--data",
        type=Path,
        default=shared if shared.is_dir() else raw,
        help="whose folders data/raw links to; default: ../shared/data, or data/raw where that is not there",
    )
    parser.add_argument("--folder", type=Path, help="where to run; default: .cache/quality/NAME")
    return parser


def main() -> None:
    """Run and report."""
    parser = command_line()
    args = parser.parse_args()
    if args.seeds < 1:
        parser.error(f"--seeds is {args.seeds}; a student is trained once at least")
    runs = documents(FILES[args.name])
    named = [name for run in runs for name in run["students"]]
    if unknown := sorted(set(args.students) - set(named)):
        parser.error(f"{args.name} has no student {unknown[0]}; it has {', '.join(sorted(named))}")
    if twice := sorted(name for name in set(named) if named.count(name) > 1):
        parser.error(f"two runs of {args.name} have a student {twice[0]}; name each of them once")
    known, others = earlier(args.name, runs)
    if others:
        names = ", ".join(row["model"] for row in others)
        print(f"rows of other settings, which no table has: {names}", file=sys.stderr)
    if args.table:
        if not known:
            parser.error(f"{args.name} has no results of its present settings; run it without --table")
        print(markdown(list(known.values())))
        return
    if not args.data.is_dir():
        parser.error(f"there is no folder {args.data}; --data names the one that holds the file's data")
    folder = args.folder or PROJECT / ".cache" / "quality" / args.name
    found = {key(row): row for row in measured(runs, folder, args)}
    known, others = earlier(args.name, runs)  # again, for another call may have ended meanwhile
    known |= found
    ordered = [row for name in ("teacher", *named) for row in known.values() if row["model"] == name]
    report(f"quality_{args.name}", aligned([*ordered, *others]), f"python benchmarks/quality.py {args.name}")


def measured(runs: list[Row], folder: Path, args: argparse.Namespace) -> Iterator[Row]:
    """Run what the options ask for; the rows of it."""
    for number, run in enumerate(runs):
        place = folder / str(number) if len(runs) > 1 else folder
        if len(runs) > 1:
            run["runtime"] = {**run["runtime"], "cache": "../.cache"}
        wanted = args.students or run["students"]
        if students := {name: block for name, block in run["students"].items() if name in wanted}:
            classifiers = {k: one for k, one in run["classifiers"].items() if one["student"] in students}
            mine = {**run, "students": seeded(students, args.seeds), "classifiers": classifiers}
            given = {"precision": "bfloat16"} if args.bfloat16 else {}
            given |= {"model": str(args.teacher.resolve())} if args.teacher else {}
            mine["teacher"] = {**run["teacher"], **given}
            lay_out(place, mine, args.data)
            reproduce(place, [f"evaluate@{name}" for name in mine["students"]])
            if classifiers:
                reproduce(place, [f"classify@{name}" for name in classifiers])
                every = dict.fromkeys(name for one in runs for name in one["classifiers"])
                report_classifiers(args.name, place, mine, every, f"python benchmarks/quality.py {args.name}")
            for found in over_seeds(rows(place, mine), mine["students"]):
                options = f" --seeds {found['seeds']}" if found.get("seeds") else ""
                options += " --bfloat16" if args.bfloat16 else ""
                options += " --teacher FOLDER" if args.teacher else ""
                command = f"python benchmarks/quality.py {args.name} --students {found['model']}{options}"
                trained = found["model"] in run["students"]  # the teacher's row comes with any of them
                told = {"settings": settings(found["model"], run), "command": command if trained else None}
                encoded = (
                    ", the teacher's vectors too" if mine["teacher"].get("precision") == "bfloat16" else ""
                )
                told["precision"] = trained_in(place, found["model"]) + encoded if trained else None
                yield {**found, **told, **machine()}


def documents(path: Path) -> list[Row]:
    """The runs of a file."""
    first, *others = YAML(typ="safe").load_all(path)
    first.setdefault("students", YAML(typ="safe").load(PROJECT / "params.yaml")["students"])
    known = first["students"]
    runs = [first]
    for other in others:
        blocks = other.get("students", known).items()
        if unknown := [block for _, block in blocks if isinstance(block, str) and block not in known]:
            sys.exit(f"{path}: the first run has no student {unknown[0]}; it has {', '.join(known)}")
        students = {name: known[block] if isinstance(block, str) else block for name, block in blocks}
        runs.append({**first, **other, "students": students})
    return runs


def settings(student: str, run: Row) -> str:
    """What a student's scores depend on but for its seeds, as a hash; the teacher's: what all have."""
    block = with_seed(run["students"][student], None) if student in run["students"] else None
    shared = {key: value for key, value in run.items() if key not in ("students", "classifiers", "runtime")}
    return hashlib.sha256(json.dumps([shared, block], sort_keys=True).encode()).hexdigest()[:12]


def seeded(students: dict[str, Row], seeds: int) -> dict[str, Row]:
    """Every student as often as there are seeds; with one, as it is."""
    if seeds == 1:
        return students
    found: dict[str, Row] = {}
    for name, block in students.items():
        for seed in range(seeds):
            another = with_seed(block, seed)
            if another not in found.values():
                found[name if seed == 0 else f"{name}_seed{seed}"] = another
    return found


def with_seed(block: Row, seed: int | None) -> Row:
    """A student's block with another seed; 0, the default, is left out: DVC sees the same params."""
    named = {"seed": seed} if seed != 0 else {}
    parts = ((key, block[key]) for key in ("train", "finetune") if block[key])
    return block | {key: {k: v for k, v in part.items() if k != "seed"} | named for key, part in parts}


def reproduce(folder: Path, stages: list[str]) -> None:
    """Run stages and all that they need; `dvc` is the environment's."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(["dvc", "repro", *stages], cwd=folder, env={**os.environ, "PATH": path})
    if done.returncode:
        sys.exit(f"`dvc repro` failed in {folder}; mend what it says and run the same command again")


def lay_out(folder: Path, params: Row, data: Path) -> None:
    """A project without git that takes code, params and data from where they are."""
    (folder / ".dvc").mkdir(parents=True, exist_ok=True)
    (folder / ".dvc" / "config").write_text("[core]\nno_scm = true\n")
    for file in ("dvc.yaml", ".dvcignore"):
        shutil.copy(PROJECT / file, folder / file)
    YAML().dump(params, folder / "params.yaml")
    shutil.copytree(
        PROJECT / "pipeline",
        folder / "pipeline",
        ignore=shutil.ignore_patterns("__pycache__"),
        dirs_exist_ok=True,
    )
    (folder / "data" / "raw" / "nltk_data").mkdir(parents=True, exist_ok=True)
    wordnet = PROJECT / "data" / "raw" / "nltk_data"
    if wordnet.is_dir():
        shutil.copytree(wordnet, folder / "data" / "raw" / "nltk_data", dirs_exist_ok=True)
    for path in data.iterdir():
        there = folder / "data" / "raw" / path.name
        if path.is_dir() and path.name != SLICES and not there.exists():
            there.symlink_to(path.resolve(), target_is_directory=True)
    write_slices(data, folder / "data" / "raw" / SLICES, json.dumps(params))


def rows(folder: Path, params: Row) -> list[Row]:
    """The teacher's row and every student's."""
    told = {
        name: json.loads((folder / "reports" / "metrics" / f"{name}.json").read_text())
        for name in params["students"]
    }
    kinds = {task: block["kind"] for task, block in params["evaluate"]["tasks"].items()}
    first = next(iter(told.values()))
    found: list[Row] = [row("teacher", {}, first, "teacher", kinds)]
    for name, metrics in told.items():
        stage = folder / "reports" / "stages" / f"distill_{name}.json"
        cost = {
            "million_parameters": model_folder.parameters(folder / "data" / "finetuned" / name) / 1e6,
            "minutes": sum(seconds(folder, stage, name) for stage in ("distill", "finetune")) / 60,
            "steps": json.loads(stage.read_text())["steps"],
        }
        found.append(row(name, cost, metrics, "finetuned", kinds))
        if params["students"][name]["finetune"]:
            before = shares(metrics, "distilled", kinds)
            found[-1] |= {f"kept_{kind}_before_finetuning": value for kind, value in before.items()}
    return found


def row(name: str, cost: Row, metrics: Row, state: str, kinds: dict[str, str]) -> Row:
    """A model's row."""
    costs = {column: cost.get(column) for column in ("million_parameters", "minutes", "steps")}
    kept = {f"kept_{kind}": value for kind, value in shares(metrics, state, kinds).items()}
    return {"model": name, **costs, **kept, **scores(metrics, state)}


def shares(metrics: Row, state: str, kinds: dict[str, str]) -> dict[str, float]:
    """For each kind of task the mean share of the teacher's scores, times 100."""
    own, teacher = scores(metrics, state), scores(metrics, "teacher")
    by_kind: dict[str, list[float]] = {}
    for task in metrics["averaged"]:
        by_kind.setdefault(kinds[task], []).append(100 * own[task] / teacher[task])
    return {kind: mean(values) for kind, values in by_kind.items()}


def scores(metrics: Row, state: str) -> dict[str, float]:
    """Times 100, by task: its headline, and MRR@10 beside nDCG@10."""
    found = metrics["scores"][state]
    beside = {task: "mrr@10" for task, metric in metrics["main"].items() if metric == "ndcg@10"}
    return {task: 100 * found[task][metric] for task, metric in metrics["main"].items()} | {
        f"{task}_mrr10": 100 * found[task][metric] for task, metric in beside.items()
    }


def seconds(folder: Path, stage: str, student: str) -> float:
    """What a stage took."""
    return float(json.loads((folder / "data" / "timings" / f"{stage}_{student}.json").read_text())["seconds"])


def trained_in(folder: Path, student: str) -> str:
    """The precision of a student's distillation, by its curve."""
    return str(
        pl.read_csv(folder / "reports" / "curves" / f"{student}.tsv", separator="\t", infer_schema=False)[
            "precision"
        ][-1]
    )


def over_seeds(found: list[Row], students: dict[str, Row]) -> list[Row]:
    """Rows of students that differ in their seeds alone become their means, with standard deviations."""

    def group(name: str) -> str:
        """The first student that is the same but for its seeds."""
        unseeded = {other: with_seed(block, None) for other, block in students.items()}
        return next((other for other in unseeded if unseeded[other] == unseeded.get(name)), name)

    teacher, *others = found
    table = pl.DataFrame(aligned(others)).with_columns(model=pl.col("model").map_elements(group, pl.String))
    if table["model"].is_unique().all():
        return found
    scores = pl.exclude("model")
    spread = [scores.mean(), scores.std().name.suffix(" sd"), pl.len().alias("seeds")]
    return [teacher, *table.group_by("model", maintain_order=True).agg(spread).to_dicts()]


def earlier(name: str, runs: list[Row]) -> tuple[dict[Key, Row], list[Row]]:
    """The rows that were written last, none where there are none, and those of other settings."""
    path = RESULTS / f"quality_{name}.json"
    found = json.loads(path.read_text())["rows"] if path.exists() else []
    now = {(model, settings(model, run)) for run in runs for model in ("teacher", *run["students"])}
    known = {key(row): row for row in found if (row["model"], row.get("settings")) in now}
    return known, [row for row in found if row not in known.values()]


if __name__ == "__main__":
    main()
