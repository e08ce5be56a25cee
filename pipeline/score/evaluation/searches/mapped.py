"""Indexes that hold no copy of the documents in memory: their vectors stay in files, mapped.

They find what faiss' indexes in memory find, in the same order, with equal scores.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from pipeline.core import memory
from pipeline.core.atomic import disk_errors
from pipeline.params.search import HnswIndex, Index, IvfIndex
from pipeline.tasks.ranking import ROWS_AT_A_TIME, Rows, Searchable

if TYPE_CHECKING:
    import faiss

IN_MEMORY = 1 << 28
"""Bytes of vectors that an index copies into memory; more of them stay in their file."""
ID, NUMBER = 8, 4
ROOM = 2
"""How many times their vectors lists in memory take, which grow as they are filled."""
LINK, OF_NODE = 4, 12
"""Bytes in a graph."""
OF_CENTROID = 256
"""Vectors that faiss takes at most to find one."""


def stays(documents: Searchable) -> bool:
    """Whether an index leaves these vectors in a file."""
    return isinstance(documents, np.memmap) and documents.nbytes > IN_MEMORY


def held(spec: Index, rows: int, dim: int, *, in_memory: bool | None = None) -> int:
    """Bytes of memory that an index of documents (rows, dim) takes, or takes while it is made.

    Args:
        spec: the index.
        rows: how many documents.
        dim: of their vectors.
        in_memory: whether it copies them where it can do without; as many as `IN_MEMORY`, if not told.
    """
    vectors = rows * dim * NUMBER
    if isinstance(spec, HnswIndex):
        return vectors + rows * (2 * spec.m * LINK + OF_NODE)
    if vectors <= IN_MEMORY if in_memory is None else in_memory:
        return vectors * (ROOM if isinstance(spec, IvfIndex) else 1)
    return min(rows, OF_CENTROID * spec.nlist) * dim * NUMBER if isinstance(spec, IvfIndex) else 0


class Flat:
    """Exact search of vectors where they lie, as faiss' IndexFlat searches its copy."""

    def __init__(self, documents: Searchable, metric: int) -> None:
        """Of documents (n, d), compared by one of faiss' metrics."""
        self.documents, self.metric_type = documents, metric
        self.ntotal = len(documents)

    def search(self, queries: Searchable, depth: int) -> tuple[Searchable, Rows]:
        """Values and rows of the nearest documents, (queries, depth) each."""
        import faiss

        found = faiss.knn(queries, self.documents, depth, self.metric_type)
        memory.let_go(self.documents)
        return found

    @property
    def saved_bytes(self) -> int:
        """What faiss' index takes as a file."""
        import faiss

        empty = faiss.IndexFlat(self.documents.shape[1], self.metric_type)
        return counted(faiss.write_index, empty) + self.documents.nbytes


def add(index: "faiss.IndexIVFFlat", documents: Searchable) -> None:
    """Put documents (n, d), mapped from a file, into a trained and empty index whose lists lie in one beside.

    The file has no name any more when this ends: its room is free again once the index is gone.

    Args:
        index: gets the lists, as faiss' OnDiskInvertedLists.
        documents: read block by block; each list of a block is written at once to its place.

    Raises:
        UserError: the disk is full.
    """
    import faiss

    nearest = index.quantizer.assign(documents, 1).ravel()  # all at once: a short block is rounded otherwise
    memory.let_go(documents)
    sizes = np.bincount(nearest, minlength=index.nlist)
    starts = np.concatenate([[0], np.cumsum(sizes)]) * (index.code_size + ID)
    file = Path(cast("Any", documents).filename).with_suffix(".lists")
    lists = faiss.OnDiskInvertedLists(index.nlist, index.code_size, str(file))
    places: Any = lists.lists
    places.clear()
    for size, start in zip(sizes.tolist(), starts.tolist(), strict=False):
        one = faiss.OnDiskOneList()
        one.size, one.capacity, one.offset = size, size, start
        places.push_back(one)
    try:
        with disk_errors(file):
            _write(file, documents, nearest, sizes, starts)
        lists.totsize, lists.read_only = int(starts[-1]), True
        lists.prefetch_nthread = 0  # the threads are the caller's choice
        lists.do_mmap()
    finally:
        file.unlink(missing_ok=True)  # the mapping stays
    index.replace_invlists(lists, True)
    cast("Any", lists).this.disown()
    index.ntotal = len(documents)


def _write(file: Path, documents: Searchable, nearest: Rows, sizes: Rows, starts: Rows) -> None:
    """All lists, as faiss maps them: the vectors of each and then their rows, both by rising row."""
    bytes_each = documents.shape[1] * documents.itemsize
    vectors_at, rows_at = starts[:-1].copy(), starts[:-1] + sizes * bytes_each
    with file.open("wb") as out:
        first = 0
        for block in memory.in_parts(documents, ROWS_AT_A_TIME):
            of_block = nearest[first : first + len(block)]
            order = np.argsort(of_block, kind="stable")
            vectors, rows = block[order], order + first
            first += len(block)
            counts = np.bincount(of_block, minlength=len(sizes))
            stops = np.cumsum(counts)
            for one in np.flatnonzero(counts):
                some = slice(stops[one] - counts[one], stops[one])
                out.seek(vectors_at[one])
                out.write(vectors[some].data)
                out.seek(rows_at[one])
                out.write(rows[some].data)
            vectors_at += counts * bytes_each
            rows_at += counts * ID


def saved_bytes(index: "faiss.IndexIVFFlat", lists: "faiss.OnDiskInvertedLists") -> int:
    """What an index with these lists takes as a file that holds them."""
    import faiss

    none = faiss.ArrayInvertedLists(index.nlist, index.code_size)
    frame = counted(faiss.write_index, index) - counted(faiss.write_InvertedLists, lists)
    filled = sum(lists.list_size(one) > 0 for one in range(index.nlist))
    sizes = (
        index.nlist if filled > index.nlist // 2 else 2 * filled
    )  # of all, or of some beside their numbers
    entries = index.ntotal * (index.code_size + ID)
    return frame + counted(faiss.write_InvertedLists, none) + ID * sizes + entries


def counted(write: Callable[[Any, Any], None], what: object) -> int:
    """Bytes that one of faiss' writers writes."""
    import faiss

    sizes: list[int] = []
    write(what, cast("Any", faiss).PyCallbackIOWriter(lambda part: sizes.append(len(part))))
    return sum(sizes)
