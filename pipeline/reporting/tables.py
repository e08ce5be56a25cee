"""The leaderboard: the teacher, the teacher after PCA, and each student before and after training."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pipeline.reporting.inputs import (
    DISTILLED,
    FINETUNED,
    TEACHER,
    TEACHER_PCA,
    UNTRAINED,
    Size,
    StudentMetrics,
)

NOTHING = "–"
SHIPPED = "shipped"
REFERENCES = {TEACHER: "as it is", TEACHER_PCA: "after PCA"}
READS_SAME_DIGITS = 3
NOTES = (
    "Average: the mean of the tasks' headline scores. Kept: the mean over the tasks of score / teacher's "
    f"score, {NOTHING} where the teacher's is not positive. Speed: sentences a second in batches, and the "
    "time of one sentence alone, median (95th percentile). Size and speed are measured on what ships."
)
PROXY_NOTE = (
    "are built-in proxies made from WordNet: good for comparing these models with each other, not for "
    "predicting scores on your data."
)
OWN_TASKS = (
    "To score on your own data, name STS files, BEIR-format retrieval folders or files of labelled texts "
    "under `evaluate.tasks` in params.yaml and run `dvc repro`."
)


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


@dataclass(frozen=True)
class Leaderboard:
    """Rows of the teacher first, then of the students in the given order; `scores` follow `tasks`."""

    tasks: tuple[Task, ...]
    rows: tuple[Row, ...]

    @property
    def teacher(self) -> Row:
        """The teacher as it is."""
        return self.rows[0]

    @property
    def shipped(self) -> list[Row]:
        """What each student ships."""
        return [row for row in self.rows if row.variant == SHIPPED]


@dataclass(frozen=True)
class Cell:
    """What is shown, and the number to sort by."""

    text: str
    value: float | None


def leaderboard(students: Sequence[StudentMetrics], sizes: Mapping[str, Size]) -> Leaderboard:
    """Put the students' metrics and the footprints of the teacher and the students side by side."""
    tasks = _tasks(students)
    rows = _references(students, TEACHER, sizes[TEACHER], tasks)
    rows += sorted(_references(students, TEACHER_PCA, None, tasks), key=lambda row: -row.dim)
    for metrics in students:
        rows += [_row(metrics, v, v, None, tasks) for v in (UNTRAINED, DISTILLED) if v in metrics.average]
        rows.append(_row(metrics, FINETUNED, SHIPPED, sizes[metrics.student], tasks))
    return Leaderboard(tasks, tuple(rows))


def headings(board: Leaderboard) -> list[str]:
    """Titles of the columns, the two that name the model included."""
    scores = [f"{task.name} ({task.metric}){'*' if task.builtin else ''}" for task in board.tasks]
    footprint = ["parameters", "MB", "sentences/s", "speedup", "ms/sentence p50 (p95)"]
    return ["model", "variant", "dim", *scores, "average", "kept", *footprint]


def cells(row: Row) -> list[Cell]:
    """A row as shown, without the two columns that name the model."""
    scores = [Cell(score(value), value) for value in (*row.scores, row.average)]
    return [Cell(str(row.dim), row.dim), *scores, Cell(percent(row.kept), row.kept), *_footprint(row.size)]


def markdown(board: Leaderboard) -> str:
    """The leaderboard as a GitHub table, with what its numbers are."""
    titles = headings(board)
    lines = [[_escape(title) for title in titles], ["---", "---", *(["---:"] * (len(titles) - 2))]]
    for row in board.rows:
        texts = [row.model, row.variant, *(cell.text for cell in cells(row))]
        lines.append([f"**{_escape(text)}**" if row.variant == SHIPPED else _escape(text) for text in texts])
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    proxies = ", ".join(task.name for task in board.tasks if task.builtin)
    proxy_note = f"\\* {proxies} {PROXY_NOTE}\n\n" if proxies else ""
    return f"# Leaderboard\n\n{table}\n\n{NOTES}\n\n{proxy_note}{OWN_TASKS}\n"


def plot_rows(board: Leaderboard) -> list[dict[str, str | float | None]]:
    """One flat row for the teacher and for each shipped student, for `dvc plots`."""
    return [
        {
            "model": row.model,
            "variant": row.variant,
            "retention": row.kept,
            "average": row.average,
            "megabytes": row.size.megabytes,
            "sentences_per_second": row.size.sentences_per_second,
            "latency_ms": row.size.latency_ms_p50,
        }
        for row in board.rows
        if row.size
    ]


def score(value: float | None) -> str:
    """A score with three decimals."""
    return NOTHING if value is None else f"{value:.3f}"


def percent(share: float | None) -> str:
    """A share as a percentage with one decimal."""
    return NOTHING if share is None else f"{100 * share:.1f}%"


def number(value: float) -> str:
    """A measured quantity at three significant digits; whole above a hundred."""
    if abs(value) >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}" if abs(value) >= 1 else f"{value:.3g}"


def _tasks(students: Sequence[StudentMetrics]) -> tuple[Task, ...]:
    found = {
        name: Task(name, metric, name in metrics.builtin)
        for metrics in students
        for name, metric in metrics.main.items()
    }
    return tuple(found.values())


def _row(
    metrics: StudentMetrics, variant: str, shown: str, size: Size | None, tasks: tuple[Task, ...]
) -> Row:
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
    """The teacher's rows; those that would read the same for several students are one row."""
    groups: dict[tuple, tuple[Row, list[str]]] = {}
    for metrics in students:
        if variant in metrics.average:
            row = _row(metrics, variant, REFERENCES[variant], size, tasks)
            shown = tuple(None if s is None else round(s, READS_SAME_DIGITS) for s in row.scores)
            groups.setdefault((row.dim, shown), (row, []))[1].append(metrics.student)
    dims = [row.dim for row, _ in groups.values()]
    return [
        replace(row, variant=f"{row.variant}, for {' and '.join(names)}") if dims.count(row.dim) > 1 else row
        for row, names in groups.values()
    ]


def _footprint(size: Size | None) -> list[Cell]:
    if size is None:
        return [Cell("", None)] * 5
    latency = f"{number(size.latency_ms_p50)} ({number(size.latency_ms_p95)})"
    return [
        Cell(f"{number(size.parameters / 1e6)} M", size.parameters),
        Cell(number(size.megabytes), size.megabytes),
        Cell(number(size.sentences_per_second), size.sentences_per_second),
        Cell(f"{number(size.speedup)}×", size.speedup),
        Cell(latency, size.latency_ms_p50),
    ]


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace("|", "\\|").replace("*", "\\*")
