"""Entity resolution: is the entity nearest to a mention one that it names?"""

import numpy as np
import polars as pl

from pipeline.tasks import ranking
from pipeline.tasks.embeddings import Embeddings

HEADLINE = "recall@1"


def resolved(pairs: pl.DataFrame, embeddings: Embeddings) -> pl.DataFrame:
    """Whether each query is resolved: whether the entity nearest to it is a match (SimTDE, 4.2).

    Every subset, a language for example, is searched on its own; its candidates are its distinct entities.
    A query with several matches is resolved by any of them. One whose nearest match ties with another entity
    is not resolved, so a collapsed model scores 0. An entity of the query's own text is a candidate like any
    other.

    Args:
        pairs: subset, left_id (query, or null), right_id (entity). Candidates: all right sides.
        embeddings: vectors of queries and entities.

    Returns:
        subset, left_id, resolved; ascending by the first two.
    """
    parts = sorted(pairs.group_by("subset"), key=lambda part: str(part[0]))
    return pl.concat(_resolved(rows.sort("left_id", "right_id"), embeddings) for _, rows in parts)


def scores(pairs: pl.DataFrame, found: pl.DataFrame) -> dict[str, float]:
    """Recall@1: the share of queries that are resolved.

    `recall@1` is the mean over the subsets (SimTDE, table 3), `recall@1_all` is over all queries together,
    `recall@1/SUBSET` that of each.

    Args:
        pairs: as `resolved` reads them.
        found: what it gives.
    """
    by_subset = {
        str(name): float(rows["resolved"].to_numpy().mean())
        for (name,), rows in found.group_by("subset", maintain_order=True)
    }
    return {
        "recall@1": float(np.mean(list(by_subset.values()))),
        "recall@1_all": float(found["resolved"].to_numpy().mean()),
        **{f"recall@1/{name}": value for name, value in by_subset.items()},
        "queries": len(found),
        "entities": len(pairs.select("subset", "right_id").unique()),
    }


def score(pairs: pl.DataFrame, embeddings: Embeddings) -> dict[str, float]:
    """As `scores`, of the queries that are `resolved`."""
    return scores(pairs, resolved(pairs, embeddings))


def _resolved(pairs: pl.DataFrame, embeddings: Embeddings) -> pl.DataFrame:
    """The queries of one subset."""
    candidates = np.unique(pairs["right_id"].to_numpy())
    answers = (
        pairs.drop_nulls("left_id")
        .group_by("subset", "left_id", maintain_order=True)
        .agg(pl.col("right_id").unique())
    )
    # One more than the matches of any query, so that every query finds another entity, if there is one.
    depth = max(map(len, answers["right_id"])) + 1
    queries = ranking.searchable(embeddings, answers["left_id"].to_numpy())
    entities = ranking.in_blocks(embeddings, candidates)
    found = ranking.exact(entities, queries, depth, embeddings.similarity)
    match = np.stack(
        [
            np.isin(candidates[rows], ids)
            for rows, ids in zip(found.rows, answers["right_id"].to_list(), strict=True)
        ]
    )
    nearest, nearest_other = (np.where(mask, found.scores, -np.inf).max(axis=1) for mask in (match, ~match))
    return answers.select("subset", "left_id", resolved=nearest > nearest_other + found.tie)
