"""The stage `distill`: memory at two corpus sizes.

`python benchmarks/bench_train_memory.py [--rows N] [--more N]`, after `make repro`: WordNet's glosses,
numbered, so that there are as many as asked for, random vectors, the default run's parts of the teacher.
Every run is a process of its own. A static student sees every text once; the 3-layer transformer, which would
take half an hour, as many of either corpus.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import polars as pl
from measuring import report
from ruamel.yaml import YAML
from vector_sets import publish, random_ids

from pipeline.data.common import texts
from pipeline.vectors.space import pca

VIEW, DIM = "sentence", 384
TRANSFORMER_ROWS = 10_000
DEV_ROWS = 1000
STUDENTS: dict[str, dict[str, object]] = {
    "transformer": {"kind": "transformer", "dim": 128, "init": {"layers": [3, 4, 5]}},
    "static": {"kind": "static", "dim": 256, "init": {}},
}
TRAIN: dict[str, dict[str, object]] = {
    "transformer": {"batch_size": 256, "lr": 1e-4, "precision": "bfloat16"},
    "static": {"batch_size": 1024, "lr": 1e-3, "sparse": True},
}


def main() -> None:
    """Measure each size and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--more", type=int, default=1_000_000)
    parser.add_argument("--data", type=Path, default=Path("data"), help="the default run's")
    parser.add_argument("--child", nargs=2, help="run one student in this process")
    args = parser.parse_args()
    if args.child:
        print(json.dumps(measured(Path(args.child[0]), args.child[1], args.data)))
        return
    found = []
    for rows in (args.rows, args.more):
        with tempfile.TemporaryDirectory() as folder:
            lay_out(Path(folder), rows, args.data)
            for student in STUDENTS:
                command = [sys.executable, __file__, "--data", str(args.data), "--child", folder, student]
                said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
                found.append({"student": student, "texts": f"{rows:,}", **json.loads(said.splitlines()[-1])})
    options = f"--rows {args.rows} --more {args.more}"
    report("train_memory", found, f"python benchmarks/bench_train_memory.py {options}")


def lay_out(folder: Path, rows: int, data: Path) -> None:
    """Texts, vectors, their PCA and a params file."""
    glosses = pl.read_parquet(data / "corpus" / "corpus.parquet", columns=["text"])["text"].to_list()
    made = [f"{glosses[row % len(glosses)]} {row // len(glosses)}" for row in range(rows)]
    ids = random_ids(rows)
    split = ["dev"] * DEV_ROWS + ["train"] * (rows - DEV_ROWS)
    table = pl.DataFrame({"text_id": ids, "text": made, "source": "made", "split": split})
    texts.write(table, texts.CORPUS_SCHEMA, folder / "corpus.parquet")
    vectors = publish(folder / "vectors" / "corpus", ids, DIM, VIEW)
    (folder / "pca").mkdir()
    fitted = pca.fit((batch for _, batch in vectors.batches(VIEW)), DIM, centre=True)
    pca.write(fitted, folder / "pca" / f"{VIEW}.safetensors")
    params = YAML(typ="safe").load(Path("params.yaml"))
    params["runtime"] = {"cache": str(folder / "cache")}
    params["students"] = {
        name: {
            **STUDENTS[name],
            "view": VIEW,
            "loss": {"kind": "mse"},
            "train": {
                "texts": ["corpus"],
                "epochs": min(1.0, TRANSFORMER_ROWS / rows) if name == "transformer" else 1,
                "evaluations": 1,
                **TRAIN[name],
            },
            "finetune": None,
        }
        for name in STUDENTS
    }
    with (folder / "params.yaml").open("w") as file:
        YAML(typ="safe").dump(params, file)


def measured(folder: Path, student: str, data: Path) -> dict[str, float]:
    """The stage in this process: seconds and peak memory."""
    from pipeline.train.distillation import distill

    begun = time.perf_counter()
    distill.main(
        student,
        corpus=folder / "corpus.parquet",
        gated=folder,
        vectors=folder / "vectors",
        teacher=data / "teacher",
        facts=data / "teacher_facts.json",
        vocabulary=data / "vocabulary/static",
        pca=folder / "pca",
        out=folder / student / "distilled",
        untrained=folder / student / "untrained",
        curve=folder / f"{student}.tsv",
        metrics_file=folder / f"{student}.json",
        params_file=folder / "params.yaml",
    )
    seconds = time.perf_counter() - begun
    with Path("/proc/self/status").open() as status:
        peak = next(float(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))
    return {"seconds": seconds, "peak MB": peak / 1e6}


if __name__ == "__main__":
    main()
