"""What every training must survive: degenerate targets, NaN, collapse."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from pipeline.core.errors import UserError
from pipeline.core.progress import say
from pipeline.evaluation.geometry import effective_rank, mean_pairwise_cosine

SAMPLE_ROWS = 2000
LEAST = 0.01
"""A kernel's mean off the diagonal below which, or nearer to 1 than which, it is saturated."""
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


def saturated_kernels(measures: Mapping[str, float], name: str) -> list[str]:
    """The kernels that no longer tell inputs apart, said on the terminal too: HSIC then has no gradient."""
    found = [
        key for key, value in measures.items() if key.startswith("kernel_") and not LEAST < value < 1 - LEAST
    ]
    for key in found:
        say(
            f"warning: {key} of {name} is {measures[key]:.4f} on average: its kernel is saturated and HSIC "
            f"does nothing; set students.{name}.loss to variant: fixed, or another gamma"
        )
    return found


def check_finite(value: float, what: str, step: int, block: str) -> None:
    """Stop where a loss or a dev value is not finite.

    Args:
        value: the number.
        what: its name.
        step: of the training.
        block: of the student, `train` or `finetune`, which has the settings.

    Raises:
        UserError: naming the step and what to change.
    """
    if not np.isfinite(value):
        clipped = ", set its clip_norm" if block == "train" else ""
        raise UserError(
            f"{what} is {value} at step {step}; lower {block}.lr{clipped}, or use precision: float32 where "
            "it is bfloat16"
        )
