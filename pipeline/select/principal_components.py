"""Streaming PCA: one pass, memory of a d x d matrix and one batch."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from pipeline.core.errors import UserError
from pipeline.vectors.space.pca import Pca


def fit_pca(batches: Iterable[NDArray[np.floating]], dim: int, *, centre: bool) -> Pca:
    """Fit all components of vectors (n, dim) that come in batches, summed up in float64.

    Signs are fixed so that each component's largest entry is positive; variances divide by n - 1.

    Args:
        batches: the vectors.
        dim: of the vectors.
        centre: whether `reduce` subtracts the mean. The components are those of the centred vectors either
            way: HPD's released code fits them so, and then leaves the mean in.

    Raises:
        UserError: there are fewer than two vectors.
    """
    rows, total, products = 0, np.zeros(dim), np.zeros((dim, dim))
    for batch in batches:
        block = batch.astype(np.float64)
        rows += len(block)
        total += block.sum(axis=0)
        products += block.T @ block
    if rows < 2:
        raise UserError(
            f"{rows} training texts are too few for a PCA; add corpus.sources, or raise their limit or "
            "pca.max_rows"
        )
    mean = total / rows
    covariance = (products - rows * np.outer(mean, mean)) / (rows - 1)
    variances, vectors = np.linalg.eigh(covariance)
    order = np.argsort(-variances)
    components = vectors.T[order]
    largest = np.take_along_axis(components, np.abs(components).argmax(axis=1, keepdims=True), axis=1)
    return Pca(
        mean if centre else np.zeros(dim), components * np.sign(largest), np.maximum(variances[order], 0)
    )
