"""Which differences between models are real, by the paired tests of stage `significance`."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.report import recommend
from pipeline.report.inputs import AVERAGE, TEACHER, Comparison, Significance
from pipeline.report.leaderboard import Leaderboard
from pipeline.report.numbers import level


@dataclass(frozen=True)
class Difference:
    """One paired test as shown."""

    student: str
    other: str
    task: str
    difference: str
    interval: str
    p: str
    verdict: str


@dataclass(frozen=True)
class Differences:
    """The tests of the averages, those of single tasks, and how they were made."""

    averages: tuple[Difference, ...]
    tasks: tuple[Difference, ...]
    note: str


def differences(significance: Significance, board: Leaderboard) -> Differences:
    """All paired tests, those of the best average first."""
    place = {row.model: at for at, row in enumerate(sorted(board.shipped, key=lambda row: -row.average))}
    tests = sorted(significance.paired, key=lambda test: place.get(test.student, len(place)))
    return Differences(
        averages=tuple(_shown(test, significance) for test in tests if test.task == AVERAGE),
        tasks=tuple(_shown(test, significance) for test in tests if test.task != AVERAGE),
        note=(
            f"Both models are scored on the same {significance.samples:,} resamples of each task's rows. The "
            f"range holds {level(significance.confidence)} of the differences. If zero lies within it, the "
            "data cannot tell the two models apart. Each student is compared with the teacher and with the "
            "student next below it in average score; the best student is compared with all others. The "
            "p-values are not corrected for the number of tests."
        ),
    )


def caveats(board: Leaderboard, significance: Significance) -> list[str]:
    """What the recommendation must say: which models the tests cannot tell apart."""
    best = recommend.best(board, significance)
    shipped = recommend.picks(board, significance)[0].row.model
    found = []
    if others := [row.model for row in recommend.alike(board, significance) if row is not best]:
        found.append(
            f"{best.model} has the highest average score, but the tests cannot tell {_listed(others)} apart "
            f"from it on these tasks. {shipped} is the smallest of them."
        )
    untested = [
        row.model
        for row in board.shipped
        if row is not best and not significance.between(best.model, row.model, AVERAGE)
    ]
    if untested:
        found.append(f"No test compares {best.model} with {_listed(untested)}.")
    test = significance.between(shipped, TEACHER, AVERAGE)
    if test and not test.real:
        found.append(f"The tests cannot tell {shipped} apart from the teacher in average score.")
    return found


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def p_value(p: float, samples: int) -> str:
    """A p-value; the least that so many resamples can show is written as a bound."""
    least = 2 / (samples + 1)
    if p <= least * (1 + 1e-5):  # metrics are rounded to six digits
        place = 10.0 ** math.floor(math.log10(least))
        return f"≤ {math.ceil(least / place) * place:.1g}"
    return f"{p:.1g}" if p < 0.001 else f"{p:.3f}"


def _shown(test: Comparison, significance: Significance) -> Difference:
    better = "better" if test.difference > 0 else "worse"
    return Difference(
        student=test.student,
        other=test.other,
        task=test.task,
        difference=f"{test.difference:+.3f}",
        interval=f"{test.low:+.3f} to {test.high:+.3f}",
        p=p_value(test.p, significance.samples),
        verdict=f"yes, {better}" if test.real else "cannot tell",
    )
