"""Scores at fewer bytes a vector: shorter prefixes, int8, binary."""

from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.reporting.figures import Line, Panel
from pipeline.reporting.inputs import FINETUNED, TEACHER, Budget, StudentMetrics
from pipeline.reporting.tables import number, percent, score

ROLES = {"float32": "ink", "float16": "muted", "int8": "accent", "binary": "warm"}
AXIS = "MB for a million vectors (log scale)"
NOTE = (
    "The teacher's whole vectors are 100%. Not listed: what another choice of the same student beats at no "
    "more bytes."
)


@dataclass(frozen=True)
class Choice:
    """One way to keep a student's vectors, as shown."""

    student: str
    vectors: str
    trained: str
    megabytes: str
    average: str
    kept: str


def panels(metrics: StudentMetrics) -> list[Panel]:
    """The average score against bytes, a line a number type; empty where nothing was measured."""
    types = dict.fromkeys(entry.type for entry in metrics.budget)
    lines = tuple(
        Line(name, ROLES.get(name, "muted"), *_points([b for b in metrics.budget if b.type == name]))
        for name in types
    )
    return [Panel(f"{metrics.student}: average score", lines, AXIS, log=True)] if lines else []


def choices(students: Sequence[StudentMetrics]) -> list[Choice]:
    """The entries of each student that none with as few bytes beats, the largest first."""
    return [_shown(m.student, entry) for m in students for entry in _front(m.budget)]


def asymmetric(students: Sequence[StudentMetrics]) -> list[tuple[str, tuple[str, ...]]]:
    """One row a retrieval task and student: its name, then the main metric of three pairings.

    Teacher with teacher, the student's queries in the teacher's documents, student with student.
    """
    return [
        (
            f"{task} › {m.student}",
            (
                score(m.score(TEACHER, task)),
                score(found.get(m.main.get(task, ""))),
                score(m.score(FINETUNED, task)),
            ),
        )
        for m in students
        for task, found in m.asymmetric.items()
    ]


def _points(entries: Sequence[Budget]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    ordered = sorted(entries, key=lambda entry: entry.megabytes_per_million)
    return tuple(e.megabytes_per_million for e in ordered), tuple(e.average for e in ordered)


def _front(entries: Sequence[Budget]) -> list[Budget]:
    front: list[Budget] = []
    for entry in sorted(entries, key=lambda e: (e.megabytes_per_million, -e.average)):
        if not front or entry.average > front[-1].average:
            front.append(entry)
    return front[::-1]


def _shown(student: str, entry: Budget) -> Choice:
    return Choice(
        student=student,
        vectors=f"{entry.dim} × {entry.type}",
        trained="yes" if entry.trained else "no",
        megabytes=number(entry.megabytes_per_million),
        average=score(entry.average),
        kept=percent(entry.kept),
    )
