"""Which students to ship, and the rule that the page states."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pipeline.report.inputs import AVERAGE, Significance
from pipeline.report.leaderboard import Leaderboard, Row

RULE = (
    "Best quality is the student that is smallest on disk among those whose average score the tests cannot "
    "tell apart from the highest one. Fastest is the student that needs the least time for a single "
    "sentence. Smallest is the student with the fewest bytes on disk."
)
STRENGTHS = {"best quality": "quality", "fastest": "speed", "smallest": "size"}
_Key = Callable[[Row], tuple[float, ...]]
"""What the least of decides."""


@dataclass(frozen=True)
class Pick:
    """A student to ship, and what it is the best at."""

    row: Row
    reasons: tuple[str, ...]


def front(shipped: Sequence[Row]) -> list[Row]:
    """The rows that no other row beats in average score, latency and size together (the Pareto front)."""
    return [row for row in shipped if not any(_beats(other, row) for other in shipped)]


def best(board: Leaderboard, significance: Significance) -> Row:
    """The student with the highest average score; a tie goes to the one that is tested against most others.

    The averages here are rounded, so several can be equal. Stage `significance` knows the exact ones, and
    tests the best of them against all others.
    """
    return max(board.shipped, key=lambda row: (row.average, _tests(row, board, significance)))


def alike(board: Leaderboard, significance: Significance) -> list[Row]:
    """The best student and those whose average score the tests cannot tell apart from its average."""
    top = best(board, significance)
    return [row for row in board.shipped if row is top or _same(row, top, significance)]


def picks(board: Leaderboard, significance: Significance) -> list[Pick]:
    """One to three students: for quality, then for speed, then for size.

    A tie in speed or size goes to the higher average, then to the earlier row.
    """
    criteria: list[tuple[str, Sequence[Row], _Key]] = [
        ("best quality", alike(board, significance), _cost),
        ("fastest", board.shipped, lambda row: (_latency(row), -row.average, _megabytes(row))),
        ("smallest", board.shipped, lambda row: (_megabytes(row), -row.average, _latency(row))),
    ]
    reasons: dict[str, list[str]] = {}
    for reason, students, key in criteria:
        reasons.setdefault(min(students, key=key).model, []).append(reason)
    rows = {row.model: row for row in board.shipped}
    return [Pick(rows[model], tuple(found)) for model, found in reasons.items()]


def lead(picks: Sequence[Pick]) -> list[tuple[str, str]]:
    """The recommendation in a line: each student, and what to ship it for."""
    return [(pick.row.model, " and ".join(STRENGTHS[reason] for reason in pick.reasons)) for pick in picks]


def _same(row: Row, other: Row, significance: Significance) -> bool:
    test = significance.between(row.model, other.model, AVERAGE)
    return test is not None and not test.real


def _tests(row: Row, board: Leaderboard, significance: Significance) -> int:
    """How many other students it is tested against."""
    return sum(significance.between(row.model, other.model, AVERAGE) is not None for other in board.shipped)


def _beats(other: Row, row: Row) -> bool:
    theirs, ours = ((-of.average, _latency(of), _megabytes(of)) for of in (other, row))
    return theirs != ours and all(a <= b for a, b in zip(theirs, ours, strict=True))


def _cost(row: Row) -> tuple[float, ...]:
    """Smallest on disk first, then fewest parameters, then fastest."""
    return _megabytes(row), row.size.parameters if row.size else float("inf"), _latency(row)


def _latency(row: Row) -> float:
    return row.size.latency_ms_p50 if row.size else float("inf")


def _megabytes(row: Row) -> float:
    return row.size.megabytes if row.size else float("inf")
