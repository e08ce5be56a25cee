"""Scores at fewer bytes a vector, with the teacher's documents, and by indexes that skip documents."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pipeline.report.figures import Line, Panel
from pipeline.report.inputs import FINETUNED, TEACHER, Budget, Searches, StudentMetrics
from pipeline.report.numbers import number, percent, score, steadiness

ROLES = {"float32": "ink", "float16": "muted", "int8": "accent", "binary": "warm"}
AXIS = "MB for a million vectors (log scale)"
INDEX_SCORES = ("headline", "recall@10", "exact@10")
INDEX_TIMES = ("queries", "build_seconds", "build_spread", "ms_per_1000_queries", "search_spread")
INDEX_SHAPE = ("task", "model", "index", "bytes", "documents", "dim")


@dataclass(frozen=True)
class Choice:
    """One way to keep a student's vectors, as shown."""

    student: str
    vectors: str
    trained: str
    megabytes: str
    average: str
    kept: str


@dataclass(frozen=True)
class IndexRow:
    """One index over one model's documents, as shown."""

    model: str
    task: str
    index: str
    megabytes: str
    scores: tuple[str, ...]
    """By INDEX_SCORES."""
    build: str
    """Milliseconds; empty where it was not measured."""
    search: str
    """Milliseconds for 1,000 queries; empty where it was not measured."""


def note(students: Sequence[StudentMetrics]) -> str:
    """What the scores at fewer bytes are, and which tasks they leave out."""
    said = "Average scores with fewer dimensions of the vectors, and with smaller types of number."
    left_out = dict.fromkeys(task for metrics in students for task in metrics.budget_left_out)
    return f"{said} Tasks that train a classifier are left out: {', '.join(left_out)}." if left_out else said


def indexes(students: Sequence[StudentMetrics], searches: Searches) -> list[IndexRow]:
    """Every index of the teacher's and of the students' vectors."""
    times = {_key(row, str(row["model"])): row for row in searches.searches}
    rows = []
    for at, metrics in enumerate(students):
        for row in metrics.indexes:
            if row["model"] == TEACHER and at:
                continue  # the same beside each student
            model = TEACHER if row["model"] == TEACHER else metrics.student
            headline = metrics.main.get(str(row["task"]), "")
            settings = [f"{name} {value}" for name, value in _settings(row)]
            time = times.get(_key(row, model), {})
            rows.append(
                IndexRow(
                    model=model,
                    task=str(row["task"]),
                    index=", ".join([str(row["index"]), *settings]),
                    megabytes=number(float(row["bytes"] or 0) / 1e6),
                    scores=tuple(_score(row.get(name)) for name in (headline, *INDEX_SCORES[1:])),
                    build=_time(time, "build_seconds", 1000, "build_spread"),
                    search=_time(time, "ms_per_1000_queries", 1, "search_spread"),
                )
            )
    return rows


def _time(time: Mapping[str, object], name: str, factor: int, spread: str) -> str:
    """Milliseconds, and by how much the rounds differ."""
    if not time:
        return ""
    shown = number(factor * float(str(time[name])))
    differs = time.get(spread)
    return f"{shown} {steadiness(differs)}" if isinstance(differs, float) else shown


def panels(metrics: StudentMetrics) -> list[Panel]:
    """The average score against bytes, one line per number type; empty where nothing was measured."""
    types = dict.fromkeys(entry.type for entry in metrics.budget)
    lines = tuple(
        Line(name, ROLES.get(name, "muted"), *_points([b for b in metrics.budget if b.type == name]))
        for name in types
    )
    return [Panel(f"{metrics.student}: average score", lines, AXIS, log=True)] if lines else []


def choices(students: Sequence[StudentMetrics]) -> list[Choice]:
    """Each student's entries that no other entry beats at no more bytes, the largest first."""
    return [_shown(m.student, entry) for m in students for entry in _front(m.budget)]


def asymmetric(students: Sequence[StudentMetrics]) -> list[tuple[str, tuple[str, ...]]]:
    """One row per retrieval task and student: its name, then the main metric of three pairings.

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


def _settings(row: Mapping[str, object]) -> list[tuple[str, int]]:
    shape = (*INDEX_SHAPE, *INDEX_TIMES)
    return sorted((key, value) for key, value in row.items() if key not in shape and isinstance(value, int))


def _key(row: Mapping[str, object], model: str) -> tuple[object, ...]:
    """What identifies an index."""
    return row["task"], model, row["index"], *_settings(row)


def _score(value: str | float | None) -> str:
    return score(value if isinstance(value, float) else None)


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
