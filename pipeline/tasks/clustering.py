"""Clustering: are the classes of texts found by k-means, which does not know them?"""

import warnings
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pipeline.core import memory
from pipeline.tasks.embeddings import Embeddings
from pipeline.tasks.heads import one_thread
from pipeline.tasks.ranking import searchable

HEADLINE = "nmi"
SEEDS = 3
"""Clusterings whose scores are averaged: a single one depends on where it starts."""
COPIES = 2
"""Of the vectors, which k-means centres."""

Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Clusters:
    """What k-means makes of the texts."""

    classes: Numbers
    """The class of each row, (n,)."""
    by_seed: list[Numbers]
    """The cluster of each row, (n,), by each seed."""


def clusters(pairs: pl.DataFrame, embeddings: Embeddings) -> Clusters:
    """K-means of scikit-learn with as many clusters as there are classes, as PEARL (Chen et al. 2024).

    Vectors that are compared by their cosine are brought to length 1 first. A text of several rows counts as
    often.

    Args:
        pairs: left_id (text), label (class).
        embeddings: vectors of the texts.
    """
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    names, classes = np.unique(pairs["label"].to_numpy(), return_inverse=True)
    memory.say_if_more(
        f"clusters of {len(pairs):,} texts take",
        COPIES * len(pairs) * embeddings.dim * 4,
        "a task of fewer rows takes less",
    )
    rows = searchable(embeddings, pairs["left_id"].to_numpy())
    with one_thread(), warnings.catch_warnings():
        # A collapsed model has fewer different vectors than there are classes: its score says it.
        warnings.simplefilter("ignore", ConvergenceWarning)
        by_seed = [
            KMeans(len(names), random_state=seed, n_init="auto").fit(rows).labels_ for seed in range(SEEDS)
        ]
    return Clusters(classes.astype(np.int64), [found.astype(np.int64) for found in by_seed])


def scores(found: Clusters) -> dict[str, float]:
    """Normalised mutual information of clusters and classes (arithmetic mean), the mean over the seeds."""
    from sklearn.metrics import normalized_mutual_info_score

    of_each = [normalized_mutual_info_score(found.classes, one) for one in found.by_seed]
    return {
        "nmi": float(np.mean(of_each)),
        "texts": len(found.classes),
        "classes": len(np.unique(found.classes)),
    }


def score(pairs: pl.DataFrame, embeddings: Embeddings) -> dict[str, float]:
    """As `scores`, of the `clusters` of the texts."""
    return scores(clusters(pairs, embeddings))
