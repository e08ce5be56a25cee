"""The output projection in closed form."""

import numpy as np
from numpy.typing import NDArray


def ridge(
    inputs: NDArray[np.floating], targets: NDArray[np.floating], penalty: float, *, bias: bool = True
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Weights (d_in, d_out) and bias (d_out,) that minimise ||inputs @ weights + bias - targets||^2.

    Args:
        inputs: (n, d_in).
        targets: (n, d_out).
        penalty: of the squared weights, relative to n times the mean variance of the inputs; not of the bias.
        bias: without it, the bias is zero, and the penalty is relative to the inputs' mean square.
    """
    x = inputs.astype(np.float64)
    y = targets.astype(np.float64)
    x_mean, y_mean = x.mean(axis=0), y.mean(axis=0)
    if not bias:
        x_mean, y_mean = np.zeros_like(x_mean), np.zeros_like(y_mean)
    x, y = x - x_mean, y - y_mean
    gram = x.T @ x
    # A constant input has no variance to scale by: any positive penalty then gives weights of zero.
    scale = np.trace(gram) / len(gram) or 1.0
    weights = np.linalg.solve(gram + penalty * scale * np.eye(len(gram)), x.T @ y)
    return weights, y_mean - x_mean @ weights


def orthogonal(inputs: NDArray[np.floating], targets: NDArray[np.floating]) -> NDArray[np.float64]:
    """Weights (d_in, d_out), a turn times a factor, that bring inputs close to targets.

    The turn maximises the inner products of turned inputs and targets, the orthogonal Procrustes problem
    (Schönemann 1966); the factor then has the least squared distance. With d_out >= d_in cosines stay as they
    are, for rows are orthonormal; else columns are.

    Args:
        inputs: (n, d_in).
        targets: (n, d_out).
    """
    x = inputs.astype(np.float64)
    left, singular, right = np.linalg.svd(x.T @ targets.astype(np.float64), full_matrices=False)
    turn = left @ right
    # A projection that drops nothing has the inputs' own square; inputs of zeros have none to divide by.
    return turn * (singular.sum() / (np.square(x @ turn).sum() or 1.0))
