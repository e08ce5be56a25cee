"""The leaderboard as tables: for the page, for GitHub, and for `dvc metrics`."""

from dataclasses import dataclass

from pipeline.params.evaluate import AGREEMENT
from pipeline.report.inputs import AVERAGE, KEPT, Size
from pipeline.report.leaderboard import SHIPPED, Leaderboard, Row
from pipeline.report.numbers import NOTHING, level, number, percent, percent_span, score, span, steadiness

SPEED, LATENCY, PAIR = "sentences/s (speedup)", "ms/sentence p50 (p95)", "ms/pair"
NOTES = (
    "Average is the mean of the tasks' headline scores. Kept is the mean over the tasks of the score divided "
    f"by the teacher's score; it is {NOTHING} if the tests cannot tell a score of the teacher from zero. "
    "Sentences/s is the speed in batches; the speedup over the teacher is the median of the rounds' ratios. "
    "Ms/sentence is the time of one sentence alone: the median, and the 95th percentile. ± says by how much "
    "a round differs from the median round. Sizes and speeds are those of the teacher and of what each "
    "student ships. Speed is measured in float32, except for a teacher behind an API."
)
AGREEMENT_NOTE = (
    "Agreement is the share of the ten texts that the teacher finds nearest to a held-out text of the corpus "
    "that a student finds too"
)
PAIR_NOTE = (
    "Ms/pair is the time of a pass over the pairs of `footprint.pairs`, one text at a time, divided by their "
    "number: the median of the rounds."
)
PROXY_NOTE = (
    "are built-in proxies made from WordNet: good for comparing these models with each other, not for "
    "predicting scores on your data."
)
REFUSED = "Not made, because the teacher cannot give it:"
OWN_TASKS = (
    "To score on your own data, name STS files, BEIR-format retrieval folders or files of labelled texts "
    "under `evaluate.tasks` in params.yaml and run `dvc repro`."
)


@dataclass(frozen=True)
class Cell:
    """A text, and the number to sort by."""

    text: str
    value: float | None
    quiet: str = ""
    """A second, smaller line: the interval."""


def headings(board: Leaderboard) -> list[str]:
    """Titles of the columns, the two that name the model included."""
    scores = [f"{task.name} ({task.metric}){'*' if task.builtin else ''}" for task in board.tasks]
    footprint = ["parameters", "MB", SPEED, LATENCY, *([PAIR] if _of_pairs(board) else [])]
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
    return [Cell(str(row.dim), row.dim), *tasks, average, kept, *_footprint(row.size), *_pair(board, row)]


def markdown(board: Leaderboard) -> str:
    """The leaderboard as a GitHub table, with notes on its numbers."""
    titles = headings(board)
    lines = [[_escape(title) for title in titles], ["---", "---", *(["---:"] * (len(titles) - 2))]]
    for row in board.rows:
        shown = zip(titles[2:], cells(board, row), strict=True)
        texts = [row.model, row.variant, *(_inline(title, cell) for title, cell in shown)]
        lines.append([f"**{_escape(text)}**" if row.variant == SHIPPED else _escape(text) for text in texts])
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    proxies = ", ".join(task.name for task in board.tasks if task.builtin)
    proxy_note = f"\\* {proxies} {PROXY_NOTE}\n\n" if proxies else ""
    refused = "".join(f"{REFUSED} {_escape(one)}\n\n" for one in board.refused)
    return f"# Leaderboard\n\n{table}\n\n{refused}{notes(board)}\n\n{proxy_note}{OWN_TASKS}\n"


def notes(board: Leaderboard) -> str:
    """What the numbers of the leaderboard are."""
    said = [NOTES]
    if any(task.name == AGREEMENT for task in board.tasks):
        alone, beside = "there is no task, so the average is it", "no average counts it"
        said.append(f"{AGREEMENT_NOTE}; {alone if board.without_labels else beside}.")
    if _of_pairs(board):
        said.append(PAIR_NOTE)
    if board.machine:
        said.append(f"Speeds were measured on {board.machine}.")
    if board.confidence is not None:
        said.append(f"Ranges are {level(board.confidence)} bootstrap intervals over the rows of the tasks.")
    return " ".join(said)


def plain_rows(board: Leaderboard) -> list[dict[str, str | float | None]]:
    """One row for the teacher and for each shipped student, all digits, for other programs."""
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
    """The few numbers per model that `dvc metrics diff` and `dvc exp show` compare; rounded."""
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


def _footprint(size: Size | None) -> list[Cell]:
    if size is None:
        return [Cell("", None)] * 4
    speed = f"{number(size.sentences_per_second)} ({number(size.speedup)}×)"
    latency = f"{number(size.latency_ms_p50)} ({number(size.latency_ms_p95)})"
    return [
        # The size of a teacher behind an API is not known.
        Cell(f"{number(size.parameters / 1e6)} M", size.parameters)
        if size.parameters
        else Cell(NOTHING, None),
        Cell(number(size.megabytes), size.megabytes) if size.megabytes else Cell(NOTHING, None),
        Cell(speed, size.sentences_per_second, steadiness(size.batch_spread)),
        Cell(latency, size.latency_ms_p50, steadiness(size.latency_spread)),
    ]


def _of_pairs(board: Leaderboard) -> bool:
    """Whether any model was timed on pairs."""
    return any(row.size and row.size.pair_ms is not None for row in board.rows)


def _pair(board: Leaderboard, row: Row) -> list[Cell]:
    if not _of_pairs(board):
        return []
    if row.size is None:
        return [Cell("", None)]
    if row.size.pair_ms is None:
        return [Cell(NOTHING, None)]
    return [Cell(number(row.size.pair_ms), row.size.pair_ms, steadiness(row.size.pair_spread))]


def _digits(value: float) -> float:
    return float(f"{value:.3g}")


def _inline(title: str, cell: Cell) -> str:
    """A cell on one line; the intervals of single tasks would make the table too wide."""
    if not cell.quiet or title not in (AVERAGE, KEPT, SPEED, LATENCY, PAIR):
        return cell.text
    return f"{cell.text} {cell.quiet}" if title in (SPEED, LATENCY, PAIR) else f"{cell.text} ({cell.quiet})"


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace("|", "\\|").replace("*", "\\*")
