"""How vectors of the evaluation texts lie: near where they should be, and spread."""

from collections.abc import Mapping

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pipeline.params.evaluate import Probe, Scoring
from pipeline.tasks.embeddings import Embeddings, Ids
from pipeline.vectors.space.geometry import Vectors, normalised

SAMPLE_ROWS = 2000
"""Rows that are compared with each other: the first, whose ids, being hashes, are a choice by chance."""
POSITIVES = 2000
"""Positive pairs of a task, at most: the first by their ids."""
SIMILAR = 0.8
"""The quantile of the human scores from which on a pair counts as positive."""
FEATURES = 64


def describe(model: Embeddings, positives: tuple[Ids, Ids] | None) -> dict[str, float]:
    """Alignment and uniformity.

    Args:
        model: vectors of the evaluation texts.
        positives: left and right ids (n,) of pairs that mean the same; None: none, so no alignment.
    """
    found = {"uniformity": uniformity(model.vectors[:SAMPLE_ROWS])}
    if positives is not None:
        left, right = (model.of(side) for side in positives)
        found["alignment"] = alignment(left, right)
    return found


def positive_pairs(
    tasks: Mapping[str, pl.DataFrame], scoring: Mapping[str, Scoring]
) -> tuple[Ids, Ids] | None:
    """Pairs (n,), (n,) of texts that mean the same, of all tasks that name such pairs; None where none does.

    Similarity: the fifth with the highest human scores, and what ties with it. Retrieval, entity
    resolution and choice: a query and what is relevant to it.
    """
    parts = [
        _positive(pairs, scoring[name]).select("left_id", "right_id").sort("left_id", "right_id")
        for name, pairs in tasks.items()
    ]
    rows = pl.concat(part.head(POSITIVES) for part in parts)
    if rows.is_empty():
        return None
    return rows["left_id"].to_numpy(), rows["right_id"].to_numpy()


def matched(pairs: pl.DataFrame, how: Scoring) -> pl.DataFrame:
    """The rows of retrieval, entity resolution or choice in which right belongs to the query on the left."""
    found = pairs.filter(pl.all_horizontal(pl.col("left_id", "right_id").is_not_null()))
    return found.filter(pl.col("score") > 0) if how == "retrieval" else found


def alignment(left: Vectors, right: Vectors) -> float:
    """Mean squared distance of positive pairs (n, d), (n, d) on the unit sphere. Wang & Isola 2020, eq. 1.

    With alpha = 2: 0 where all pairs coincide, 4 where all are opposite.
    """
    return float(np.square(normalised(left) - normalised(right)).sum(axis=1).mean())


def uniformity(vectors: Vectors) -> float:
    """Logarithm of E exp(-2 |x - y|^2) over pairs of different rows (n, d), n >= 2, on the unit sphere.

    Wang & Isola 2020, eq. 2 with t = 2: 0 where all rows coincide, the lower the more evenly they are spread.
    """
    rows = normalised(vectors)
    # |x - y|^2 of what a zero vector takes part in is not 2 - 2 x.y.
    lengths = np.square(rows).sum(axis=1)
    upper = np.triu_indices(len(rows), 1)
    squared = (lengths[:, None] + lengths - 2 * rows @ rows.T)[upper]
    return float(np.log(np.exp(-2 * squared).mean()))


def correlation(vectors: Vectors) -> NDArray[np.float32]:
    """Pearson's correlation of the first 64 features of normalised rows (n, d), (min(d, 64),) squared.

    A feature that is the same in all rows correlates with none, but for itself.
    """
    rows = normalised(vectors[:SAMPLE_ROWS])[:, :FEATURES]
    centred = rows - rows.mean(axis=0)
    deviations = np.linalg.norm(centred, axis=0)
    constant = deviations <= np.finfo(np.float64).eps * len(rows)
    scaled = np.where(constant, 0, centred) / np.where(constant, 1, deviations)
    found = np.clip(scaled.T @ scaled, -1, 1)
    np.fill_diagonal(found, 1)
    return found.astype(np.float32)


def _positive(pairs: pl.DataFrame, how: Scoring) -> pl.DataFrame:
    if how in ("agreement", "clustering") or isinstance(how, Probe):
        return pairs.clear()
    if how == "sts":
        least = pairs["score"].quantile(SIMILAR, "higher")
        return pairs.filter(pl.col("score") >= least, pl.col("score") > pl.col("score").min())
    return matched(pairs, how)
