"""Which student to ship: the rule that the page states."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pipeline.report.leaderboard import Leaderboard, Row

RULE = (
    "A student is out if another shipped student is at least as good in average score, latency and size, and "
    "better in one of them. Of the rest, this names the one with the highest average score, the one that is "
    "fastest on a single sentence, and the one that is smallest on disk."
)
STRENGTHS = {"best quality": "quality", "fastest": "speed", "smallest": "size"}
_Key = Callable[[Row], float]


@dataclass(frozen=True)
class Pick:
    """A student to ship, and what it is the best at."""

    row: Row
    reasons: tuple[str, ...]


def front(shipped: Sequence[Row]) -> list[Row]:
    """The rows that no other row beats in average score, latency and size together (the Pareto front)."""
    return [row for row in shipped if not any(_beats(other, row) for other in shipped)]


def picks(board: Leaderboard) -> list[Pick]:
    """One to three students, the best first; a tie goes to the higher average, then to the earlier row."""
    rest = front(board.shipped)
    criteria: list[tuple[str, _Key]] = [
        ("best quality", lambda row: -row.average),
        ("fastest", _latency),
        ("smallest", _megabytes),
    ]
    reasons: dict[str, list[str]] = {}
    for reason, key in criteria:
        chosen = min(rest, key=lambda row: (key(row), -row.average))
        reasons.setdefault(chosen.model, []).append(reason)
    rows = {row.model: row for row in rest}
    return [Pick(rows[model], tuple(found)) for model, found in reasons.items()]


def lead(picks: Sequence[Pick]) -> list[tuple[str, str]]:
    """The recommendation in a line: each student, and what to ship it for."""
    return [(pick.row.model, " and ".join(STRENGTHS[reason] for reason in pick.reasons)) for pick in picks]


def _beats(other: Row, row: Row) -> bool:
    theirs, ours = _costs(other), _costs(row)
    return theirs != ours and all(a <= b for a, b in zip(theirs, ours, strict=True))


def _costs(row: Row) -> tuple[float, float, float]:
    return -row.average, _latency(row), _megabytes(row)


def _latency(row: Row) -> float:
    return row.size.latency_ms_p50 if row.size else float("inf")


def _megabytes(row: Row) -> float:
    return row.size.megabytes if row.size else float("inf")
