"""The nearest documents that any search found for each query, and what they score."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numpy.typing import NDArray

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
TIE = 1e-6
"""Scores no further apart, relative to the largest that there may be, count as equal: the search is in single
precision."""

Rows = NDArray[np.int64]
Searchable = NDArray[np.float32]
"""Vectors as an index takes them: of length 1 where they are compared by their cosine."""


@dataclass(frozen=True)
class Collection:
    """A retrieval task."""

    queries: Ids
    """Ascending."""
    documents: Ids
    """Ascending."""
    relevance: dict[str, dict[str, int]]
    """Query -> document -> how relevant it is, for those that are judged."""
    passed_over: frozenset[tuple[int, int]]
    """Query and document that are no find: the query's own one."""


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
        pairs: left_id (query, or null), right_id (document), score (relevance, or PASSED_OVER). Documents:
            all right sides.
    """
    named = pairs.filter(pl.col("left_id").is_not_null())
    judged = named.filter(pl.col("score") != PASSED_OVER)
    own = named.filter(pl.col("score") == PASSED_OVER).select("left_id", "right_id")
    relevance: dict[str, dict[str, int]] = {}
    for query, document, value in judged.select("left_id", "right_id", "score").iter_rows():
        of_query = relevance.setdefault(str(query), {})
        # Texts that differ in blanks alone are one document: the best judgement of it counts.
        of_query[str(document)] = max(math.ceil(value), of_query.get(str(document), 0))
    documents = np.unique(pairs["right_id"].to_numpy())
    queries = np.unique(judged["left_id"].to_numpy())
    return Collection(queries, documents, relevance, frozenset(own.iter_rows()))


def searchable(embeddings: Embeddings, wanted: Ids) -> Searchable:
    """The vectors (n, d) of these texts, at length 1 for cosines; a zero vector stays zero."""
    if embeddings.similarity != "cosine":
        return embeddings.of(wanted).astype(np.float32)
    found = np.empty((len(wanted), embeddings.vectors.shape[1]), np.float32)
    for start in range(0, len(wanted), ROWS_AT_A_TIME):  # in double precision
        rows = slice(start, start + ROWS_AT_A_TIME)
        found[rows] = normalised(embeddings.of(wanted[rows]))
    return found


def exact(
    documents: Searchable, queries: Searchable, depth: int = DEPTH, how: Similarity = "cosine"
) -> Found:
    """The nearest documents of each query, all being looked at. (documents, d), (queries, d)."""
    import faiss

    index = faiss.IndexFlat(documents.shape[1], metric(how))
    index.add(documents)
    found = search(index, queries, depth)
    return replace(found, tie=TIE * _largest(documents, queries, how))


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


def _largest(documents: Searchable, queries: Searchable, how: Similarity) -> float:
    """A bound of the scores' magnitude; 1 for cosines."""
    if how == "cosine":
        return 1.0
    norm = 1 if how == "manhattan" else 2
    one, other = (
        float(np.linalg.norm(side, ord=norm, axis=1).max(initial=0)) for side in (documents, queries)
    )
    return {"dot": one * other, "euclidean": (one + other) ** 2, "manhattan": one + other}[how]


def ranked(task: Collection, found: Found) -> dict[str, dict[str, float]]:
    """Query -> document -> score, of what a search found and what is not passed over."""
    run: dict[str, dict[str, float]] = {}
    for query, rows, scores in zip(task.queries, found.rows, found.scores, strict=True):
        run[str(query)] = {
            str(document): float(value)
            for document, value in zip(task.documents[rows[rows >= 0]], scores[rows >= 0], strict=True)
            if (int(query), int(document)) not in task.passed_over
        }
    return run


def by_query(
    task: Collection, found: Found, recalls: Sequence[int] = (TOP,)
) -> dict[str, NDArray[np.float64]]:
    """MRR@10, nDCG@10 and recall at each of `recalls` of each query, (queries,), of what a search found."""
    import ir_measures
    from ir_measures import RR, R, nDCG

    names = {
        f"mrr@{TOP}": RR @ TOP,
        **{f"recall@{depth}": R @ depth for depth in recalls},
        f"ndcg@{TOP}": nDCG @ TOP,
    }
    values = {
        (one.measure, one.query_id): float(one.value)
        for one in ir_measures.iter_calc(list(names.values()), task.relevance, ranked(task, found))
    }
    return {
        name: np.array([values[measure, str(query)] for query in task.queries])
        for name, measure in names.items()
    }


def score(task: Collection, found: Found, recalls: Sequence[int] = (TOP,)) -> dict[str, float]:
    """The means over the queries of what `by_query` gives."""
    return {name: float(values.mean()) for name, values in by_query(task, found, recalls).items()}
