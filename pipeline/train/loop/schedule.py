"""Learning rates."""

import math


def schedule_factor(kind: str, step: int, steps: int, warmup_steps: int) -> float:
    """The share of the peak learning rate in force at `step` (0-based) of `steps`.

    Linear warm-up; then linear or cosine decay to zero, or constant for "plateau", whose halvings the
    loop keeps.
    """
    if step < warmup_steps:
        return (step + 1) / warmup_steps
    if kind == "plateau":
        return 1.0
    progress = (step - warmup_steps) / max(1, steps - warmup_steps)
    return 1 - progress if kind == "linear" else 0.5 * (1 + math.cos(math.pi * progress))
