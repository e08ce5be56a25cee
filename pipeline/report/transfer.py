"""The transfer sets: how many rows were made of each labelled task, and why some were dropped."""

from collections.abc import Mapping

from pipeline.report.inputs import TransferMetrics
from pipeline.report.numbers import NOTHING, percent
from pipeline.report.sections import Measures

REASONS = {
    "no_word": "a text has nothing but masks and punctuation",
    "training_row": "a training row as it was, or another one",
    "evaluation_text": "a text of a row that evaluates, of any task",
    "duplicate": "already made of this task",
    "over_limit": "more than `augment.transfer.limit`",
}


def measures(tasks: Mapping[str, TransferMetrics]) -> Measures:
    """A column for each task."""
    found = tasks.values()
    rows: list[tuple[str, str, list[str]]] = [
        ("training rows", "", [f"{made.rows_in:,}" for made in found]),
        ("rows made", "", [f"{made.made:,}" for made in found]),
    ]
    reasons = {reason for made in found for reason in made.dropped}
    for reason in sorted(reasons, key=[*REASONS, *sorted(reasons)].index):
        counts = [f"{made.dropped.get(reason, 0):,}" for made in found]
        rows.append((f"dropped: {reason.replace('_', ' ')}", REASONS.get(reason, ""), counts))
    rows += [
        (
            "rows kept",
            "without labels, which the task's teacher gives",
            [f"{made.rows_out:,}" for made in found],
        ),
        ("masked", "share of the words", [_share(made.masked, made.words) for made in found]),
        (
            "replaced",
            "share of the words, each by another of its part of speech",
            [_share(made.replaced, made.words) for made in found],
        ),
        (
            "cut",
            "share of the changed texts of which a few neighbouring words are left",
            [_share(made.ngrams, made.texts) for made in found],
        ),
    ]
    return Measures(tuple(tasks), tuple((name, meaning, tuple(values)) for name, meaning, values in rows))


def _share(part: int, whole: int) -> str:
    return percent(part / whole) if whole else NOTHING
