"""All tasks of a split, scored with one model's vectors."""

from collections.abc import Iterable, Mapping
from types import ModuleType

import numpy as np
import polars as pl

from pipeline.params.evaluate import AGREEMENT, Agreement, Probe, Scoring, Task
from pipeline.tasks import (
    agreement,
    choice,
    classification,
    clustering,
    entity_resolution,
    retrieval,
    sts,
)
from pipeline.tasks.embeddings import Embeddings
from pipeline.tasks.subtasks import one_by_one

SCORING: dict[str, ModuleType] = {
    "sts": sts,
    "retrieval": retrieval,
    "entity_resolution": entity_resolution,
    "choice": choice,
    "clustering": clustering,
    "agreement": agreement,
}

Scores = dict[str, dict[str, float]]
"""Task -> metric -> value."""


def split_of(pairs: pl.DataFrame, split: str) -> dict[str, pl.DataFrame]:
    """The tasks that have rows of this split, by name."""
    rows = pl.col("split") == split
    names = pairs.lazy().filter(rows).select("task").collect()["task"].unique(maintain_order=True)
    return {name: pairs.filter(rows, pl.col("task") == name) for name in names}


def text_ids(tasks: Mapping[str, pl.DataFrame]) -> np.ndarray:
    """Every text that these tasks name, ascending, (n,) uint64."""
    sides = [side for group in tasks.values() for side in (group["left_id"].drop_nulls(), _stored(group))]
    return np.unique(pl.concat(sides).to_numpy()) if sides else np.empty(0, np.uint64)


def stored_ids(pairs: pl.DataFrame) -> np.ndarray:
    """What a task's left texts are compared with, ascending, (n,) uint64; empty for single texts.

    These are its documents, entities or other sides; of a choice, the answers and all other candidates.
    """
    return np.unique(_stored(pairs).to_numpy())


def _stored(pairs: pl.DataFrame) -> pl.Series:
    right = pairs["right_id"].drop_nulls()
    if "negative_ids" not in pairs.columns:
        return right
    return pl.concat([right, pairs["negative_ids"].explode().drop_nulls()])


def score_tasks(
    tasks: Mapping[str, pl.DataFrame], scoring: Mapping[str, Scoring], embeddings: Embeddings
) -> Scores:
    """Score every task as its kind says: by the module it names, or by a classifier."""
    return {name: _score(group, scoring[name], embeddings) for name, group in tasks.items()}


def headline(how: Scoring, chosen: str | None) -> str:
    """The metric that stands for a task: the one that params choose, or its kind's own."""
    return chosen or SCORING[str(how)].HEADLINE


def main_metrics(tasks: Mapping[str, Task | Agreement]) -> dict[str, str]:
    """The headline metric of each task; kinds that stand for several tasks are taken one by one."""
    each: dict[str, Task | Agreement] = {}
    for name, task in tasks.items():
        each |= {name: task} if isinstance(task, Agreement) else one_by_one({name: task})
    return {name: headline(task.scoring, getattr(task, "metric", None)) for name, task in each.items()}


def averaged(tasks: Iterable[str]) -> list[str]:
    """The tasks that an average is of: all but agreement with the teacher, or that where there is no other.

    It is no score on a task: the teacher's is 1, and a student that serves as well has much less.
    """
    names = [*tasks]
    return [name for name in names if name != AGREEMENT] or names


def average(scores: Scores, main: Mapping[str, str]) -> float:
    """Mean of the headline metrics over the `averaged` tasks."""
    return float(np.mean([scores[name][main[name]] for name in averaged(scores)]))


def retention(scores: Scores, teacher: Scores, main: Mapping[str, str]) -> float | None:
    """Mean over the `averaged` tasks of score / teacher's; None where a teacher's is not positive."""
    ratios = []
    for name in averaged(scores):
        reference = teacher[name][main[name]]
        if reference <= 0:
            return None
        ratios.append(scores[name][main[name]] / reference)
    return float(np.mean(ratios))


def _score(pairs: pl.DataFrame, how: Scoring, embeddings: Embeddings) -> dict[str, float]:
    if isinstance(how, Probe):
        return classification.score(pairs, embeddings, how)
    return SCORING[how].score(pairs, embeddings)
