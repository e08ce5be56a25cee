"""One shard of a text set: from the store where possible, else from the teacher; published as a file."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipeline.artifacts.store import VectorStore
from pipeline.artifacts.vectors import Half, Ids, write_shard
from pipeline.core.errors import UserError

ID_BITS = 64

EncodeTexts = Callable[[Sequence[str], Sequence[str]], Mapping[str, NDArray[np.float32]]]
"""Texts and views -> vectors (n, d) of each view."""


@dataclass(frozen=True)
class Shard:
    """The rows of a text set whose ids share a prefix."""

    name: str
    start: int
    stop: int

    @property
    def rows(self) -> int:
        """How many texts it holds."""
        return self.stop - self.start


def partition(ids: Ids, shard_rows: int) -> list[Shard]:
    """Split ascending ids by prefix into a power of two of shards of about `shard_rows` rows or fewer.

    A shard's ids depend on the set's size alone, so each is computed, checked and published on its own.
    """
    bits = max(0, math.ceil(math.log2(max(1, len(ids)) / shard_rows)))
    edges = [index << (ID_BITS - bits) for index in range(1, 1 << bits)]
    cuts = [0, *np.searchsorted(ids, np.array(edges, np.uint64)).tolist(), len(ids)]
    return [Shard(f"{i:05d}.parquet", cuts[i], cuts[i + 1]) for i in range(1 << bits)]


def encode_shard(
    ids: Ids,
    texts: Sequence[str],
    dims: Mapping[str, int],
    store: VectorStore,
    encode: EncodeTexts,
    path: Path,
) -> int:
    """Write the vectors of ascending `ids` to `path`; only texts the store lacks are encoded, and kept there.

    Args:
        ids: (n,), ascending.
        texts: their texts.
        dims: the views wanted and their dimensions.
        store: where vectors are looked up and kept.
        encode: the teacher.
        path: the shard to write.

    Returns:
        How many texts were encoded.

    Raises:
        UserError: the teacher gave a value that is not finite.
    """
    columns: dict[str, Half] = {}
    lacking: dict[str, NDArray[np.int64]] = {}
    for view, dim in dims.items():
        present, vectors = store.load(ids, view)
        columns[view] = np.empty((len(ids), dim), np.float16) if vectors is None else vectors
        lacking[view] = np.flatnonzero(~present)
    rows = np.unique(np.concatenate(list(lacking.values())))
    if len(rows):
        wanted = [view for view in dims if len(lacking[view])]
        fresh = encode([texts[row] for row in rows], wanted)
        halves = {view: _half(fresh[view], ids[rows], view) for view in wanted}
        for view, half in halves.items():
            new = half[np.searchsorted(rows, lacking[view])]
            columns[view][lacking[view]] = new
            store.add(ids[lacking[view]], view, new)
    write_shard(ids, columns, path)
    return len(rows)


def _half(vectors: NDArray[np.float32], ids: Ids, view: str) -> Half:
    """The vectors as float16, once they are known to be finite there."""
    with np.errstate(over="ignore"):
        half = vectors.astype(np.float16)
    bad = ~np.isfinite(half).all(axis=1)
    if bad.any():
        raise UserError(
            f"the teacher gave NaN, infinite or too large values for {bad.sum()} texts in view {view!r} "
            f"(first text_id {ids[bad][0]}); set teacher.precision to float32 or check its weights"
        )
    return half
