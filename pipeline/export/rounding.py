"""Matrices as int8, rounded so that the products of what they really multiply stay near."""

import numpy as np
from numpy.typing import NDArray

LARGEST = 127
"""Largest int8 value."""
PAIR = 128
"""What two int8 of one sign that are multiplied together add up to at most: 255 * 128 < 2**15."""
DAMPING = 0.01
"""Share of the mean squared activation that is added to the diagonal: texts do not determine all products."""
ROWS_AT_A_TIME = 128
"""Their errors go to all later rows at once."""


def rounded(
    matrix: NDArray[np.floating], products: NDArray[np.float64]
) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """A matrix (k, n) as int8 and a scale a column (n,), for rows of activations whose products are known.

    Row after row is rounded, and what its rounding changes in the product is taken off the rows that are
    left (GPTQ, Frantar et al. 2023, algorithm 1), those that count most first. A processor without VNNI adds
    the products of a uint8 with rows 2i and 2i + 1 in 16 bits: scales are chosen so that two rows of one
    sign add up to PAIR at most, which leaves nearly the 8 bits where halving all weights would leave 7.

    Args:
        matrix: what activations (tokens, k) are multiplied with.
        products: mean of the outer product of an activation with itself, (k, k).
    """
    values = matrix.astype(np.float64)
    sizes = np.maximum(np.abs(values).max(axis=0), _pair_sums(values).max(axis=0))
    scales = (np.where(sizes > 0, sizes, LARGEST) / LARGEST).astype(np.float32)
    steps = scales.astype(np.float64)
    order = _by_weight(np.diag(products))
    damped = products + np.eye(len(products)) * (DAMPING * np.diag(products).mean() or 1)
    upper = np.linalg.cholesky(np.linalg.inv(damped[order][:, order])).T
    values = values[order]
    levels = np.zeros_like(values)
    for start in range(0, len(values), ROWS_AT_A_TIME):
        stop = min(start + ROWS_AT_A_TIME, len(values))
        errors = np.empty((stop - start, values.shape[1]))
        for row in range(start, stop):
            partner = levels[row - 1] if order[row] % 2 else np.zeros_like(steps)
            least = np.maximum(-LARGEST, -PAIR - np.minimum(partner, 0))
            most = np.minimum(LARGEST, PAIR - np.maximum(partner, 0))
            levels[row] = np.rint(values[row] / steps).clip(least, most)
            error = errors[row - start] = (values[row] - levels[row] * steps) / upper[row, row]
            values[row + 1 : stop] -= np.outer(upper[row, row + 1 : stop], error)
        values[stop:] -= upper[start:stop, stop:].T @ errors
    found = np.empty_like(levels)
    found[order] = levels
    return found.astype(np.int8), scales


def _pair_sums(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The larger absolute sum, of positive or of negative values, of rows 2i and 2i + 1: (k / 2, n)."""
    pairs = np.pad(values, ((0, len(values) % 2), (0, 0))).reshape(-1, 2, values.shape[1])
    return np.maximum(pairs.clip(min=0).sum(axis=1), -pairs.clip(max=0).sum(axis=1))


def _by_weight(weights: NDArray[np.float64]) -> NDArray[np.intp]:
    """Rows by falling weight; rows 2i and 2i + 1 stay side by side."""
    pairs = np.pad(weights, (0, len(weights) % 2)).reshape(-1, 2).sum(axis=1)
    order: NDArray[np.intp] = (2 * np.argsort(-pairs, kind="stable")[:, None] + np.array([0, 1])).ravel()
    return order[order < len(weights)]
