"""How numbers are written on the page, in the leaderboard and on a terminal."""

from pipeline.report.inputs import Interval, Size

NOTHING = "–"
NOISY = 0.15
"""Spread of the rounds above which a time is unreliable."""
NOISE = "noisy: other work was running"


def score(value: float | None) -> str:
    """A score with three decimals."""
    return NOTHING if value is None else f"{value:.3f}"


def percent(share: float | None) -> str:
    """A share as a percentage with one decimal."""
    return NOTHING if share is None else f"{100 * share:.1f}%"


def level(confidence: float) -> str:
    """The confidence of an interval as a percentage, with all its digits."""
    return f"{100 * confidence:.12g}%"


def span(interval: Interval | None) -> str:
    """The ends of a score's interval; empty without one."""
    return f"{interval[0]:.3f}–{interval[1]:.3f}" if interval else ""


def percent_span(interval: Interval | None) -> str:
    """The ends of a share's interval; empty without one."""
    return f"{100 * interval[0]:.1f}–{100 * interval[1]:.1f}%" if interval else ""


def number(value: float) -> str:
    """A measured quantity at three significant digits; whole above a hundred."""
    if abs(value) >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}" if abs(value) >= 1 else f"{value:#.3g}"


def is_noisy(size: Size) -> bool:
    """Whether a model's speed or latency is unreliable."""
    return max(size.batch_spread or 0, size.latency_spread or 0) > NOISY


def steadiness(spread: float | None) -> str:
    """By how much the rounds of a time differ, and why if it is more than NOISY; empty if it is unknown."""
    if spread is None:
        return ""
    return f"±{spread:.0%}" if spread <= NOISY else f"{NOISE} (±{spread:.0%})"
