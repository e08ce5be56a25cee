"""What the vectors find: nearest neighbours beside the teacher's, and where a student disagrees most."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pipeline.report.inputs import TEACHER
from pipeline.report.numbers import NOTHING, number, score
from pipeline.score.statistics.examined import Examples, Neighbour

Question = tuple[str, str, tuple[str, ...]]
"""Query, subset, and the texts that belong to the query."""


@dataclass(frozen=True)
class Column:
    """What one model finds for a text, the nearest first."""

    model: str
    neighbours: Sequence[Neighbour]


@dataclass(frozen=True)
class Example:
    """A text, the texts that belong to it, and what each model finds, the teacher first."""

    query: str
    subset: str
    """The task's subset; "" if it has none."""
    relevant: Sequence[str]
    """The first texts that belong to it."""
    belonging: int
    """How many texts belong to it."""
    columns: tuple[Column, ...]


@dataclass(frozen=True)
class TaskView:
    """The examples of one task."""

    task: str
    examples: tuple[Example, ...]


@dataclass(frozen=True)
class DisagreementRow:
    """A pair of texts that a student ranks differently from the teacher; numbers as shown."""

    task: str
    left: str
    right: str
    gold: str
    teacher: tuple[str, str]
    """Cosine and rank."""
    student: tuple[str, str]


@dataclass(frozen=True)
class StudentView:
    """One student's worst disagreements, task by task."""

    student: str
    rows: tuple[DisagreementRow, ...]


def nearest(examples: Mapping[str, Examples]) -> list[TaskView]:
    """By task, the students' neighbours of each text side by side; `examples` is by student."""
    tasks = dict.fromkeys(task for found in examples.values() for task in found)
    views = [TaskView(task, _examples(task, examples)) for task in tasks]
    return [view for view in views if view.examples]


def disagreements(examples: Mapping[str, Examples]) -> list[StudentView]:
    """Each student's pairs whose ranks differ most from the teacher's; `examples` is by student."""
    views = [StudentView(student, _rows(found)) for student, found in examples.items()]
    return [view for view in views if view.rows]


def _examples(task: str, examples: Mapping[str, Examples]) -> tuple[Example, ...]:
    made: dict[tuple[Question, int], Example] = {}
    for student, found in examples.items():
        asked: Counter[Question] = Counter()
        for near in found[task].nearest if task in found else ():
            question = near.query, near.subset, near.relevant
            asked[question] += 1
            key = question, asked[question]  # a choice may be asked again, with other candidates
            teacher = Column(TEACHER, near.teacher)
            known = made.get(key) or Example(*question, near.belonging, (teacher,))
            made[key] = replace(known, columns=(*known.columns, Column(student, near.student)))
    return tuple(made.values())


def _rows(found: Examples) -> tuple[DisagreementRow, ...]:
    return tuple(
        DisagreementRow(
            task=task,
            left=pair.left,
            right=pair.right,
            gold=_gold(pair.gold),
            teacher=(score(pair.teacher_cosine), _rank(pair.teacher_rank, examples.pairs)),
            student=(score(pair.student_cosine), _rank(pair.student_rank, examples.pairs)),
        )
        for task, examples in found.items()
        for pair in examples.disagreements
    )


def _gold(gold: float | str | None) -> str:
    if gold is None:
        return NOTHING
    return gold if isinstance(gold, str) else number(gold)


def _rank(rank: int, pairs: int) -> str:
    return f"{rank:,} of {pairs:,}"
