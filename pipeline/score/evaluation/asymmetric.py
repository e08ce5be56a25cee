"""Retrieval with the teacher's documents and a student's queries: a store stays, only queries get cheaper."""

from collections.abc import Mapping
from dataclasses import replace

import polars as pl

from pipeline.tasks import ranking
from pipeline.tasks.embeddings import Embeddings


def score_tasks(
    tasks: Mapping[str, pl.DataFrame], queries: Embeddings, documents: Embeddings
) -> dict[str, dict[str, float]]:
    """MRR@10, recall@10 and nDCG@10 of exact search by the queries' similarity, by task.

    Args:
        tasks: retrieval tasks.
        queries: one model's vectors (n, d).
        documents: another's (n, d).
    """
    scores = {}
    for name, pairs in tasks.items():
        task = ranking.collection(pairs)
        how = queries.similarity
        stored = replace(documents, similarity=how)
        sides = ranking.in_blocks(stored, task.documents), ranking.searchable(queries, task.queries)
        scores[name] = ranking.score(task, ranking.exact(*sides, how=how))
    return scores
