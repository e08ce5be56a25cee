"""The leaderboard: the teacher, the teacher after PCA, and each student before and after training."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from pipeline.report.inputs import (
    AVERAGE,
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

NOTHING = "–"
SHIPPED = "shipped"
REFERENCES = {TEACHER: "as it is", TEACHER_PCA: "after PCA"}
READS_SAME_DIGITS = 3
SPEED, LATENCY = "sentences/s (speedup)", "ms/sentence p50 (p95)"
NOISY = 0.15
"""Spread of a time's rounds beyond which it is not to be relied on."""
NOISE = "noisy: other work was running"
NOTES = (
    "Average: the mean of the tasks' headline scores. Kept: the mean over the tasks of score / teacher's "
    f"score, {NOTHING} where the teacher's cannot be told from zero. Speed: sentences a second in batches "
    "(times the teacher's: the median of the rounds' ratios), and the time of one sentence alone, median "
    "(95th percentile), ± by how much a round differs from the median round. Size and speed are measured on "
    "what ships, speed in float32 (but an API's)."
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
    intervals: Mapping[str, Interval | None] = field(default_factory=dict)
    """By task, "average" or "kept"; of the teacher and of what ships."""


@dataclass(frozen=True)
class Leaderboard:
    """Rows of the teacher first, then of the students in the given order; `scores` follow `tasks`."""

    tasks: tuple[Task, ...]
    rows: tuple[Row, ...]
    confidence: float | None = None
    """Of the rows' intervals."""
    machine: str = ""
    """Where the speeds were measured."""

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
    quiet: str = ""
    """A second, smaller line: the interval."""


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


def headings(board: Leaderboard) -> list[str]:
    """Titles of the columns, the two that name the model included."""
    scores = [f"{task.name} ({task.metric}){'*' if task.builtin else ''}" for task in board.tasks]
    footprint = ["parameters", "MB", SPEED, LATENCY]
    return ["model", "variant", "dim", *scores, AVERAGE, KEPT, *footprint]


def cells(board: Leaderboard, row: Row) -> list[Cell]:
    """A row as shown, without the two columns that name the model."""
    found = row.intervals
    tasks = [
        Cell(score(value), value, span(found.get(task.name)))
        for task, value in zip(board.tasks, row.scores, strict=True)
    ]
    average = Cell(score(row.average), row.average, span(found.get(AVERAGE)))
    kept = Cell(percent(row.kept), row.kept, percent_span(found.get(KEPT)))
    return [Cell(str(row.dim), row.dim), *tasks, average, kept, *_footprint(row.size)]


def markdown(board: Leaderboard) -> str:
    """The leaderboard as a GitHub table, with what its numbers are."""
    titles = headings(board)
    lines = [[_escape(title) for title in titles], ["---", "---", *(["---:"] * (len(titles) - 2))]]
    for row in board.rows:
        shown = zip(titles[2:], cells(board, row), strict=True)
        texts = [row.model, row.variant, *(_inline(title, cell) for title, cell in shown)]
        lines.append([f"**{_escape(text)}**" if row.variant == SHIPPED else _escape(text) for text in texts])
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    proxies = ", ".join(task.name for task in board.tasks if task.builtin)
    proxy_note = f"\\* {proxies} {PROXY_NOTE}\n\n" if proxies else ""
    return f"# Leaderboard\n\n{table}\n\n{notes(board)}\n\n{proxy_note}{OWN_TASKS}\n"


def notes(board: Leaderboard) -> str:
    """What the numbers of the leaderboard are."""
    said = [NOTES]
    if board.machine:
        said.append(f"Speeds are those of {board.machine}.")
    if board.confidence is not None:
        said.append(f"Ranges are {board.confidence:.0%} bootstrap intervals over the rows of the tasks.")
    return " ".join(said)


def plot_rows(board: Leaderboard) -> list[dict[str, str | float | None]]:
    """One flat row for the teacher and for each shipped student, for `dvc plots`."""
    return [
        {
            "model": row.model,
            "variant": row.variant,
            "retention": row.kept,
            "average": row.average,
            "megabytes": row.size.megabytes or None,
            "sentences_per_second": row.size.sentences_per_second,
            "latency_ms": row.size.latency_ms_p50,
        }
        for row in board.rows
        if row.size
    ]


def summary(board: Leaderboard) -> dict[str, dict[str, float | None]]:
    """The few numbers a model that `dvc metrics diff` and `dvc exp show` tell apart; rounded."""
    return {
        row.model: {
            "avg": round(row.average, 3),
            "kept": None if row.kept is None else round(row.kept, 3),
            "mb": _digits(row.size.megabytes) if row.size.megabytes else None,
            "ms": _digits(row.size.latency_ms_p50),
        }
        for row in board.rows
        if row.size
    }


def score(value: float | None) -> str:
    """A score with three decimals."""
    return NOTHING if value is None else f"{value:.3f}"


def percent(share: float | None) -> str:
    """A share as a percentage with one decimal."""
    return NOTHING if share is None else f"{100 * share:.1f}%"


def span(interval: Interval | None) -> str:
    """The ends of a score's interval; nothing for none."""
    return f"{interval[0]:.3f}–{interval[1]:.3f}" if interval else ""


def percent_span(interval: Interval | None) -> str:
    """The ends of a share's interval; nothing for none."""
    return f"{100 * interval[0]:.1f}–{100 * interval[1]:.1f}%" if interval else ""


def is_noisy(size: Size) -> bool:
    """Whether a model's speed or latency is not to be relied on."""
    return max(size.batch_spread or 0, size.latency_spread or 0) > NOISY


def steadiness(spread: float | None) -> str:
    """By how much the rounds of a time differ; beyond NOISY it says why, where it is unknown nothing."""
    if spread is None:
        return ""
    return f"±{spread:.0%}" if spread <= NOISY else f"{NOISE} (±{spread:.0%})"


def number(value: float) -> str:
    """A measured quantity at three significant digits; whole above a hundred."""
    if abs(value) >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}" if abs(value) >= 1 else f"{value:#.3g}"


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
    """The teacher's rows, after PCA those that lost dimensions; the first alone has the size.

    Those that would read the same for several students are one row.
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


def _footprint(size: Size | None) -> list[Cell]:
    if size is None:
        return [Cell("", None)] * 4
    speed = f"{number(size.sentences_per_second)} ({number(size.speedup)}×)"
    latency = f"{number(size.latency_ms_p50)} ({number(size.latency_ms_p95)})"
    return [
        # A teacher behind an API has a size, but nobody here knows it.
        Cell(f"{number(size.parameters / 1e6)} M", size.parameters)
        if size.parameters
        else Cell(NOTHING, None),
        Cell(number(size.megabytes), size.megabytes) if size.megabytes else Cell(NOTHING, None),
        Cell(speed, size.sentences_per_second, steadiness(size.batch_spread)),
        Cell(latency, size.latency_ms_p50, steadiness(size.latency_spread)),
    ]


def _intervals(model: str, significance: Significance) -> dict[str, Interval]:
    return {name: found for name, found in significance.intervals.get(model, {}).items() if found}


def _digits(value: float) -> float:
    return float(f"{value:.3g}")


def _inline(title: str, cell: Cell) -> str:
    """A cell on one line; the intervals of single tasks would make the table too wide."""
    if not cell.quiet or title not in (AVERAGE, KEPT, SPEED, LATENCY):
        return cell.text
    return f"{cell.text} {cell.quiet}" if title in (SPEED, LATENCY) else f"{cell.text} ({cell.quiet})"


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace("|", "\\|").replace("*", "\\*")
