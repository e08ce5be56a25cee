"""What stops a training, or warns of it: a loss that is not finite, a kernel that does nothing."""

from collections.abc import Mapping

import numpy as np

from pipeline.core.errors import UserError
from pipeline.core.progress import say

LEAST = 0.01
"""A kernel's mean off the diagonal below which, or nearer to 1 than which, it is saturated."""


class DivergenceError(UserError):
    """A training whose loss or dev value is not finite."""


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
        block: of the student, `train` or `finetune`, which has the settings; `classify`: of a classifier.

    Raises:
        DivergenceError: naming the step and what to change.
    """
    if not np.isfinite(value):
        where = "train" if block == "classify" else block
        clipped = ", set its clip_norm" if block == "train" else ""
        raise DivergenceError(
            f"{what} is {value} at step {step}; lower {where}.lr{clipped}, or use precision: float32 where "
            "it is bfloat16"
        )
