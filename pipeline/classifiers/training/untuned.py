"""Pairs of two classes by the similarity of their vectors alone: no training but of one threshold."""

import numpy as np
from numpy.typing import NDArray

from pipeline.tasks.heads import Classes


def best_threshold(similarity: NDArray[np.floating], classes: Classes) -> float:
    """The threshold with the best accuracy on rows (n,): class 1 from it on.

    It lies half way between two neighbours. Of several the lowest is taken.

    Args:
        similarity: of each pair.
        classes: 0 or 1 of each.
    """
    values, where = np.unique(similarity, return_inverse=True)
    ones = np.bincount(where, weights=classes == 1, minlength=len(values))
    zeros = np.bincount(where, minlength=len(values)) - ones
    # Right with the threshold before value i: zeros below it, ones from it on.
    right = np.concatenate([[0], zeros.cumsum()]) + ones.sum() - np.concatenate([[0], ones.cumsum()])
    at = int(right.argmax())
    if at == 0:
        return float(values[0])
    return float(values[-1] + 1) if at == len(values) else float((values[at - 1] + values[at]) / 2)


def predict(
    train: NDArray[np.floating], classes: Classes, test: NDArray[np.floating]
) -> tuple[Classes, float]:
    """Classes (m,) of the test pairs by the threshold that is best on the training pairs, and that threshold.

    Args:
        train: similarity of each training pair, (n,).
        classes: 0 or 1 of each, (n,).
        test: similarity of each test pair, (m,).
    """
    threshold = best_threshold(train, classes)
    return (test >= threshold).astype(np.int64), threshold
