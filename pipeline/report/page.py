"""One page that answers which student to ship: it loads nothing and needs no network."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipeline.report import added, budget, cut, effort, numbers, planned, tables, timings
from pipeline.report.added import Added
from pipeline.report.agreement import Agreement
from pipeline.report.augmentation import MethodView
from pipeline.report.budget import Choice, IndexRow
from pipeline.report.classifiers import Classifiers
from pipeline.report.differences import Differences
from pipeline.report.effort import Effort
from pipeline.report.examples import StudentView, TaskView
from pipeline.report.figures import PALETTE
from pipeline.report.leaderboard import Leaderboard
from pipeline.report.ledger import LedgerView
from pipeline.report.planned import Compared
from pipeline.report.recommend import RULE, Pick, lead
from pipeline.report.sections import Counts, Measures, Scores
from pipeline.report.timings import Timings

if TYPE_CHECKING:
    from markupsafe import Markup


@dataclass(frozen=True)
class Figure:
    """An SVG with a caption, and an alternative text for readers who cannot see it."""

    svg: str
    caption: str
    alternative: str


@dataclass(frozen=True)
class Picture:
    """A bitmap as a data URI, with a title and an alternative text."""

    uri: str
    title: str
    alternative: str


@dataclass(frozen=True)
class Report:
    """Everything that the page shows."""

    teacher: str
    board: Leaderboard
    picks: tuple[Pick, ...]
    caveats: tuple[str, ...]
    agreement: Agreement
    quality: tuple[Figure, ...]
    differences: Differences
    budgets: tuple[Figure, ...]
    budget_note: str
    """What is scored at fewer bytes."""
    choices: tuple[Choice, ...]
    indexes: tuple[IndexRow, ...]
    asymmetric: tuple[tuple[str, tuple[str, ...]], ...]
    added: tuple[Added, ...]
    augmented: Measures
    """What became of the texts of each method of augmentation."""
    pairs: tuple[MethodView, ...]
    augmentation: tuple[str, ...]
    """What students that differ only in their texts show."""
    transfer: Measures
    """The rows that were made of labelled tasks, by task."""
    examples: tuple[TaskView, ...]
    disagreements: tuple[StudentView, ...]
    spread: Figure | None
    heatmaps: tuple[Picture, ...]
    geometry: Measures
    scores: Scores
    curves: tuple[Figure, ...]
    training: Measures
    timings: Timings
    planned: tuple[Compared, ...]
    """Plan against fact, the last row of all together; none where nothing was planned."""
    efforts: tuple[Effort, ...]
    warnings: tuple[str, ...]
    no_warnings: str
    """The sentence for a page without warnings."""
    classifiers: Classifiers
    classifier_curves: tuple[Figure, ...]
    cut: str
    """How much of the texts the teacher's window cuts."""
    cut_texts: Measures
    """The same by text set."""
    corpus: tuple[Counts, ...]
    ledger: LedgerView
    """What everything is made of."""


def render(report: Report) -> str:
    """The page as HTML; every text is escaped except the figures, which are our own SVG."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("pipeline.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["code"] = code
    return environment.get_template("page.html.j2").render(
        report=report,
        headings=tables.headings(report.board),
        lead=lead(report.picks),
        picked=[pick.row for pick in report.picks],
        keeps=keeps,
        costs=costs,
        proxies=[task.name for task in report.board.tasks if task.builtin],
        palette=PALETTE,
        rule=RULE,
        added=added,
        budget=budget,
        cut=cut,
        effort=effort,
        numbers=numbers,
        planned=planned,
        tables=tables,
        timings=timings,
    )


def code(text: str) -> "Markup":
    """Escaped HTML of a text that has `code` between backticks."""
    from markupsafe import Markup

    parts = text.split("`")
    marked = [
        Markup("<code>{}</code>").format(part) if i % 2 else Markup.escape(part)
        for i, part in enumerate(parts)
    ]
    return Markup("").join(marked)


def keeps(pick: Pick, board: Leaderboard) -> str:
    """What a student keeps of the teacher, in words."""
    ours, theirs = numbers.score(pick.row.average), numbers.score(board.teacher.average)
    if board.without_labels:
        return f"Finds {numbers.percent(pick.row.average)} of the texts that the teacher finds nearest"
    average = f"average score {ours}, teacher's {theirs}"
    if pick.row.kept is None:
        return average
    return f"Keeps {numbers.percent(pick.row.kept)} of the teacher ({average})"


def costs(pick: Pick, board: Leaderboard) -> list[str]:
    """What a student costs, compared with the teacher: size on disk and time of one sentence."""
    ours, theirs = pick.row.size, board.teacher.size
    if ours is None or theirs is None:
        return []
    size = _times(theirs.megabytes, ours.megabytes, "smaller", "larger")
    speed = _times(theirs.latency_ms_p50, ours.latency_ms_p50, "faster", "slower")
    number = numbers.number
    return [f"{number(ours.megabytes)} MB{size}", f"{number(ours.latency_ms_p50)} ms a sentence{speed}"]


def alternative(board: Leaderboard, costs: Sequence[float], unit: str) -> str:
    """A figure of quality against cost in words; `costs` are those of the rows that have a size."""
    models = zip([row for row in board.rows if row.size], costs, strict=True)
    points = [
        f"{row.model} {numbers.score(row.average)} at {numbers.number(cost)} {unit}"
        for row, cost in models
        if cost
    ]
    return f"Average score against cost: {', '.join(points)}."


def _times(theirs: float, ours: float, more: str, less: str) -> str:
    """The ratio of two costs in words; empty if one is zero (a teacher without weights)."""
    if not theirs or not ours:
        return ""
    factor = theirs / ours
    return f", {numbers.number(factor)}× {more}" if factor >= 1 else f", {numbers.number(1 / factor)}× {less}"
