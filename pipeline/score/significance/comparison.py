"""Confidence intervals of models' scores, and paired tests of students, from the scores of resamples."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pipeline.data.common.files.metrics import AVERAGE, KEPT
from pipeline.score.statistics.bootstrap import Row, interval, p_value

Rows = Mapping[str, Row]
"""A model's scores by task, each with those of the same resamples."""
Averaged = Sequence[str]
"""The tasks that an average is of."""


def average(tasks: Rows, averaged: Averaged) -> Row:
    """The mean over tasks, whose items are drawn independently of each other."""
    return np.mean([tasks[name] for name in averaged], axis=0)


def kept(tasks: Rows, teacher: Rows, averaged: Averaged) -> Row | None:
    """The mean over tasks of score / teacher's score on the same items.

    None where a teacher's score is not positive, itself or in any resample: a share of it says nothing.
    """
    if any((teacher[name] <= 0).any() for name in averaged):
        return None
    return np.mean([tasks[name] / teacher[name] for name in averaged], axis=0)


def intervals(
    tasks: Rows, teacher: Rows, averaged: Averaged, confidence: float
) -> dict[str, list[float] | None]:
    """Percentile intervals [low, high] of one model: by task, of its `average` and of what it has `kept`."""
    of_all = {**tasks, AVERAGE: average(tasks, averaged), KEPT: kept(tasks, teacher, averaged)}
    return {name: None if row is None else [*interval(row, confidence)] for name, row in of_all.items()}


def paired(
    student: str, other: str, rows: tuple[Rows, Rows], averaged: Averaged, confidence: float
) -> list[dict[str, Any]]:
    """Student minus other, by task and on average: the difference, its interval and its p-value.

    Both are scored on the same resamples, so what makes an item easy or hard for both cancels out.
    """
    own, others = ({**tasks, AVERAGE: average(tasks, averaged)} for tasks in rows)
    found = []
    for task in own:
        difference = own[task] - others[task]
        low, high = interval(difference, confidence)
        found.append(
            {
                "student": student,
                "other": other,
                "task": task,
                "difference": float(difference[0]),
                "low": low,
                "high": high,
                "p": p_value(difference),
            }
        )
    return found


def opponents(students: Mapping[str, Rows], averaged: Averaged) -> dict[str, list[str]]:
    """For the best student by average all others, for each other one the next-best; the last has none.

    Of equal ones the first named leads.
    """
    best, *rest = sorted(students, key=lambda name: -average(students[name], averaged)[0])
    return {best: rest} | {name: rest[at : at + 1] for at, name in enumerate(rest, start=1)}
