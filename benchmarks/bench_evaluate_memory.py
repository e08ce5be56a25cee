"""Stages `evaluate` and `search_speed`: memory and CPU time by the number of documents that are searched.

`python benchmarks/bench_evaluate_memory.py [--rows N ...] [--stages NAME ...]`, with WordNet under data/raw,
whose glosses, numbered, are the documents. 200 queries; random teacher vectors of 384 dimensions; a static
student of as many, untrained. Every stage is a process of its own. Counted is the memory that it has to
itself (RssAnon), which pages of mapped files are not. `--indexes` and `--no-budget` are the params of these
names. `--metrics FOLDER` keeps what the stages write. `PYTHONPATH=CHECKOUT` measures other code.
"""

import argparse
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from bench_retrieval_memory import own_bytes
from bench_scale import numbered, read_glosses, settings
from ruamel.yaml import YAML
from vector_sets import publish

from pipeline.data.common import texts
from pipeline.data.student import student_folder
from pipeline.params.students import StaticStudent
from pipeline.tasks import pairs
from pipeline.train.students.kinds import static
from pipeline.vectors.space import pca

DIM, QUERIES, VIEW, NAME = 384, 200, "sentence", "potion"
WORDS = 20_000
STAGES = ("evaluate", "search_speed")
KEYS = ("documents", "stage", "indexes", "budget")


def main() -> None:
    """Measure each size and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[50_000, 200_000], help="documents")
    parser.add_argument("--stages", nargs="+", choices=STAGES, default=list(STAGES))
    parser.add_argument("--indexes", nargs="*", default=["flat", "ivf"])
    parser.add_argument("--no-budget", action="store_true")
    parser.add_argument("--metrics", type=Path, help="folder for what the stages write")
    parser.add_argument("--wordnet", type=Path, default=Path("data/raw/nltk_data"))
    parser.add_argument("--child", nargs=2, help="run this stage in this folder, here")
    args = parser.parse_args()
    if args.child:
        print(json.dumps(measured(args.child[0], Path(args.child[1]))))
        return
    found = []
    for rows in args.rows:
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            lay_out(folder, rows, args.wordnet, args.indexes, budget=not args.no_budget)
            for stage in args.stages:
                command = [sys.executable, __file__, "--child", stage, str(folder)]
                said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
                kinds = " ".join(args.indexes) or "none"
                row = {
                    "documents": f"{rows:,}",
                    "stage": stage,
                    "indexes": kinds,
                    "budget": not args.no_budget,
                }
                found.append({**row, **json.loads(said.splitlines()[-1])})
                print(found[-1], flush=True)
            if args.metrics:
                shutil.copytree(folder / "out", args.metrics / str(rows), dirs_exist_ok=True)
    from measuring import RESULTS, report

    path = RESULTS / "evaluate_memory.json"
    new = [tuple(row[key] for key in KEYS) for row in found]
    earlier = json.loads(path.read_text())["rows"] if path.exists() else []
    kept = [row for row in earlier if tuple(row[key] for key in KEYS) not in new]
    options = f"--rows {' '.join(map(str, args.rows))} --stages {' '.join(args.stages)}"
    options += f" --indexes {' '.join(args.indexes)}".rstrip() + " --no-budget" * args.no_budget
    report("evaluate_memory", [*kept, *found], f"python benchmarks/bench_evaluate_memory.py {options}")


def lay_out(folder: Path, rows: int, wordnet: Path, indexes: list[str], *, budget: bool) -> None:
    """All that the stages read."""
    glosses = [*dict.fromkeys(read_glosses(wordnet))]
    documents = texts.text_ids(numbered(glosses, "document", rows))
    queries = texts.text_ids(islice(numbered(glosses, "query", rows), QUERIES))
    judged: dict[str, Any] = {"left_id": queries, "right_id": documents[:QUERIES], "score": np.ones(QUERIES)}
    others: dict[str, Any] = {"left_id": [None] * (rows - QUERIES), "right_id": documents[QUERIES:]}
    made = [pairs.make("searched", "test", one) for one in (judged, others)]
    pairs.write(pl.concat(made), folder / "tasks.parquet")
    columns = {
        "text": [*numbered(glosses, "document", rows), *islice(numbered(glosses, "query", rows), QUERIES)]
    }
    ids = np.concatenate([documents, queries])
    table = pl.DataFrame({"text_id": ids, **columns}).sort("text_id")
    texts.write(table, texts.LABELLED_SCHEMA, folder / "eval.parquet")
    vectors = publish(folder / "vectors", table["text_id"].to_numpy(), DIM, VIEW)
    (folder / "pca").mkdir()
    fitted = pca.fit((batch for _, batch in vectors.batches(VIEW)), DIM, centre=True)
    pca.write(fitted, folder / "pca" / f"{VIEW}.safetensors")
    params: dict[str, Any] = settings()
    params["teacher"]["dim"] = params["students"][NAME]["dim"] = DIM
    params["evaluate"] |= {"indexes": [{"kind": kind} for kind in indexes], "agreement": None}
    if not budget:
        params["evaluate"]["budget"] = None
    words = folder / "words.txt"
    write_words(words, glosses)
    params["students"][NAME]["init"] = {"path": str(words)}
    params["students"][NAME]["train"]["regularise"] = (
        None  # else no query of its searches among the teacher's
    )
    params["runtime"] = {"cache": str(folder / "cache")}
    with (folder / "params.yaml").open("w") as file:
        YAML(typ="safe").dump(params, file)
    block = StaticStudent.model_validate(params["students"][NAME])
    student_folder.write(static.build(block, folder), "a card", folder / "students" / NAME)
    (folder / "out").mkdir()


def write_words(path: Path, glosses: list[str]) -> None:
    """Random vectors of the first words of the glosses, which the student starts from."""
    found = dict.fromkeys(word for gloss in glosses for word in gloss.lower().split() if word.isalnum())
    random = np.random.default_rng(0)
    with path.open("w", encoding="utf-8") as file:
        for word in islice(found, WORDS):
            numbers = random.standard_normal(DIM, np.float32)
            file.write(f"{word} {' '.join(f'{one:.4f}' for one in numbers)}\n")


def measured(stage: str, folder: Path) -> dict[str, float]:
    """A stage in this process: its CPU time and peak memory."""
    highest, done = [own_bytes()], threading.Event()

    def watch() -> None:
        while not done.wait(0.005):
            highest[0] = max(highest[0], own_bytes())

    watcher = threading.Thread(target=watch)
    watcher.start()
    before = resource.getrusage(resource.RUSAGE_SELF)
    run(stage, folder)
    after = resource.getrusage(resource.RUSAGE_SELF)
    done.set()
    watcher.join()
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"CPU s": round(seconds, 1), "peak MB": round(highest[0] / 1e6)}


def run(stage: str, folder: Path) -> None:
    """A stage on what `lay_out` made."""
    from pipeline.score.evaluation import evaluate
    from pipeline.score.search import search_speed

    student, out = folder / "students", folder / "out"
    read: dict[str, Any] = {
        "tasks": folder / "tasks.parquet",
        "eval_texts": folder / "eval.parquet",
        "eval_vectors": folder / "vectors",
        "teacher_view": VIEW,
        "params_file": folder / "params.yaml",
    }
    if stage == "search_speed":
        search_speed.main(**read, students=student, out=out / "search.json")
        return
    read |= dict.fromkeys(("untrained", "distilled", "finetuned"), student / NAME)
    read |= {"out": out / "metrics.json", "examined_folder": out / "examined"}
    evaluate.main(NAME, **read, pca_folder=folder / "pca")


if __name__ == "__main__":
    main()
