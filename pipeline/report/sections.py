"""What the stages' own metrics say: the health of training, and what happened to the corpus."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.report.inputs import (
    FINETUNED,
    TEACHER,
    UNTRAINED,
    FinetuneMetrics,
    Significance,
    StudentMetrics,
)
from pipeline.report.numbers import NOTHING, number, score, span

NOT_TUNED = "not fine-tuned"
"""What `finetune` says it kept where it did nothing."""
MEANINGS = {
    "texts_at_max_length": "training texts that the student's init.max_length cuts, or that are just as long",
    "teacher_norm": "mean length of the teacher's vectors",
    "teacher_mean_cosine": "between pairs of the teacher's vectors; near 1 there is nothing to learn",
    "teacher_effective_rank": "directions that the teacher's vectors fill",
    "target_norm": "mean length of what is distilled: the vectors after PCA",
    "target_mean_cosine": "between pairs of targets; about 0 after a centred PCA",
    "target_effective_rank": "directions that the targets fill",
    "mean_predictor_loss": "loss of always answering with the mean target",
    "best_dev_value": "dev value of the weights that were kept; lower is better",
    "select": "what the dev value is: the loss, or one minus the agreement with the teacher",
    "mean_cosine": "between pairs of vectors; near 1 they no longer tell sentences apart",
    "effective_rank": "directions that the vectors fill",
    "norm": "mean length of the vectors",
    "alignment": "mean squared distance of texts that mean the same; lower is better",
    "uniformity": "how evenly the vectors fill the sphere; lower is better",
}


@dataclass(frozen=True)
class Counts:
    """A table of two columns: what was counted, and how many."""

    title: str
    rows: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Measures:
    """A table with one column per model and one row per measure."""

    models: tuple[str, ...]
    rows: tuple[tuple[str, str, tuple[str, ...]], ...]
    """(name, meaning, one value per model)."""


@dataclass(frozen=True)
class ScoreRow:
    """One metric of a task: each model's score and the ends of its interval."""

    task: str
    metric: str
    headline: bool
    values: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Scores:
    """A table with one column per model and one row per metric; a task's headline metric comes first."""

    models: tuple[str, ...]
    rows: tuple[ScoreRow, ...]


def geometry(students: Sequence[StudentMetrics]) -> Measures:
    """How the vectors of the teacher and of each shipped student lie in space."""
    columns = {TEACHER: students[0].geometry.get(TEACHER, {})}
    columns |= {metrics.student: metrics.geometry.get(FINETUNED, {}) for metrics in students}
    return _measures(columns)


def scores(students: Sequence[StudentMetrics], significance: Significance) -> Scores:
    """Every metric of every task with its interval, for the teacher and the shipped students."""
    scored = {TEACHER: students[0].scores[TEACHER]} | {m.student: m.scores[FINETUNED] for m in students}
    main = {task: metric for metrics in students for task, metric in metrics.main.items()}
    rows = []
    for task, headline in main.items():
        found = dict.fromkeys(
            metric for model in scored for metric in significance.metrics.get(model, {}).get(task, {})
        )
        for metric in sorted(found, key=lambda name: (name != headline, _order(name))):
            values = tuple(
                (
                    score(tasks.get(task, {}).get(metric)),
                    span(significance.metrics.get(model, {}).get(task, {}).get(metric)),
                )
                for model, tasks in scored.items()
            )
            rows.append(ScoreRow(task, metric, metric == headline, values))
    return Scores(tuple(scored), tuple(rows))


def _order(metric: str) -> tuple[str, float]:
    """By name, then by what stands after it: recall@1, @10, @100; accuracy, then accuracy@20%."""
    name, _, after = metric.partition("@")
    digits = after.rstrip("%")
    return name, float(digits) if digits.isdigit() else 0.0


def training(stages: Mapping[str, Mapping[str, Any]]) -> Measures:
    """The numbers that each student's distillation reported, by student."""
    return _measures({student: dict(_leaves(stage)) for student, stage in stages.items()})


def warnings(
    students: Sequence[StudentMetrics],
    stages: Mapping[str, Mapping[str, Any]],
    finetuned: Mapping[str, FinetuneMetrics],
) -> list[str]:
    """One sentence for each sign that a student did not learn."""
    found = []
    for metrics in students:
        name, average, stage = metrics.student, metrics.average, stages[metrics.student]
        tried = stage.get("steps") != 0 or (name in finetuned and finetuned[name].kept != NOT_TUNED)
        if tried and UNTRAINED in average and average[FINETUNED] <= average[UNTRAINED]:
            scores = f"{score(average[FINETUNED])} against {score(average[UNTRAINED])}"
            found.append(f"{name} is no better than before training: {scores} on average.")
        best, floor = stage.get("best_dev_value"), stage.get("mean_predictor_loss")
        if best is not None and floor is not None and best >= floor:
            losses = f"{best:.4g} against {floor:.4g}"
            found.append(f"{name} learnt no more than to predict the mean target: dev loss {losses}.")
        for block, saturated in (
            ("loss", stage.get("saturated_kernels")),
            ("finetune.hsic", finetuned[name].saturated_kernels if name in finetuned else None),
        ):
            if saturated:
                found.append(
                    f"HSIC did nothing for {name} ({saturated}: saturated); set students.{name}.{block} to "
                    "variant: fixed, or another gamma."
                )
    return found


def no_warnings(students: Sequence[StudentMetrics], stages: Mapping[str, Mapping[str, Any]]) -> str:
    """The sentence for a page without warnings."""
    compared = [
        metrics.student
        for metrics in students
        if UNTRAINED in metrics.average and stages[metrics.student].get("steps") != 0
    ]
    learnt = [metrics.student for metrics in students if "mean_predictor_loss" in stages[metrics.student]]
    said = ["No warnings: no student has collapsed"]
    if compared:
        said.append(f"{_all_or(compared, len(students))} better than before training")
    if learnt:
        said.append(f"{_all_or(learnt, len(students))} closer to the targets than their mean is")
    return f"{'; '.join(said)}."


def _all_or(names: Sequence[str], of: int) -> str:
    if len(names) == of:
        return "each is"
    return f"{', '.join(names)} {'is' if len(names) == 1 else 'are'}"


def counts(title: str, stage: Mapping[str, Any]) -> list[Counts]:
    """A stage's nested counts as one table for every block that holds numbers, titled by its path.

    A block may be a source's or a task's, so its name stays as it is.
    """
    rows = [(_words(key), _value(value)) for key, value in stage.items() if not isinstance(value, Mapping)]
    found = [Counts(title, tuple(rows))] if rows else []
    for key, value in stage.items():
        if isinstance(value, Mapping):
            found += counts(f"{title} › {key}", value)
    return found


def _measures(columns: Mapping[str, Mapping[str, Any]]) -> Measures:
    names = list(dict.fromkeys(name for column in columns.values() for name in column))
    rows = tuple(
        (_words(name), MEANINGS.get(name, ""), tuple(_value(column.get(name)) for column in columns.values()))
        for name in names
    )
    return Measures(tuple(columns), rows)


def _leaves(nested: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    leaves: list[tuple[str, Any]] = []
    for key, value in nested.items():
        path = f"{prefix}{key}"
        leaves += _leaves(value, f"{path} › ") if isinstance(value, Mapping) else [(path, value)]
    return leaves


def _words(key: str) -> str:
    return key.replace("_", " ")


def _value(value: object) -> str:
    if value is None:
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return number(value) if isinstance(value, float) else str(value)
