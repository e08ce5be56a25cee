"""The nearest documents that any search found for each query, and what they score."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pipeline.core import memory
from pipeline.params.teacher import Similarity
from pipeline.tasks.embeddings import Embeddings, Ids
from pipeline.tasks.pairs import PASSED_OVER
from pipeline.vectors.space.geometry import normalised

if TYPE_CHECKING:
    import faiss

TOP = 10
"""Documents of a query that count, but for recalls that look further."""
DEPTH = TOP + 1
"""Documents that are looked up: a query's own one, which is no find, may be among them."""
ROWS_AT_A_TIME = 65_536
"""Documents that are compared at a time: a multiple of faiss' own 1,024, so that no score depends on it."""
UNITS_AT_A_TIME = 2048
FOUND_AT_A_TIME = 1 << 20
"""Documents found that are named and scored at a time, in Python's own objects."""
TIE = 1e-6
"""Scores no further apart, relative to the largest that there may be, count as equal: the search is in single
precision."""

Rows = NDArray[np.int64]
Searchable = NDArray[np.float32]
"""Vectors as an index takes them: of length 1 where they are compared by their cosine."""


@dataclass(frozen=True)
class Copies:
    """The documents of each text, by their own ids."""

    names: pl.Series
    """By text, in the order of `Collection.documents`; those of one text fall, as trec_eval ranks ties."""
    starts: NDArray[np.int64]
    """Where each text's names start, and where the last ones end, (texts + 1,)."""


@dataclass(frozen=True)
class Collection:
    """A retrieval task."""

    queries: Ids
    """The texts of the queries, ascending; a text comes as often as it is asked."""
    query_names: list[str]
    """What tells the queries apart: a text_id, or the query's own id."""
    documents: Ids
    """The texts of the documents, ascending, each once."""
    copies: Copies | None
    """None: each document has a text of its own, whose text_id is its name."""
    relevance: dict[str, dict[str, int]]
    """Query -> document -> how relevant it is, for those that are judged."""
    passed_over: frozenset[tuple[str, str]]
    """Query and document that are no find: the query's own one."""

    @property
    def size(self) -> int:
        """How many documents there are."""
        return len(self.documents if self.copies is None else self.copies.names)

    def names(self, row: int, most: int) -> list[str]:
        """The first documents of a text, at most so many."""
        if self.copies is None:
            return [str(self.documents[row])]
        start, stop = self.copies.starts[row : row + 2]
        return self.copies.names[int(start) : int(min(stop, start + most))].to_list()


@dataclass(frozen=True)
class Found:
    """The nearest documents of each query, by falling score."""

    scores: NDArray[np.float32]
    """(queries, depth), or as many as there are documents: cosines, inner products, or negative distances,
    those of Euclid squared."""
    rows: Rows
    """Their rows among the documents; -1 where a search found no more."""
    tie: float = TIE
    """Scores no further apart count as equal."""


def collection(pairs: pl.DataFrame) -> Collection:
    """The queries, documents and judgements in the rows of a retrieval task.

    Args:
        pairs: left_id (query, or null), right_id (document), score (relevance, or PASSED_OVER), and where
            these do not tell all apart, subset (the query's own id) and label (the document's). Documents:
            all right sides.
    """
    documents = np.unique(pairs["right_id"].drop_nulls().to_numpy())
    has_names = "label" in pairs.columns and pairs["label"].null_count() < len(pairs)
    copies = _copies(pairs, documents) if has_names else None
    query, document = ("subset", "label") if has_names else ("left_id", "right_id")
    named = pairs.filter(pl.col("left_id").is_not_null()).select(
        "left_id",
        "score",
        query=pl.col(query).cast(pl.String),
        document=pl.col(document).cast(pl.String),
    )
    judged = named.filter(pl.col("score") != PASSED_OVER)
    own = named.filter(pl.col("score") == PASSED_OVER).select("query", "document")
    relevance: dict[str, dict[str, int]] = {}
    for name, relevant, value in judged.select("query", "document", "score").iter_rows():
        of_query = relevance.setdefault(name, {})
        of_query[relevant] = max(math.ceil(value), of_query.get(relevant, 0))
    asked = judged.select("left_id", "query").unique().sort("left_id", "query")
    return Collection(
        asked["left_id"].to_numpy(),
        asked["query"].to_list(),
        documents,
        copies,
        relevance,
        frozenset(own.iter_rows()),
    )


