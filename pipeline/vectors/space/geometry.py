"""How vectors lie in space: what a collapsed student shows before its scores do."""

import numpy as np
from numpy.typing import NDArray

from pipeline.params.teacher import Similarity

Vectors = NDArray[np.floating]

AGREEMENT_ROWS = 1000
"""As many as `agreement` looks at."""


def normalised(vectors: Vectors) -> NDArray[np.float64]:
    """Rows at length 1, in float64; a zero row stays zero. (n, d) -> (n, d)."""
    rows = vectors.astype(np.float64)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    rows /= np.where(lengths == 0, 1, lengths)
    return rows


def mean_pairwise_cosine(vectors: Vectors) -> float:
    """Mean cosine over all pairs of different rows of (n, d), n >= 2; near 1 the vectors have collapsed."""
    rows = normalised(vectors)
    pairs = len(rows) * (len(rows) - 1)
    return float((np.square(rows.sum(axis=0)).sum() - np.square(rows).sum()) / pairs)


def effective_rank(vectors: Vectors) -> float:
    """Exponential of the entropy of the centred rows' normalised singular values (Roy and Vetterli 2007).

    Between 1 (all on a line) and min(n - 1, d); 0 where all rows are equal.
    """
    shifted = vectors.astype(np.float64) - vectors[0].astype(np.float64)
    centred = shifted - shifted.mean(axis=0)
    singular = np.linalg.svd(centred, compute_uv=False)
    total = singular.sum()
    if total <= np.finfo(np.float64).eps * max(centred.shape) * np.abs(vectors).max(initial=1):
        return 0.0
    shares = singular[singular > 0] / total
    return float(np.exp(-(shares * np.log(shares)).sum()))


def cosines(left: Vectors, right: Vectors) -> NDArray[np.float64]:
    """Cosine of each row of `left` with the same row of `right`. (n, d), (n, d) -> (n,)."""
    return np.einsum("nd,nd->n", normalised(left), normalised(right))


def similarities(left: Vectors, right: Vectors, how: Similarity) -> NDArray[np.float64]:
    """Similarity of each row of `left` with the same row of `right`, in float64. (n, d), (n, d) -> (n,)."""
    if how == "cosine":
        return cosines(left, right)
    one, other = left.astype(np.float64), right.astype(np.float64)
    if how == "dot":
        return np.einsum("nd,nd->n", one, other)
    return -np.linalg.norm(one - other, ord=1 if how == "manhattan" else 2, axis=1)


def all_similarities(left: Vectors, right: Vectors, how: Similarity) -> NDArray[np.float64]:
    """Similarity of each row of `left` with each of `right`, in float64. (n, d), (m, d) -> (n, m)."""
    if how == "cosine":
        return normalised(left) @ normalised(right).T
    one, other = left.astype(np.float64), right.astype(np.float64)
    if how == "dot":
        return one @ other.T
    from scipy.spatial.distance import cdist

    return -cdist(one, other, "cityblock" if how == "manhattan" else "euclidean")


def agreement(vectors: Vectors, teacher: Vectors) -> float:
    """Spearman correlation of the cosines of all pairs of rows with the teacher's. (n, d), (n, e), n >= 2.

    Of the first AGREEMENT_ROWS; 0 where either side's cosines are all equal.
    """
    from scipy.stats import spearmanr

    pairs = np.triu_indices(min(len(vectors), AGREEMENT_ROWS), 1)
    own, theirs = (
        (rows @ rows.T)[pairs] for rows in (normalised(side[:AGREEMENT_ROWS]) for side in (vectors, teacher))
    )
    if np.ptp(own) == 0 or np.ptp(theirs) == 0:
        return 0.0
    return float(spearmanr(own, theirs).statistic)
