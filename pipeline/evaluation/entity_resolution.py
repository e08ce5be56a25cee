"""Entity resolution: is the entity nearest to a mention one that it names?"""

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pipeline.evaluation import ranking
from pipeline.evaluation.embeddings import Embeddings
from pipeline.evaluation.ranking import TIE

MAIN = "recall@1"


def score(pairs: pl.DataFrame, embeddings: Embeddings) -> dict[str, float]:
    """Recall@1 of exact search by cosine: the share of queries whose nearest entity is a match (SimTDE, 4.2).

    Every subset, a language for example, is searched on its own; its candidates are its distinct entities.
    `recall@1` is the mean over the subsets (SimTDE, table 3), `recall@1_all` is over all queries together,
    `recall@1/SUBSET` that of each. A query with several matches is resolved by any of them. One whose nearest
    match ties with another entity is not resolved, so a collapsed model scores 0. An entity of the query's
    own text is a candidate like any other.

    Args:
        pairs: subset, left_id (query, or null), right_id (entity). Candidates: all right sides.
        embeddings: vectors of queries and entities.
    """
    parts = sorted(pairs.group_by("subset"), key=lambda part: str(part[0]))
    resolved = {str(name): _resolved(rows, embeddings) for (name,), rows in parts}
    by_subset = {name: float(of_subset.mean()) for name, of_subset in resolved.items()}
    return {
        "recall@1": float(np.mean(list(by_subset.values()))),
        "recall@1_all": float(np.concatenate(list(resolved.values())).mean()),
        **{f"recall@1/{name}": value for name, value in by_subset.items()},
        "queries": sum(len(of_subset) for of_subset in resolved.values()),
        "entities": sum(rows["right_id"].n_unique() for _, rows in parts),
    }


def _resolved(pairs: pl.DataFrame, embeddings: Embeddings) -> NDArray[np.bool_]:
    """Whether each query's nearest candidate is a match, (queries,)."""
    candidates = np.unique(pairs["right_id"].to_numpy())
    answers = (
        pairs.drop_nulls("left_id").group_by("left_id", maintain_order=True).agg(pl.col("right_id").unique())
    )
    # One more than the matches of any query, so that every query finds another entity, if there is one.
    depth = max(map(len, answers["right_id"])) + 1
    queries = ranking.unit(embeddings, answers["left_id"].to_numpy())
    found = ranking.exact(ranking.unit(embeddings, candidates), queries, depth)
    match = np.stack(
        [
            np.isin(candidates[rows], ids)
            for rows, ids in zip(found.rows, answers["right_id"].to_list(), strict=True)
        ]
    )
    nearest, nearest_other = (np.where(mask, found.cosines, -np.inf).max(axis=1) for mask in (match, ~match))
    return nearest > nearest_other + TIE
