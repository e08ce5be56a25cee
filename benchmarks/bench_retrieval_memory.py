"""Scoring of retrieval: memory by the size of the collection, beside the vectors, which lie in a file.

`python benchmarks/bench_retrieval_memory.py [--rows N ...] [--queries N] [--types float16 float32]`: exact
search among random vectors of 384 dimensions, 100 documents a query. Every run is a process of its own.
Counted is the memory that the process has to itself (RssAnon), which pages of the file are not, beyond what
it had with the task's rows read. Rows of other sizes stay in the results. `PYTHONPATH=CHECKOUT` measures
other code.

With `--ivf` it is the index IVF of `evaluate.indexes`, with its defaults or `--nlist` and `--nprobe`, on one
thread, as `evaluate` builds and asks it. Vectors then lie in 4,096 clusters, as an index needs some order.
What it finds is compared with the exact documents of 200 queries. The disk has to have room for two files of
the documents as float32.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path

import numpy as np
import polars as pl
from measuring import RESULTS, report
from threadpoolctl import threadpool_limits

from pipeline.params.search import IvfIndex
from pipeline.score.evaluation.searches import indexes
from pipeline.tasks import pairs, ranking, retrieval
from pipeline.tasks.embeddings import Embeddings

DIM = 384
CLUSTERS, SPREAD = 4096, 2.0
ROWS_AT_A_TIME = 50_000
COMPARED = 200
KEYS = ("documents", "queries", "vectors", "nlist", "nprobe")


def main() -> None:
    """Measure each size and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[200_000, 800_000], help="documents")
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--types", nargs="+", choices=("float16", "float32"), default=["float16", "float32"])
    parser.add_argument("--ivf", action="store_true", help="search by an index")
    parser.add_argument("--nlist", type=int, default=IvfIndex.model_fields["nlist"].default)
    parser.add_argument("--nprobe", type=int, default=IvfIndex.model_fields["nprobe"].default)
    parser.add_argument("--child", nargs=2, help="score the vectors of this file, of this type, here")
    args = parser.parse_args()
    spec = IvfIndex(kind="ivf", nlist=args.nlist, nprobe=args.nprobe)
    if args.child:
        file, kind = Path(args.child[0]), args.child[1]
        told = (
            measured_ivf(file, kind, args.queries, spec) if args.ivf else measured(file, kind, args.queries)
        )
        print(json.dumps(told))
        return
    name = "retrieval_memory_ivf" if args.ivf else "retrieval_memory"
    path, found = RESULTS / f"{name}.json", []
    for rows, kind in product(args.rows, args.types):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "vectors.bin"
            write(file, rows + args.queries, kind, clustered=args.ivf)
            command = [sys.executable, __file__, "--child", str(file), kind, "--queries", str(args.queries)]
            if args.ivf:
                command += ["--ivf", "--nlist", str(args.nlist), "--nprobe", str(args.nprobe)]
            said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        row = {"documents": f"{rows:,}", "queries": f"{args.queries:,}", "vectors": kind}
        row |= {"nlist": str(args.nlist), "nprobe": str(args.nprobe)} if args.ivf else {}
        found.append({**row, **json.loads(said.splitlines()[-1])})
    new = [tuple(row.get(key) for key in KEYS) for row in found]
    earlier = json.loads(path.read_text())["rows"] if path.exists() else []
    kept = [row for row in earlier if tuple(row.get(key) for key in KEYS) not in new]
    sizes = " ".join(map(str, args.rows))
    options = f"--rows {sizes} --queries {args.queries} --types {' '.join(args.types)}"
    options += f" --ivf --nlist {args.nlist} --nprobe {args.nprobe}" if args.ivf else ""
    report(name, [*kept, *found], f"python benchmarks/bench_retrieval_memory.py {options}")


def write(file: Path, rows: int, kind: str, *, clustered: bool) -> None:
    """A file of random vectors."""
    random = np.random.default_rng(0)
    centres = random.standard_normal((CLUSTERS, DIM), np.float32) if clustered else None
    with file.open("wb") as out:
        for start in range(0, rows, ROWS_AT_A_TIME):
            count = min(ROWS_AT_A_TIME, rows - start)
            vectors = random.standard_normal((count, DIM), np.float32)
            if centres is not None:
                vectors = centres[random.integers(CLUSTERS, size=count)] + SPREAD * vectors
            out.write(vectors.astype(kind).data)


@contextmanager
def peak(before: float | None = None) -> Iterator[dict[str, float]]:
    """Of the block: seconds, CPU seconds, most memory beyond `before`, or what there was; set at its end."""
    before, found = own_bytes() if before is None else before, dict[str, float]()
    highest, done = [own_bytes()], threading.Event()

    def watch() -> None:
        while not done.wait(0.005):
            highest[0] = max(highest[0], own_bytes())

    watcher = threading.Thread(target=watch)
    watcher.start()
    begun, used = time.perf_counter(), time.process_time()
    yield found
    found |= {"seconds": time.perf_counter() - begun, "CPU s": time.process_time() - used}
    done.set()
    watcher.join()
    found["peak MB"] = (highest[0] - before) / 1e6


def measured_ivf(file: Path, kind: str, queries: int, spec: IvfIndex) -> dict[str, float]:
    """An index in this process: time and peak memory to build and to ask it, and what it finds."""
    vectors = np.memmap(file, kind, "r").reshape(-1, DIM)
    embeddings = Embeddings(np.arange(len(vectors), dtype=np.uint64), vectors)
    asked = ranking.searchable(embeddings, embeddings.ids[:queries])
    wanted, before = embeddings.ids[queries:], own_bytes()
    with threadpool_limits(1), peak(before) as stored:
        documents = indexes.stored(embeddings, wanted, file.with_name("documents.bin"))
    del embeddings, vectors
    file.unlink()  # the index's lists want the room
    blocks = np.array_split(documents, range(ROWS_AT_A_TIME, len(documents), ROWS_AT_A_TIME))
    exact = ranking.exact(blocks, asked[:COMPARED])
    with threadpool_limits(1), peak(before) as build:
        index = indexes.build(spec, documents)
    with threadpool_limits(1), peak(before) as search:
        found = indexes.search(index, asked)
    told = {f"build {what}": stored[what] + build[what] for what in ("seconds", "CPU s")}
    told["build peak MB"] = max(stored["peak MB"], build["peak MB"])
    told |= {f"search {what}": value for what, value in search.items()}
    both = (found.rows[:COMPARED, :10, None] == exact.rows[:, None, :10]).any(axis=2)
    return {**told, "recall@10": float(both.mean())}


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
    embeddings = Embeddings(ids, vectors)
    with peak() as found:
        retrieval.search(table, embeddings)
    return {what: found[what] for what in ("seconds", "peak MB")}


def own_bytes() -> float:
    """Memory that this process has to itself now."""
    with Path("/proc/self/status").open() as status:
        return next(float(line.split()[1]) * 1024 for line in status if line.startswith("RssAnon"))


if __name__ == "__main__":
    main()
