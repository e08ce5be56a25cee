"""Retrieval: is the relevant document among the nearest?"""

from collections.abc import Mapping

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pipeline.tasks import ranking
from pipeline.tasks.embeddings import Embeddings
from pipeline.tasks.ranking import Collection, Found

DEPTH = 100
"""Documents that are looked at for every query."""
RECALLS = (1, 10, DEPTH)


def search(pairs: pl.DataFrame, embeddings: Embeddings) -> tuple[Collection, Found]:
    """The task, and the documents nearest to each of its queries, by exact search.

    Args:
        pairs: as `ranking.collection` reads them.
        embeddings: vectors of queries and documents.
    """
    task = ranking.collection(pairs)
    documents, queries = (ranking.searchable(embeddings, ids) for ids in (task.documents, task.queries))
    return task, ranking.exact(documents, queries, DEPTH + 1, embeddings.similarity)


def scores(task: Collection, by_query: Mapping[str, NDArray[np.float64]]) -> dict[str, float]:
    """MRR@10, recall@1, @10 and @100, and nDCG@10, of what `ranking.by_query` gives by them."""
    measured = {metric: float(values.mean()) for metric, values in by_query.items()}
    return {**measured, "queries": len(task.queries), "documents": task.size}


def score(pairs: pl.DataFrame, embeddings: Embeddings) -> dict[str, float]:
    """As `scores`, of what `search` finds."""
    task, found = search(pairs, embeddings)
    return scores(task, ranking.by_query(task, found, RECALLS))
