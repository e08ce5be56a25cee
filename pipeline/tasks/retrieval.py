"""Retrieval: is the relevant document among the nearest?"""

from collections.abc import Mapping

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pipeline.params.evaluate import DEPTH
from pipeline.tasks import ranking
from pipeline.tasks.embeddings import Embeddings
from pipeline.tasks.ranking import Collection, Found

RECALLS = (1, 10, DEPTH)


def search(pairs: pl.DataFrame, embeddings: Embeddings, depth: int = DEPTH) -> tuple[Collection, Found]:
    """The task, and the documents nearest to each of its queries, by exact search.

    Args:
        pairs: as `ranking.collection` reads them.
        embeddings: vectors of queries and documents. Those of documents are taken up some at a time: beside
            them, memory does not grow with the documents' number but by their ids.
        depth: documents that are looked at for every query, its own one aside.
    """
    task = ranking.collection(pairs)
    documents = ranking.in_blocks(embeddings, task.documents)
    queries = ranking.searchable(embeddings, task.queries)
    return task, ranking.exact(documents, queries, depth + 1, embeddings.similarity)


def by_query(task: Collection, found: Found, depth: int = DEPTH) -> dict[str, NDArray[np.float64]]:
    """What each query scores, (queries,), by metric, of what `search` found to this depth."""
    if depth == DEPTH:
        return ranking.by_query(task, found, RECALLS)
    return ranking.by_query(task, found, (*RECALLS, depth), depth)


def scores(task: Collection, values: Mapping[str, NDArray[np.float64]]) -> dict[str, float]:
    """MRR@10, recall@1, @10 and @100, nDCG@10, and what else `by_query` gives of a greater depth."""
    measured = {metric: float(of_queries.mean()) for metric, of_queries in values.items()}
    return {**measured, "queries": len(task.queries), "documents": task.size}


def score(pairs: pl.DataFrame, embeddings: Embeddings, depth: int = DEPTH) -> dict[str, float]:
    """As `scores`, of what `search` finds."""
    task, found = search(pairs, embeddings, depth)
    return scores(task, by_query(task, found, depth))
