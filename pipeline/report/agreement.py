"""How far each student agrees with the teacher on held-out texts: as a whole, and by length and role."""

from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.params.evaluate import AGREEMENT
from pipeline.report.inputs import FINETUNED, Significance, StudentMetrics
from pipeline.report.numbers import score, span
from pipeline.report.sections import Measures

OVERLAP, SPEARMAN = "overlap@10", "spearman"
MEANINGS = {
    OVERLAP: "share of a text's ten nearest texts by the teacher that the student finds too",
    SPEARMAN: "rank correlation of the similarities of pairs with the teacher's",
}


@dataclass(frozen=True)
class Agreement:
    """What the page says of it."""

    said: str
    measures: Measures
    """No columns where it was not measured."""
    alone: bool
    """Whether there is no task beside it."""


def agreement(students: Sequence[StudentMetrics], significance: Significance) -> Agreement:
    """The agreement of all students, which share their texts."""
    first = students[0]
    if AGREEMENT not in first.main:
        why = first.agreement.left_out or "The metrics do not have it."
        return Agreement(f"Not measured. {why}", Measures((), ()), alone=False)
    texts = first.scores[FINETUNED][AGREEMENT]["texts"] or 0
    said = (
        f"{texts:,.0f} texts of the corpus that no student is trained on, without labels. The teacher agrees "
        "with itself: 1. The same texts choose among a training's weights, so this is a little better than "
        "it would be on new texts. Lengths and roles of few texts are not shown."
    )
    rows = [_row(metric, MEANINGS[metric], _whole(students, metric, significance)) for metric in MEANINGS]
    for metric in MEANINGS:
        for at, group in enumerate(first.agreement.groups):
            values = [score(student.agreement.groups[at].scores[metric]) for student in students]
            rows.append(_row(f"{metric}, {group.group}", f"{group.scores['texts']:,.0f} texts", values))
    measures = Measures(tuple(student.student for student in students), tuple(rows))
    return Agreement(said, measures, alone=set(first.main) == {AGREEMENT})


def _whole(students: Sequence[StudentMetrics], metric: str, significance: Significance) -> list[str]:
    """Of all texts, with its interval where there is one."""
    values = []
    for student in students:
        interval = significance.metrics.get(student.student, {}).get(AGREEMENT, {}).get(metric)
        shown = score(student.scores[FINETUNED][AGREEMENT][metric])
        values.append(f"{shown} ({span(interval)})" if interval else shown)
    return values


def _row(name: str, meaning: str, values: Sequence[str]) -> tuple[str, str, tuple[str, ...]]:
    return name, meaning, tuple(values)
