"""Semantic textual similarity: does a model rank pairs as people do?"""

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pipeline.tasks.embeddings import Embeddings
from pipeline.vectors.space.geometry import similarities

HEADLINE = "spearman"


def similarity(pairs: pl.DataFrame, embeddings: Embeddings) -> NDArray[np.float64]:
    """The similarity of each pair, by the model's own function, (pairs,).

    Args:
        pairs: left_id, right_id.
        embeddings: vectors of both sides.
    """
    left, right = (embeddings.of(pairs[side].to_numpy()) for side in ("left_id", "right_id"))
    return similarities(left, right, embeddings.similarity)


def scores(pairs: pl.DataFrame, similarity: NDArray[np.float64]) -> dict[str, float]:
    """Spearman's correlation of similarities and scores by both conventions.

    `spearman` puts all pairs together (the papers' "all"), `spearman_mean` is the mean over the subsets;
    `pearson` is over all pairs. A constant side has no rank order: its correlation is 0. A subset of one
    pair, or whose scores are all the same, ranks nothing: the mean leaves it out, and is 0 if none is left.

    Args:
        pairs: score, subset.
        similarity: their similarities, (pairs,).
    """
    from scipy.stats import pearsonr

    gold = pairs["score"].to_numpy().astype(np.float64)
    subsets = pairs["subset"].to_numpy()
    rows = [subsets == name for name in np.unique(subsets)]
    per_subset = [_spearman(similarity[one], gold[one]) for one in rows if np.ptp(gold[one]) > 0]
    constant = np.ptp(similarity) == 0 or np.ptp(gold) == 0
    return {
        "spearman": _spearman(similarity, gold),
        "spearman_mean": float(np.mean(per_subset)) if per_subset else 0.0,
        "pearson": 0.0 if constant else float(pearsonr(similarity, gold).statistic),
        "pairs": len(pairs),
    }


def score(pairs: pl.DataFrame, embeddings: Embeddings) -> dict[str, float]:
    """As `scores`, of the `similarity` of the pairs."""
    return scores(pairs, similarity(pairs, embeddings))


def _spearman(similarity: np.ndarray, gold: np.ndarray) -> float:
    from scipy.stats import spearmanr

    if len(gold) < 2 or np.ptp(similarity) == 0 or np.ptp(gold) == 0:
        return 0.0
    return float(spearmanr(similarity, gold).statistic)
