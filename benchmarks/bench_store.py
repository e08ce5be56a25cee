"""Reading published vectors: against polars, Arrow, a memory-mapped array, and hashing the files.

`python benchmarks/bench_store.py [--rows N] [--rounds N]`. All that is read lies in the page cache.
"""

import argparse
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import torch
from measuring import Contenders, interleaved, report, speedup
from vector_sets import publish, random_ids

from pipeline.core import fingerprint
from pipeline.vectors.sets.published import VectorSet
from pipeline.vectors.sets.shards import column

VIEW, DIM = "sentence", 384
COLUMNS = ["text_id", VIEW]


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        one = publish(folder / "one", random_ids(args.rows), DIM, VIEW)
        one.read(VIEW)[1].tofile(folder / "raw")
        contenders: Contenders = {
            "polars, read_parquet": partial(with_polars, one),
            "Arrow, read_table": partial(with_arrow, one),
            "ours, whole set": partial(one.read, VIEW),
            "ours, shard by shard": partial(shard_by_shard, one),
            "ours, to torch": partial(to_torch, one),
            "SHA-256 of the files": partial(hashed, one),
            "np.memmap, copied": partial(copied, folder / "raw", one.rows),
        }
        seconds = interleaved(contenders, args.rounds)
    size = one.rows * DIM * 2 / 1e9
    rows: list[dict[str, object]] = [
        {
            "reader": name,
            "GB/s": float(np.median(size / np.array(seconds[name]))),
            "against polars": speedup(seconds, name, next(iter(contenders))),
        }
        for name in contenders
    ]
    command = f"python benchmarks/bench_store.py --rows {args.rows} --rounds {args.rounds}"
    report("store", rows, command, ratios=["against polars"])


def with_polars(vectors: VectorSet) -> object:
    """As anyone would read it; nothing is checked."""
    table = pl.read_parquet(sorted((vectors.path / VIEW).glob("*.parquet")), columns=COLUMNS)
    return table["text_id"].to_numpy(), table[VIEW].to_numpy()


def with_arrow(vectors: VectorSet) -> object:
    """Through Arrow's own Parquet reader; nothing is checked."""
    paths = sorted((vectors.path / VIEW).glob("*.parquet"))
    tables = [pq.read_table(path, columns=COLUMNS) for path in paths]
    return np.concatenate([column(table, VIEW) for table in tables])


def shard_by_shard(vectors: VectorSet) -> int:
    """One shard at a time in memory, as the PCA reads."""
    return sum(len(ids) for ids, _ in vectors.batches(VIEW))


def to_torch(vectors: VectorSet) -> torch.Tensor:
    """A float16 tensor of the whole set."""
    return torch.from_numpy(vectors.read(VIEW)[1])


def hashed(vectors: VectorSet) -> list[str]:
    """What the check against the manifest costs on one core."""
    return [fingerprint.of_bytes(path.read_bytes()) for path in (vectors.path / VIEW).glob("*.parquet")]


def copied(path: Path, rows: int) -> np.ndarray:
    """The same numbers from a file of nothing else."""
    return np.array(np.memmap(path, np.float16, "r", shape=(rows, DIM)))


if __name__ == "__main__":
    main()
