"""How long a stage has taken, the time included that a killed run took for what this process goes on with."""

import time

STARTED = time.monotonic()
"""When this process began to count: as `timed` imports this."""
_before: list[float] = []
"""Seconds up to each state from which this process goes on."""


def seconds(before: float = 0.0) -> float:
    """Of this process and before it, which took `before` at least."""
    return time.monotonic() - STARTED + max([before, *_before])


def goes_on(earlier: float) -> None:
    """Count the seconds that a run had taken when it wrote a state, from which this process goes on."""
    _before.append(earlier)
