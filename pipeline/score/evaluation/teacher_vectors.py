"""The teacher's cached vectors of all texts that are scored, in files, and what a student learns of them."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipeline.core.memory import in_parts
from pipeline.params.teacher import Similarity
from pipeline.tasks.embeddings import Embeddings, Ids, Vectors, in_file
from pipeline.tasks.ranking import ROWS_AT_A_TIME
from pipeline.vectors.sets import published
from pipeline.vectors.sets.shards import Half
from pipeline.vectors.space import pca
from pipeline.vectors.space.targets import reduced_similarity

Sources = list[tuple[published.VectorSet, Ids]]
"""Vector sets, and which ids are taken from each, ascending."""


class TeacherVectors:
    """The teacher's vectors of some texts; each view is written to a file when it is first asked for.

    Args:
        sources: where they lie. The first is read some at a time, of the others what is taken is in memory.
        ids: all of them, ascending.
        folder: for the files.
    """

    def __init__(self, sources: Sources, ids: Ids, folder: Path) -> None:
        self._sources, self._ids, self._folder = sources, ids, folder
        self._views: dict[str, Embeddings] = {}

    def of(self, view: str) -> Embeddings:
        """The vectors of a view, compared as the teacher does."""
        if view not in self._views:
            file, similarity = self._folder / f"view-{view}.bin", self._sources[0][0].similarity(view)
            self._views[view] = in_file(file, self._ids, _merged(self._sources, view), similarity)
        return self._views[view]

    def target(self, view: str, dim: int, pca_folder: Path) -> Embeddings:
        """What a student of so many dimensions learns: the view, or its first principal components."""
        whole = self.of(view)
        if dim >= whole.dim:
            return whole
        fitted = pca.read(pca_folder, view)
        kept = min(dim, fitted.rank)
        similarity = reduced_similarity(whole.similarity, fitted)
        return changed(whole, lambda rows: fitted.reduce(rows, kept), self._folder / "target.bin", similarity)


def changed(
    whole: Embeddings, change: Callable[[Vectors], NDArray[np.float32]], file: Path, similarity: Similarity
) -> Embeddings:
    """Vectors after a change, in a file of their own."""
    blocks = map(change, in_parts(whole.vectors, ROWS_AT_A_TIME))
    return in_file(file, whole.ids, blocks, similarity)


def _merged(sources: Sources, view: str) -> Iterator[Half]:
    """The vectors of the ids of all sources, ascending, some at a time."""
    (first, own), *others = sources
    rest = np.concatenate([np.empty(0, np.uint64), *(ids for _, ids in others)])
    order = np.argsort(rest)
    rest_vectors = [part for vector_set, ids in others for part in vector_set.of(ids, view)]
    held = np.concatenate([np.empty((0, first.dims[view]), np.float16), *rest_vectors])[order]
    rest, done = rest[order], 0
    for part in first.of(own, view):
        part_ids, done = own[done : done + len(part)], done + len(part)
        upto = int(np.searchsorted(rest, part_ids[-1])) if len(part) else 0
        between = np.argsort(np.concatenate([part_ids, rest[:upto]]))
        yield np.concatenate([part, held[:upto]])[between]
        rest, held = rest[upto:], held[upto:]
    yield held
