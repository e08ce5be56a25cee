"""Hard negatives: texts that the teacher places near an anchor, though they are none of its positives."""

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.core import memory
from pipeline.core.atomic import disk_errors
from pipeline.core.progress import say
from pipeline.data.common.texts import first_of_same
from pipeline.params.corpus import Mine
from pipeline.tasks import pairs
from pipeline.vectors.sets.published import VectorSet, rows_of
from pipeline.vectors.sets.shards import Ids, places

VIEW = "sentence"
PART_BYTES = 64 << 20
"""Of the vectors that are taken up at a time: candidates, or what is near some anchors."""
FOUND_BYTES = 12
"""Of a text that a search finds: its row and its cosine."""
CELL_SAMPLE = 64
"""Vectors a cell that the cells are learnt from."""
SEED, ROUNDS = 1234, 10
"""Of what the cells start from; of k-means. These are faiss' own: more rounds hardly find more."""
ASKED = 100
"""Anchors, at most, whose nearest are looked for exactly too, to say how many of them the cells find."""
PROBES = 32
"""Cells that are searched for an anchor."""
SPARE = 16
"""Texts that are searched for beyond those looked at: ids decide between equally near ones, in the last place
too, which the search leaves open."""

Rows = NDArray[np.int64]
Unit = NDArray[np.float32]
Search = Callable[[Unit, int], Rows]
"""Anchors (n, d) and k to the rows of the k nearest candidates, (n, k); -1 where there are fewer."""


@dataclass
class Counts:
    """What mining did."""

    triplets: int = 0
    mined: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    """Near texts by the first reason that speaks against them."""
    recall: dict[str, float] = field(default_factory=dict)
    """By task that is searched by cells: of the `top_k` nearest to some anchors, the share that is found."""
    documents: dict[str, int] = field(default_factory=dict)
    """By task with a collection: its documents, but for those that triplets name."""
    from_documents: int = 0
    """Mined negatives that are such documents."""
    cosines: dict[str, tuple[float, int]] = field(default_factory=dict)
    """Sum and number of the teacher's cosines of anchors to their positives, given and mined negatives."""

    def add_cosines(self, name: str, cosines: NDArray[np.float32]) -> None:
        """Count cosines of any shape."""
        total, number = self.cosines.get(name, (0.0, 0))
        self.cosines[name] = total + float(cosines.sum(dtype=np.float64)), number + cosines.size

    def metrics(self) -> dict[str, Any]:
        """As reported."""
        means = {name: total / number for name, (total, number) in self.cosines.items() if number}
        return {
            "triplets": self.triplets,
            "mined": self.mined,
            "dropped": {reason: count for reason, count in self.dropped.items() if count},
            "mean_cosine": means,
            **({"approximate": ", ".join(self.recall), "recall": self.recall} if self.recall else {}),
            **(
                {"collection": {"documents": self.documents, "mined": self.from_documents}}
                if self.documents
                else {}
            ),
        }


def unit_vectors(vector_set: VectorSet, path: Path) -> tuple[Ids, Unit]:
    """Ids (n,) and `sentence` vectors (n, d) at length 1, which lie in a file and are read as needed.

    Raises:
        UserError: the disk is full.
    """
    ids = [np.empty(0, np.uint64)]
    with disk_errors(path), path.open("wb") as file:
        for part_ids, part in vector_set.batches(VIEW):
            vectors = part.astype(np.float32)
            lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
            np.divide(vectors, lengths, out=vectors, where=lengths > 0)
            file.write(vectors.data)  # tofile does not notice a full disk
            ids.append(part_ids)
    known = np.concatenate(ids)
    shape = (len(known), vector_set.dims[VIEW])
    return known, np.memmap(path, np.float32, "r", shape=shape) if len(known) else np.empty(shape, np.float32)


