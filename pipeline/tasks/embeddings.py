"""Vectors of the evaluation texts, by text id."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipeline.core import memory
from pipeline.core.atomic import disk_errors
from pipeline.core.errors import UserError
from pipeline.params.teacher import Similarity

Ids = NDArray[np.uint64]
Vectors = NDArray[np.floating]
CHANGED_AT_A_TIME = 2048
"""Vectors that a change takes: it may need several times as much memory as they."""


@dataclass(frozen=True)
class Embeddings:
    """Vectors (n, d) of ascending ids (n,), n >= 1."""

    ids: Ids
    vectors: Vectors
    """In memory, or mapped from a file."""
    similarity: Similarity = "cosine"
    """How the model compares them."""
    change: Callable[[Vectors], Vectors] | None = None
    """What vectors (m, d) go through, each by itself, as they are asked for."""

    @property
    def dim(self) -> int:
        """Of the vectors that `of` gives."""
        return self.of(self.ids[:1]).shape[1]

    def of(self, wanted: Ids) -> Vectors:
        """The vectors of these ids, in their order, in memory; every id must be there.

        Raises:
            UserError: one is not.
        """
        found = self._of(wanted)
        memory.let_go(self.vectors)
        return found

    def _of(self, wanted: Ids) -> Vectors:
        rows = np.searchsorted(self.ids, wanted)
        if len(wanted) and not np.array_equal(self.ids[np.minimum(rows, len(self.ids) - 1)], wanted):
            raise UserError(
                "data/vectors/eval lacks the vector of an evaluation text; run `dvc repro -f encode@eval`"
            )
        if self.change is None:
            return self.vectors[rows]
        found = self.change(self.vectors[rows[:CHANGED_AT_A_TIME]])
        if len(rows) <= CHANGED_AT_A_TIME:
            return found
        whole = np.empty((len(rows), found.shape[1]), found.dtype)
        whole[: len(found)] = found
        for start in range(len(found), len(rows), CHANGED_AT_A_TIME):
            some = slice(start, start + CHANGED_AT_A_TIME)
            whole[some] = self.change(self.vectors[rows[some]])
        return whole


def in_file(path: Path, ids: Ids, blocks: Iterable[Vectors], similarity: Similarity = "cosine") -> Embeddings:
    """Embeddings whose vectors, as float32, lie in a file and are read as they are asked for.

    Args:
        path: the file, which is made anew.
        ids: (n,), ascending, n >= 1.
        blocks: their vectors (n, d), some at a time.
        similarity: how the model compares them.

    Raises:
        UserError: the disk is full.
    """
    dim = 0
    path.unlink(missing_ok=True)  # what is still mapped from it stays as it is
    with disk_errors(path), path.open("wb") as file:
        for block in blocks:
            file.write(np.ascontiguousarray(block, np.float32).data)  # tofile does not notice a full disk
            dim = block.shape[1]
    return Embeddings(ids, np.memmap(path, np.float32, "r", shape=(len(ids), dim)), similarity)
