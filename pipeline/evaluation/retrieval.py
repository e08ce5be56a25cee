"""Retrieval: is the relevant document among the nearest?"""

import polars as pl

from pipeline.evaluation import ranking
from pipeline.evaluation.embeddings import Embeddings
from pipeline.evaluation.ranking import Collection, Found

MAIN = "mrr@10"
DEPTH = 100
"""Documents that are looked at for every query."""
RECALLS = (1, 10, DEPTH)


def search(pairs: pl.DataFrame, embeddings: Embeddings) -> tuple[Collection, Found]:
    """The task, and the documents nearest to each of its queries, by exact search by cosine.

    Args:
        pairs: left_id (query, or null), right_id (document), score (relevance). Documents: all right sides.
        embeddings: vectors of queries and documents.
    """
    task = ranking.collection(pairs)
    documents, queries = (ranking.unit(embeddings, ids) for ids in (task.documents, task.queries))
    return task, ranking.exact(documents, queries, DEPTH + 1)


def scores(task: Collection, found: Found) -> dict[str, float]:
    """MRR@10, recall@1, @10 and @100, and nDCG@10 of what `search` found."""
    measured = ranking.score(task, found, RECALLS)
    return {**measured, "queries": len(task.queries), "documents": len(task.documents)}


def score(pairs: pl.DataFrame, embeddings: Embeddings) -> dict[str, float]:
    """As `scores`, of what `search` finds."""
    return scores(*search(pairs, embeddings))
