"""Published vector sets of random vectors, for the benchmarks that read them."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipeline.params.teacher import Encode
from pipeline.teacher.encoding.store.filling import partition
from pipeline.vectors.sets.published import VectorSet, open_set, write_manifest
from pipeline.vectors.sets.shards import write_shard


def random_ids(rows: int) -> NDArray[np.uint64]:
    """Text ids, ascending."""
    return np.sort(np.random.default_rng(1).integers(0, 2**64 - 1, rows, np.uint64))


def publish(folder: Path, ids: NDArray[np.uint64], dim: int, view: str) -> VectorSet:
    """Write a set as `encode` does: vectors with a mean and a falling spectrum, in shards of default size."""
    random = np.random.default_rng(0)
    mean, scale = random.standard_normal(dim, np.float32), np.linspace(1, 0.05, dim, dtype=np.float32)
    shards = partition(ids, Encode.model_fields["shard_rows"].default)
    (folder / view).mkdir(parents=True)
    for shard in shards:
        vectors = random.standard_normal((shard.rows, dim), np.float32) * scale + mean
        columns = {view: vectors.astype(np.float16)}
        write_shard(ids[shard.start : shard.stop], columns, folder / view / shard.name)
    write_manifest(folder / view, {"rows": len(ids)}, dim, {one.name: one.rows for one in shards})
    return open_set(folder)
