"""The axes of figures: which values they show, where on them a value lies, and their ticks."""

import math
from collections.abc import Iterator, Sequence

LOG_STEPS = (1.0, 2.0, 5.0)
Domain = tuple[float, float]
"""The least and the greatest value of an axis."""


def along(value: float, domain: Domain, length: int, log: bool = False) -> float:
    """Pixels from the start of an axis."""
    low, high, at = (math.log(x) if log else x for x in (*domain, value))
    return length * (at - low) / (high - low)


def linear_domain(values: Sequence[float]) -> Domain:
    """From below the least to above the greatest, with space for markers at both ends."""
    margin = max(0.15 * (max(values) - min(values)), 0.02)
    return min(values) - margin, max(values) + margin


def log_domain(values: Sequence[float]) -> Domain:
    """The same for positive values on a log scale, with space for labels."""
    margin = max(1.5, (max(values) / min(values)) ** 0.18)
    return min(values) / margin, max(values) * margin


def log_ticks(domain: Domain) -> list[float]:
    """1, 2 and 5 times the powers of ten in the domain; finer steps if that is less than two ticks.

    Only the powers, if there are more than seven.
    """
    exponents = range(math.floor(math.log10(domain[0])), math.ceil(math.log10(domain[1])) + 1)
    inside: list[float] = []
    for steps in _steps():
        ticks = (float(f"{step}e{exponent}") for exponent in exponents for step in steps)
        inside = [tick for tick in ticks if domain[0] <= tick <= domain[1]]
        if len(inside) > 1:
            break
    return inside if len(inside) <= 7 else [tick for tick in inside if math.log10(tick).is_integer()]


def _steps() -> Iterator[Sequence[float]]:
    """Ticks from 1 to below 10, ever finer: whole numbers, halves, fifths, tenths, ..., hundredths."""
    yield LOG_STEPS
    for parts in (1, 2, 5, 10, 20, 50, 100):
        yield [step / parts for step in range(parts, 10 * parts)]


def values_domain(low: float, high: float) -> Domain:
    """The range of a line, with space for names above and below; equal values get a hundredth of them."""
    margin = 0.16 * (high - low) or 0.01 * abs(high) or 1.0
    return low - margin, high + margin
