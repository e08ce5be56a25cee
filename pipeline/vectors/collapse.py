"""Whether vectors still tell sentences apart: degenerate targets, collapsed students."""

import numpy as np
from numpy.typing import NDArray

from pipeline.core.errors import UserError
from pipeline.vectors.space.geometry import effective_rank, mean_pairwise_cosine

SAMPLE_ROWS = 2000
COLLAPSED = 0.99
"""Mean pairwise cosine above which vectors no longer tell sentences apart."""

Vectors = NDArray[np.floating]


def describe(vectors: Vectors) -> dict[str, float]:
    """Mean norm, mean pairwise cosine and effective rank of the first rows of (n, d)."""
    sample = vectors[:SAMPLE_ROWS].astype(np.float64)
    return {
        "norm": float(np.linalg.norm(sample, axis=1).mean()),
        "mean_cosine": mean_pairwise_cosine(sample),
        "effective_rank": effective_rank(sample),
    }


def check_collapse(
    description: dict[str, float], what: str, fix: str, targets: dict[str, float] | None = None
) -> None:
    """Stop where `describe` shows vectors that are all alike.

    Args:
        description: of the vectors.
        what: they are.
        fix: what to change.
        targets: of what they learn. A student leans towards its targets' mean, and where these lie close
            together it may lie ten times closer.

    Raises:
        UserError: saying what has collapsed and what to change.
    """
    limit = max(COLLAPSED, 1 - (1 - targets["mean_cosine"]) / 10) if targets else COLLAPSED
    if description["mean_cosine"] > limit:
        raise UserError(
            f"{what} have collapsed: their mean pairwise cosine is {description['mean_cosine']:.4f} "
            f"(limit {limit:.4g}), effective rank {description['effective_rank']:.1f}; {fix}"
        )
