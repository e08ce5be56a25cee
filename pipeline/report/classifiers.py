"""Classifiers: students that were trained with a head on a task's labels, side by side."""

from collections.abc import Mapping
from dataclasses import dataclass

from pipeline.report.inputs import ClassifierMetrics
from pipeline.report.numbers import NOTHING, score
from pipeline.report.sections import Measures

NOTE = (
    "Each classifier is a student and a head, trained together on the labels of a task's training rows; its "
    "learning rate and its weights are those of the best score on dev rows. Gained: the headline score over "
    "that of the same student from its untrained start, trained in the same way."
)
ROWS = (
    ("student", "whose encoder it has"),
    ("start", "where its encoder started"),
    ("reads pairs", "both texts as one input; where nothing is said, each alone"),
    ("learned from", "labels; a task teacher (KD), and its layers (PKD); texts made for it (TS)"),
    ("accuracy", "on the test rows"),
    ("f1", "of the larger label where there are two, else the mean over the labels"),
    ("gained", ""),
    ("by share", "the headline score after training on shares of the training rows"),
    (
        "task teacher",
        "the headline score of what KD learns from: a head on the teacher's vectors, or a model that was "
        "fine-tuned on the labels",
    ),
    ("untuned", "accuracy and F1 of pairs by the student's similarity alone, before training"),
    ("untuned teacher", "the same by the teacher's own vectors"),
    ("parameters", "without embeddings"),
)


@dataclass(frozen=True)
class Classifiers:
    """What the page shows of them."""

    note: str
    tables: tuple[tuple[str, Measures], ...]
    """(task, a column for each classifier)."""
    refused: tuple[str, ...]


def classifiers(
    found: Mapping[str, ClassifierMetrics], refused: Mapping[str, str] | None = None
) -> Classifiers:
    """All classifiers by task, in the order of params.yaml."""
    tables = []
    for task in dict.fromkeys(one.task for one in found.values()):
        of_task = {name: one for name, one in found.items() if one.task == task}
        columns = [_column(one, of_task) for one in of_task.values()]
        rows = tuple(
            (name, meaning, tuple(column[name] for column in columns))
            for name, meaning in ROWS
            if any(column[name] != NOTHING for column in columns)
        )
        tables.append((task, Measures(tuple(of_task), rows)))
    return Classifiers(NOTE, tuple(tables), tuple((refused or {}).values()))


def _column(one: ClassifierMetrics, others: Mapping[str, ClassifierMetrics]) -> dict[str, str]:
    """What the table says of a classifier, by row."""
    way = one.settings.get("kd") or {}
    assert isinstance(way, Mapping)
    taught = "PKD" if way.get("patience") else "KD"
    if model := (way.get("teacher") or {}).get("model"):
        taught += f" ({model}, fine-tuned)"
    sources = [*([] if one.alpha == 0 else ["labels"]), *([taught] if one.kd else [])]
    if one.transfer_rows:
        sources.append(f"TS ({one.transfer_rows:,} rows)")
    gained = _gained(one, others)
    return {
        "student": one.student,
        "start": one.start,
        "reads pairs": str(one.settings.get("read", NOTHING)),
        "learned from": ", ".join(sources),
        "accuracy": _with_spread(one, "accuracy"),
        "f1": _with_spread(one, "f1"),
        "gained": NOTHING if gained is None else f"{gained:+.4f}",
        "by share": _by_share(one),
        "task teacher": score(one.task_teacher[one.metric]) if one.task_teacher else NOTHING,
        "untuned": _untuned(one.untuned),
        "untuned teacher": _untuned(one.untuned_teacher),
        "parameters": f"{one.parameters_without_embeddings:,}",
    }


def _untuned(found: Mapping[str, float] | None) -> str:
    return f"{score(found['accuracy'])}, {score(found['f1'])}" if found else NOTHING


def _gained(one: ClassifierMetrics, others: Mapping[str, ClassifierMetrics]) -> float | None:
    """Over the same student from its untrained start; None where there is none."""
    if one.start == "untrained":
        return None
    alike = (other for other in others.values() if other.start == "untrained" and _way(other) == _way(one))
    return next((one.scores[one.metric] - other.scores[one.metric] for other in alike), None)


def _way(one: ClassifierMetrics) -> tuple[object, ...]:
    """What two classifiers have in common that differ in their start alone."""
    return one.student, one.kd, one.alpha, one.transfer_rows, one.settings


def _by_share(one: ClassifierMetrics) -> str:
    """The headline score at each share below the whole: `20%: 0.81`."""
    shares = (name.partition("@")[2] for name in one.scores if name.startswith(f"{one.metric}@"))
    return ", ".join(f"{share}: {score(one.scores[f'{one.metric}@{share}'])}" for share in shares) or NOTHING


def _with_spread(one: ClassifierMetrics, metric: str) -> str:
    spread = one.scores["spread"]
    told = score(one.scores[metric])
    return f"{told} ± {score(spread)}" if one.seeds > 1 and metric == one.metric else told
