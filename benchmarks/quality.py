"""What students keep of the teacher on real data: a run of the whole pipeline with other params.

`python benchmarks/quality.py NAME [--data FOLDER] [--folder FOLDER]` copies the project to a folder of its
own, with `quality/NAME.yaml` as params.yaml and FOLDER's data under data/raw, and runs `dvc repro` there; a
second call goes on where the first one stopped. Students that it does not name are those of params.yaml.
Scores are written to `results/quality_NAME.json`; of students that differ in `train.seed` alone, the means
and standard deviations, by the first one's name.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
from measuring import report
from ruamel.yaml import YAML

HERE = Path(__file__).parent
PROJECT = HERE.parent


def main() -> None:
    """Run and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=sorted(path.stem for path in (HERE / "quality").glob("*.yaml")))
    parser.add_argument("--data", type=Path, default=PROJECT.parent / "shared" / "data")
    parser.add_argument("--folder", type=Path, help="where to run; default: .cache/quality/NAME")
    args = parser.parse_args()
    folder = args.folder or PROJECT / ".cache" / "quality" / args.name
    params = YAML(typ="safe").load(HERE / "quality" / f"{args.name}.yaml")
    params.setdefault("students", YAML(typ="safe").load(PROJECT / "params.yaml")["students"])
    lay_out(folder, params, args.data)
    students = list(params["students"])
    stages = [f"evaluate@{name}" for name in students] + ["significance", "search_speed"]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    subprocess.run(["dvc", "repro", *stages], cwd=folder, check=True, env={**os.environ, "PATH": path})
    found = over_seeds(rows(folder, students), params["students"])
    report(f"quality_{args.name}", found, f"python benchmarks/quality.py {args.name}")


def lay_out(folder: Path, params: dict[str, Any], data: Path) -> None:
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
        if path.is_dir() and not (there := folder / "data" / "raw" / path.name).exists():
            there.symlink_to(path.resolve(), target_is_directory=True)
    slices(data, folder / "data" / "raw" / "slices")


def over_seeds(found: list[dict[str, object]], students: dict[str, Any]) -> list[dict[str, object]]:
    """Rows of students that differ in `train.seed` alone become their means, with standard deviations."""

    def group(name: str) -> str:
        """The first student that is the same but for its seed."""
        unseeded = {
            other: {**block, "train": {**block["train"], "seed": None}} for other, block in students.items()
        }
        return next((other for other in unseeded if unseeded[other] == unseeded.get(name)), name)

    table = pl.DataFrame(found).with_columns(model=pl.col("model").map_elements(group, pl.String))
    if table["model"].is_unique().all():
        return found
    scores = pl.exclude("model")
    spread = [scores.mean(), scores.std().name.suffix(" sd"), pl.len().alias("seeds")]
    return table.group_by("model", maintain_order=True).agg(spread).to_dicts()


def slices(data: Path, folder: Path) -> None:
    """Parts of files that are too large for a look at every kind of task."""
    folder.mkdir(parents=True, exist_ok=True)
    reviews = pl.read_parquet(data / "classification" / "SST2_train.parquet")
    reviews = reviews.filter(pl.col("text").str.len_chars() > 40)  # the others are parts of sentences
    reviews[:2000].write_parquet(folder / "sst2_train.parquet")
    reviews[2000:3000].write_parquet(folder / "sst2_test.parquet")
    entities = pl.read_parquet(data / "er" / "er_pairs.parquet").filter(split="test")
    entities.group_by("dataset", maintain_order=True).head(400).write_parquet(folder / "entities.parquet")


def rows(folder: Path, students: list[str]) -> list[dict[str, object]]:
    """The teacher's and every student's test scores times 100, their mean, and the share of the teacher's."""
    metrics = {
        name: json.loads((folder / "reports" / "metrics" / f"{name}.json").read_text()) for name in students
    }
    first = metrics[students[0]]
    models = [("teacher", "teacher", first)]
    models += [(name, "finetuned", told) for name, told in metrics.items()]
    found: list[dict[str, object]] = []
    for name, state, told in models:
        scores = {task: 100 * told["scores"][state][task][told["main"][task]] for task in told["main"]}
        kept = sum(scores[task] / found[0][task] for task in scores) / len(scores) if found else 1.0
        stage = folder / "reports" / "stages" / f"distill_{name}.json"
        steps = json.loads(stage.read_text())["steps"] if found else None
        mean = sum(scores.values()) / len(scores)
        found.append({"model": name, "steps": steps, **scores, "mean": mean, "kept": kept})
    return found


if __name__ == "__main__":
    main()