def _copies(pairs: pl.DataFrame, documents: Ids) -> Copies:
    found = pairs.select("right_id", "label").drop_nulls().unique()
    found = found.sort("right_id", "label", descending=[False, True])
    starts = np.searchsorted(found["right_id"].to_numpy(), documents)
    return Copies(found["label"], np.append(starts, len(found)))


def searchable(embeddings: Embeddings, wanted: Ids) -> Searchable:
    """The vectors (n, d) of these texts, at length 1 for cosines; a zero vector stays zero."""
    found, start = np.empty((len(wanted), embeddings.dim), np.float32), 0
    for block in in_blocks(embeddings, wanted):
        found[start : start + len(block)] = block
        start += len(block)
    return found


def in_blocks(embeddings: Embeddings, wanted: Ids) -> Iterator[Searchable]:
    """The same vectors, ROWS_AT_A_TIME at a time; those of a file are read as they are asked for."""
    for start in range(0, len(wanted), ROWS_AT_A_TIME):
        rows = embeddings.of(wanted[start : start + ROWS_AT_A_TIME])
        yield _units(rows) if embeddings.similarity == "cosine" else rows.astype(np.float32)


def _units(rows: NDArray[np.floating]) -> Searchable:
    """Rows (n, d) at length 1, few of them at a time in float64."""
    units = np.empty(rows.shape, np.float32)
    for start in range(0, len(rows), UNITS_AT_A_TIME):
        units[start : start + UNITS_AT_A_TIME] = normalised(rows[start : start + UNITS_AT_A_TIME])
    return units


def exact(
    documents: Iterable[Searchable], queries: Searchable, depth: int = DEPTH, how: Similarity = "cosine"
) -> Found:
    """The nearest documents of each query, all being looked at.

    Memory is that of a block and of what is found. Which of several documents that tie at the last place is
    found may depend on the blocks.

    Args:
        documents: blocks (n, d), as `in_blocks` gives them; [documents] is all at once.
        queries: (n, d).
        depth: how many, or all that there are.
        how: vectors are compared.
    """
    import faiss

    kind, count, longest = metric(how), 0, 0.0
    heap = faiss.ResultHeap(len(queries), depth, keep_max=kind == faiss.METRIC_INNER_PRODUCT)
    for block in documents:
        index = faiss.IndexFlat(block.shape[1], kind)
        index.add(block)
        values, rows = index.search(queries, min(depth, len(block)))
        heap.add_result(values, rows + count)
        count, longest = count + len(block), max(longest, _longest(block, how))
    heap.finalize()
    values, rows = heap.D[:, :count], heap.I[:, :count]
    scores = values if kind == faiss.METRIC_INNER_PRODUCT else -values
    return Found(scores, rows, TIE * _largest(longest, _longest(queries, how), how))


def metric(how: Similarity) -> int:
    """Faiss' number of what compares `searchable` vectors."""
    import faiss

    distances = {"euclidean": faiss.METRIC_L2, "manhattan": faiss.METRIC_L1}
    return int(distances.get(how, faiss.METRIC_INNER_PRODUCT))


def search(index: "faiss.Index", queries: Searchable, depth: int) -> Found:
    """What an index finds for queries (n, d), `depth` documents each or all that there are."""
    import faiss

    values, rows = index.search(queries, min(depth, index.ntotal))
    return Found(values if index.metric_type == faiss.METRIC_INNER_PRODUCT else -values, rows)