class Miner:
    """Finds hard negatives for triplets of all tasks.

    Args:
        triplets: all of them; what any of them calls an anchor's positive is no negative of it, nor the other
            way round; likewise with rows of the score PASSED_OVER. Rows without a left are documents that
            negatives of their task may be, beside the positives and given negatives of its triplets.
        ids: (n,) ascending, of all texts.
        vectors: (n, d) the teacher's, at length 1.
        path: the vectors' folder, for messages.

    Raises:
        UserError: a triplet names a text without a vector.
    """

    def __init__(self, triplets: pl.DataFrame, ids: Ids, vectors: Unit, params: Mine, path: Path) -> None:
        self._documents = triplets.filter(pl.col("left_id").is_null())
        self._triplets = triplets.filter(pairs.IS_TRIPLET).sort(pairs.SORT, nulls_last=False)
        self._ids, self._vectors, self._params, self._path = ids, vectors, params, path
        known = triplets.drop_nulls("left_id")
        # A text in another role is the same text.
        self._same = first_of_same(ids)
        anchors, positives = (self._same[self._rows(known[side])] for side in ("left_id", "right_id"))
        self._known = np.unique([self._pair(anchors, positives), self._pair(positives, anchors)])

    def mine(self) -> tuple[pl.DataFrame, Counts]:
        """The triplets, in the order of `pairs.write`, with mined negatives after the given ones."""
        counts = Counts()
        parts = [self._triplets.clear()]
        for (name,), triplets in self._triplets.group_by("task", maintain_order=True):
            named = np.unique(self._rows(pl.concat([triplets["right_id"], _given(triplets)])))
            candidates = self._candidates(str(name), named, len(triplets), counts)
            if self._by_cells(len(candidates), len(triplets)):
                search = approximate_search(self._vectors, candidates)
                counts.recall[str(name)] = self._recall(search, candidates, triplets["left_id"])
            else:
                search = exact_search(self._vectors, candidates)
            wanted = min(self._params.top_k + SPARE, len(candidates))
            size = max(1, _rows_at_a_time(self._vectors) // wanted)
            most = min(_rows_at_a_time(self._vectors), PART_BYTES // (FOUND_BYTES * wanted))
            for searched in triplets.iter_slices(max(1, most)):
                near = search(self._vectors[self._rows(searched["left_id"])], wanted)
                for start in range(0, len(searched), size):
                    part = slice(start, start + size)
                    parts.append(self._with_mined(searched[part], near[part], named, counts))
        return pl.concat(parts), counts

    def _by_cells(self, candidates: int, anchors: int) -> bool:
        return candidates > self._params.exact_rows and pays(candidates, anchors)

    def _candidates(self, task: str, named: Rows, anchors: int, counts: Counts) -> Rows:
        """What negatives of a task are taken from: what its triplets name, and its collection."""
        documents = self._documents.filter(task=task)["right_id"]
        if documents.is_empty():
            return named
        every = np.union1d(named, self._rows(documents))
        counts.documents[task] = len(every) - len(named)
        way = "approximately" if self._by_cells(len(every), anchors) else "exactly"
        say(f"mine {task}: {len(every):,} texts are searched {way}, {len(named):,} of them named by triplets")
        return every

    def _with_mined(self, triplets: pl.DataFrame, near: Rows, named: Rows, counts: Counts) -> pl.DataFrame:
        """A part of a task's triplets, with negatives mined from the texts (n, k) near their anchors.

        `named`: what the task's triplets name.
        """
        anchors, positives = (self._rows(triplets[side]) for side in ("left_id", "right_id"))
        given = self._rows(_given(triplets))
        given_to = np.repeat(np.arange(len(triplets)), triplets["negative_ids"].list.len().to_numpy())
        near, cosines = self._nearest(anchors, near)
        left, same, asked = near >= 0, self._same[near], self._same[anchors][:, None]
        numbers = np.arange(len(triplets))[:, None]
        reasons = {
            "anchor": same == asked,
            "positive": places(self._known, self._pair(asked, same))[1],
            "given": np.isin(self._pair(numbers, same), self._pair(given_to, self._same[given])),
            **dict(self._too_near(anchors, positives, near, cosines)),
        }
        for reason, against in reasons.items():
            counts.dropped[reason] += int((left & against).sum())
            left &= ~against
        left &= left.cumsum(axis=1) <= self._params.negatives
        counts.triplets += len(triplets)
        counts.mined += int(left.sum())
        counts.from_documents += int((~places(named, near[left])[1]).sum())
        counts.add_cosines("positive", self._cosines(anchors, positives))
        counts.add_cosines("given", self._cosines(anchors[given_to], given))
        counts.add_cosines("mined", cosines[left])
        ends = np.concatenate([[0], left.sum(axis=1).cumsum()])
        mined = pa.LargeListArray.from_arrays(pa.array(ends), pa.array(self._ids[near[left]]))
        return triplets.with_columns(pl.concat_list("negative_ids", pl.Series(mined)).alias("negative_ids"))

    def _nearest(self, anchors: Rows, near: Rows) -> tuple[Rows, Unit]:
        """The top_k (n, k) of texts near anchors (n,), by falling cosine, then by id; and their cosines."""
        cosines = np.where(near < 0, -np.inf, self._cosines(anchors[:, None], near))
        order = np.lexsort((near, -cosines), axis=1)[:, : self._params.top_k]
        return np.take_along_axis(near, order, axis=1), np.take_along_axis(cosines, order, axis=1)

    def _recall(self, search: Search, candidates: Rows, anchors: pl.Series) -> float:
        """The share of the texts nearest to some anchors, by an exact search, that another search finds."""
        every, wanted = np.unique(self._rows(anchors)), min(self._params.top_k + SPARE, len(candidates))
        some = every[:: -(-len(every) // min(ASKED, max(1, _rows_at_a_time(self._vectors) // wanted)))]
        found, nearest = (
            self._nearest(some, one(self._vectors[some], wanted))[0]
            for one in (search, exact_search(self._vectors, candidates))
        )
        both = np.isin(self._pair(some[:, None], nearest), self._pair(some[:, None], found)[found >= 0])
        return float(both.mean())

    def _too_near(
        self, anchors: Rows, positives: Rows, near: Rows, cosines: Unit
    ) -> Iterator[tuple[str, NDArray[np.bool_]]]:
        """What each filter says against texts (n, k) near anchors (n,)."""
        params, positive = self._params, self._cosines(anchors, positives)[:, None]
        if params.max_similarity is not None:
            to_either = np.maximum(cosines, self._cosines(positives[:, None], near))
            yield "too_similar", to_either > params.max_similarity
        if params.margin is not None:
            yield "margin", cosines > positive - params.margin
        if params.percentile is not None:
            yield "percentile", cosines > params.percentile * positive

    def _cosines(self, one: Rows, other: Rows) -> Unit:
        """Of texts (...) with texts of a shape that fits."""
        return np.einsum("...d,...d->...", self._vectors[one], self._vectors[other])

    def _pair(self, one: Rows, text: Rows) -> Rows:
        """One number for two."""
        return one * len(self._ids) + text

    def _rows(self, wanted: pl.Series) -> Rows:
        return rows_of(self._ids, wanted.to_numpy(), self._path)


def exact_search(vectors: Unit, candidates: Rows) -> Search:
    """Every candidate is compared, a block at a time."""
    import faiss

    size = _rows_at_a_time(vectors)

    def search(anchors: Unit, count: int) -> Rows:
        heap = faiss.ResultHeap(len(anchors), count, keep_max=True)
        for start in range(0, len(candidates), size):
            block = faiss.IndexFlatIP(vectors.shape[1])
            block.add(vectors[candidates[start : start + size]])
            cosines, found = block.search(anchors, min(count, block.ntotal))
            heap.add_result(cosines, found + start)
        heap.finalize()
        return candidates[heap.I]

    return search


def pays(candidates: int, anchors: int) -> bool:
    """Whether to make cells and to search some compares fewer pairs of vectors than an exact search does."""
    cells = int(4 * math.sqrt(candidates))
    made = cells * (ROUNDS * min(candidates, CELL_SAMPLE * cells) + candidates)
    return made + anchors * (cells + PROBES * candidates // cells) < anchors * candidates


def approximate_search(vectors: Unit, candidates: Rows) -> Search:
    """The cells nearest to an anchor are searched."""
    import faiss

    cells, dim = int(4 * math.sqrt(len(candidates))), vectors.shape[1]
    # Candidates as float16 with their numbers, and what the cells are learnt from as float32.
    size = len(candidates) * (2 * dim + 8) + min(len(candidates), CELL_SAMPLE * cells) * 4 * dim
    memory.say_if_more(f"an index of {len(candidates):,} texts takes", size, "smaller collections take less")
    index: Any = faiss.index_factory(vectors.shape[1], f"IVF{cells},SQfp16", faiss.METRIC_INNER_PRODUCT)
    index.cp.seed, index.cp.niter = SEED, ROUNDS
    index.train(vectors[candidates[:: max(1, len(candidates) // (CELL_SAMPLE * cells))]])
    size = _rows_at_a_time(vectors)
    for start in range(0, len(candidates), size):
        index.add(vectors[candidates[start : start + size]])
    index.nprobe = probes = min(PROBES, cells)
    index.parallel_mode = 3  # several threads, also where the cells of each anchor are given

    def search(anchors: Unit, count: int) -> Rows:
        cosines, near = index.quantizer.search(anchors, probes)
        # In this order, the processor's cache still has the cells that the anchor before looked into.
        order = np.argsort(near[:, 0], kind="stable")
        found = np.empty((len(anchors), count), np.int64)
        found[order] = index.search_preassigned(anchors[order], count, near[order], cosines[order])[1]
        return np.where(found < 0, -1, candidates[found])

    return search


def _rows_at_a_time(vectors: Unit) -> int:
    return max(1, PART_BYTES // (vectors.itemsize * vectors.shape[1]))


def _given(triplets: pl.DataFrame) -> pl.Series:
    """All given negatives, triplet by triplet."""
    return triplets["negative_ids"].explode().drop_nulls()
