"""Exact scoring of retrieval: memory by the size of the collection, beside the vectors, which lie in a file.

`python benchmarks/bench_retrieval_memory.py [--rows N ...] [--queries N] [--types float16 float32]`: random
vectors of 384 dimensions, 100 documents a query. Every run is a process of its own. Counted is the memory
that the process has to itself (RssAnon), which pages of the file are not, beyond what it had with the task's
rows read. Rows of other sizes stay in the results. `PYTHONPATH=CHECKOUT` measures other code.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from itertools import product
from pathlib import Path

import numpy as np
import polars as pl
from measuring import RESULTS, report

from pipeline.tasks import pairs, retrieval
from pipeline.tasks.embeddings import Embeddings

DIM = 384
ROWS_AT_A_TIME = 50_000
KEYS = ("documents", "queries", "vectors")


def main() -> None:
    """Measure each size and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[200_000, 800_000], help="documents")
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--types", nargs="+", choices=("float16", "float32"), default=["float16", "float32"])
    parser.add_argument("--child", nargs=2, help="score the vectors of this file, of this type, here")
    args = parser.parse_args()
    if args.child:
        print(json.dumps(measured(Path(args.child[0]), args.child[1], args.queries)))
        return
    path, found = RESULTS / "retrieval_memory.json", []
    for rows, kind in product(args.rows, args.types):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "vectors.bin"
            write(file, rows + args.queries, kind)
            command = [sys.executable, __file__, "--child", str(file), kind, "--queries", str(args.queries)]
            said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        row = {"documents": f"{rows:,}", "queries": f"{args.queries:,}", "vectors": kind}
        found.append({**row, **json.loads(said.splitlines()[-1])})
    new = [tuple(row[key] for key in KEYS) for row in found]
    earlier = json.loads(path.read_text())["rows"] if path.exists() else []
    kept = [row for row in earlier if tuple(row.get(key) for key in KEYS) not in new]
    sizes = " ".join(map(str, args.rows))
    options = f"--rows {sizes} --queries {args.queries} --types {' '.join(args.types)}"
    report("retrieval_memory", [*kept, *found], f"python benchmarks/bench_retrieval_memory.py {options}")


def write(file: Path, rows: int, kind: str) -> None:
    """A file of random vectors."""
    random = np.random.default_rng(0)
    with file.open("wb") as out:
        for start in range(0, rows, ROWS_AT_A_TIME):
            count = min(ROWS_AT_A_TIME, rows - start)
            out.write(random.standard_normal((count, DIM), np.float32).astype(kind).data)


def measured(file: Path, kind: str, queries: int) -> dict[str, float]:
    """Scoring in this process: seconds and peak memory."""
    vectors = np.memmap(file, kind, "r").reshape(-1, DIM)
    ids = np.arange(len(vectors), dtype=np.uint64)
    columns = {
        "left_id": pl.Series([*range(queries)] + [None] * (len(ids) - 2 * queries), dtype=pl.UInt64),
        "right_id": ids[queries:],
    }
    score = pl.when(pl.col("left_id").is_not_null()).then(1.0)
    table = pl.DataFrame(columns).with_columns(score.cast(pairs.PAIRS_SCHEMA["score"]).alias("score"))
    embeddings, before = Embeddings(ids, vectors), own_bytes()
    highest, done = [before], threading.Event()

    def watch() -> None:
        while not done.wait(0.005):
            highest[0] = max(highest[0], own_bytes())

    watcher = threading.Thread(target=watch)
    watcher.start()
    begun = time.perf_counter()
    retrieval.search(table, embeddings)
    seconds = time.perf_counter() - begun
    done.set()
    watcher.join()
    return {"seconds": seconds, "peak MB": (highest[0] - before) / 1e6}


def own_bytes() -> float:
    """Memory that this process has to itself now."""
    with Path("/proc/self/status").open() as status:
        return next(float(line.split()[1]) * 1024 for line in status if line.startswith("RssAnon"))


if __name__ == "__main__":
    main()