def _longest(side: Searchable, how: Similarity) -> float:
    """The greatest norm of vectors (n, d), that by which they are compared."""
    if how == "cosine":
        return 1.0
    return float(np.linalg.norm(side, ord=1 if how == "manhattan" else 2, axis=1).max(initial=0))


def _largest(one: float, other: float, how: Similarity) -> float:
    """A bound of the magnitude of scores, by the greatest norms of either side; 1 for cosines."""
    return {"cosine": 1.0, "dot": one * other, "euclidean": (one + other) ** 2, "manhattan": one + other}[how]


def ranked(
    task: Collection, found: Found, most: int, some: slice = slice(None)
) -> dict[str, dict[str, float]]:
    """Query -> document -> score, of what a search found and what is not passed over.

    Args:
        task: the task.
        found: the nearest texts.
        most: documents of a query that are looked at, its own one included.
        some: which of the queries.
    """
    return {
        query: {
            document: value
            for document, value in _documents(task, rows, scores, most)
            if (query, document) not in task.passed_over
        }
        for query, rows, scores in zip(
            task.query_names[some], found.rows[some], found.scores[some], strict=True
        )
    }


def _documents(
    task: Collection, rows: Rows, scores: NDArray[np.float32], most: int
) -> Iterator[tuple[str, float]]:
    """The first `most` documents of the texts in `rows`, and more that tie with the last; and their scores.

    Of a text, however many documents have it, these are `most` at most.
    """
    count, last = 0, math.inf
    for row, value in zip(rows[rows >= 0], scores[rows >= 0].tolist(), strict=True):
        if count >= most and value < last:
            return
        names = task.names(int(row), most)
        yield from ((name, value) for name in names)
        count, last = count + len(names), value


def by_query(
    task: Collection, found: Found, recalls: Sequence[int] = (TOP,), depth: int | None = None
) -> dict[str, NDArray[np.float64]]:
    """What each query scores, (queries,), by metric.

    Args:
        task: the task.
        found: what a search found for it.
        recalls: MRR@10, nDCG@10 and recall at each of these depths.
        depth: nDCG and MAP at this one too, as BEIR reports them; MAP is the mean of average precision, in
            which a relevant document that is not found counts as 0.
    """
    import ir_measures
    from ir_measures import AP, RR, R, nDCG

    names = {
        # RR@10 ranks ties by rising names, and trec_eval, whose RR has no bound, by falling ones. Where names
        # are hashes of texts, either is a choice by chance.
        f"mrr@{TOP}": RR @ TOP if task.copies is None else RR,
        **{f"recall@{depth}": R @ depth for depth in recalls},
        f"ndcg@{TOP}": nDCG @ TOP,
    }
    if depth is not None:
        names |= {f"ndcg@{depth}": nDCG @ depth, f"map@{depth}": AP @ depth}
    most = max(TOP, depth or 0, *recalls) + 1
    values: dict[tuple[object, str], float] = {}
    size = max(1, memory.at_a_time(FOUND_AT_A_TIME) // most)
    for start in range(0, len(task.query_names), size):
        some = slice(start, start + size)
        run = ranked(task, found, most, some)
        judged = {query: task.relevance[query] for query in run}
        values |= {
            (one.measure, one.query_id): float(one.value)
            for one in ir_measures.iter_calc(list(names.values()), judged, run)
        }
    found_by = {
        name: np.array([values[measure, query] for query in task.query_names])
        for name, measure in names.items()
    }
    first = found_by[f"mrr@{TOP}"]
    return {**found_by, f"mrr@{TOP}": np.where(first < 1 / TOP, 0.0, first)}


def score(task: Collection, found: Found, recalls: Sequence[int] = (TOP,)) -> dict[str, float]:
    """The means over the queries of what `by_query` gives."""
    return {name: float(values.mean()) for name, values in by_query(task, found, recalls).items()}
