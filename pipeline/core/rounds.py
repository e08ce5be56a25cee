"""Times that are measured in rounds: their median, and how far a round lay from it."""

from collections.abc import Sequence

import numpy as np


def spread(seconds: Sequence[float]) -> float | None:
    """How far the farthest round lies from the median, as a share of the median; None of a single round.

    What runs beside a measurement meets some of its rounds: a large spread tells of it.
    """
    if len(seconds) < 2:
        return None
    median = float(np.median(seconds))
    return float(np.abs(np.asarray(seconds) - median).max() / median)
