"""The rows of the leaderboard: the teacher, the teacher after PCA, each student before and after training."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from pipeline.params.evaluate import AGREEMENT
from pipeline.report.inputs import (
    DISTILLED,
    FINETUNED,
    KEPT,
    TEACHER,
    TEACHER_PCA,
    UNTRAINED,
    Interval,
    Significance,
    Size,
    StudentMetrics,
)

SHIPPED = "shipped"
REFERENCES = {TEACHER: "as it is", TEACHER_PCA: "after PCA"}
READS_SAME_DIGITS = 3


@dataclass(frozen=True)
class Task:
    """A column of scores."""

    name: str
    metric: str
    builtin: bool


@dataclass(frozen=True)
class Row:
    """One model; `size` is None where the model never ships."""

    model: str
    variant: str
    dim: int
    scores: tuple[float | None, ...]
    average: float
    kept: float | None
    size: Size | None = None
    intervals: Mapping[str, Interval | None] = field(default_factory=dict)
    """By task, "average" or "kept"; only the teacher and shipped students have them."""


@dataclass(frozen=True)
class Leaderboard:
    """The teacher's rows, then the students' in the given order; `scores` follow `tasks`."""

    tasks: tuple[Task, ...]
    rows: tuple[Row, ...]
    confidence: float | None = None
    """Confidence of the rows' intervals."""
    machine: str = ""
    """Where the speeds were measured."""
    refused: tuple[str, ...] = ()
    """The students that the teacher cannot give: reason and fix."""

    @property
    def teacher(self) -> Row:
        """The teacher as it is."""
        return self.rows[0]

    @property
    def without_labels(self) -> bool:
        """Whether nothing but agreement with the teacher is scored."""
        return {task.name for task in self.tasks} == {AGREEMENT}

    @property
    def shipped(self) -> list[Row]:
        """What each student ships."""
        return [row for row in self.rows if row.variant == SHIPPED]


def leaderboard(
    students: Sequence[StudentMetrics],
    sizes: Mapping[str, Size],
    significance: Significance | None = None,
    machine: str = "",
) -> Leaderboard:
    """Put the students' metrics and the footprints of the teacher and the students side by side."""
    tasks = _tasks(students)
    rows = _references(students, TEACHER, sizes[TEACHER], tasks)
    rows += sorted(_references(students, TEACHER_PCA, None, tasks), key=lambda row: -row.dim)
    for metrics in students:
        rows += [_row(metrics, v, v, None, tasks) for v in (UNTRAINED, DISTILLED) if v in metrics.average]
        rows.append(_row(metrics, FINETUNED, SHIPPED, sizes[metrics.student], tasks))
    if significance:
        rows = [
            replace(row, intervals=_intervals(row.model, significance)) if row.size else row for row in rows
        ]
        if not significance.tells_shares:
            rows = [replace(row, kept=None, intervals={**row.intervals, KEPT: None}) for row in rows]
    return Leaderboard(tasks, tuple(rows), significance.confidence if significance else None, machine)


def _tasks(students: Sequence[StudentMetrics]) -> tuple[Task, ...]:
    """As they come, agreement with the teacher last."""
    found = {
        name: Task(name, metric, name in metrics.builtin)
        for metrics in students
        for name, metric in metrics.main.items()
    }
    return tuple(sorted(found.values(), key=lambda task: task.name == AGREEMENT))


def _row(
    metrics: StudentMetrics, variant: str, shown: str, size: Size | None, tasks: tuple[Task, ...]
) -> Row:
    if (how := metrics.similarity.get(variant, "cosine")) != "cosine":
        shown = f"{shown}, compared by {how}"
    return Row(
        model=TEACHER if variant in REFERENCES else metrics.student,
        variant=shown,
        dim=size.dim if size else metrics.dims[variant],
        scores=tuple(metrics.score(variant, task.name) for task in tasks),
        average=metrics.average[variant],
        kept=metrics.kept(variant),
        size=size,
    )


def _references(
    students: Sequence[StudentMetrics], variant: str, size: Size | None, tasks: tuple[Task, ...]
) -> list[Row]:
    """The teacher's rows; after PCA only those that lost dimensions. Only the first row has the size.

    Rows that would read the same for several students are one row.
    """
    groups: dict[tuple, tuple[Row, list[str]]] = {}
    for metrics in students:
        reduced = metrics.dims.get(variant) != metrics.dims.get(TEACHER)
        if variant in metrics.average and (variant == TEACHER or reduced):
            view, users_view = metrics.views.get(variant), metrics.views.get(TEACHER)
            of_view = f" of {view}" if view != users_view else ""
            row = _row(metrics, variant, f"{REFERENCES[variant]}{of_view}", size, tasks)
            shown = tuple(None if s is None else round(s, READS_SAME_DIGITS) for s in row.scores)
            groups.setdefault((row.dim, row.variant, shown), (row, []))[1].append(metrics.student)
    alike = Counter((row.dim, row.variant) for row, _ in groups.values())
    rows = [
        replace(row, variant=f"{row.variant}, for {' and '.join(names)}")
        if alike[row.dim, row.variant] > 1
        else row
        for row, names in groups.values()
    ]
    return [*rows[:1], *(replace(row, size=None) for row in rows[1:])]


def _intervals(model: str, significance: Significance) -> dict[str, Interval]:
    return {name: found for name, found in significance.intervals.get(model, {}).items() if found}
