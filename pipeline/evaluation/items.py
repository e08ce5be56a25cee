"""The items that a task's headline score is made of: pairs, queries or test rows, each with its own value."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pipeline.artifacts.examined import ITEMS_SCHEMA
from pipeline.core.params.evaluate import Probe, Scoring
from pipeline.evaluation import classification, entity_resolution, ranking, retrieval, sts
from pipeline.evaluation.classification import Predictions
from pipeline.evaluation.embeddings import Embeddings
from pipeline.evaluation.tasks import Scores


def score_tasks(
    tasks: Mapping[str, pl.DataFrame], scoring: Mapping[str, Scoring], embeddings: Embeddings
) -> tuple[Scores, pl.DataFrame]:
    """Score every task by one model as `tasks.score_tasks` does, and keep the items that the scores are of.

    What a score and its items share, searches and classifiers, is done once.

    Returns:
        The scores, and the items of all tasks: `task` and the columns of ITEMS_SCHEMA.
    """
    found = {name: score_task(group, scoring[name], embeddings) for name, group in tasks.items()}
    items = pl.concat(
        of_task.select(pl.lit(name).alias("task"), *ITEMS_SCHEMA) for name, (_, of_task) in found.items()
    )
    return {name: scores for name, (scores, _) in found.items()}, items


def score_task(
    pairs: pl.DataFrame, how: Scoring, embeddings: Embeddings
) -> tuple[dict[str, float], pl.DataFrame]:
    """The scores of one task by one model, and its items as ITEMS_SCHEMA says.

    Args:
        pairs: the task's rows, as `artifacts.pairs` says; they alone decide which items there are, and their
            order.
        how: the scoring that the items' values make up.
        embeddings: vectors of all the task's texts.
    """
    if isinstance(how, Probe):
        predictions = classification.predict(pairs, embeddings, how)
        return classification.scores(predictions, how.metric), _classified(pairs, predictions, how.metric)
    by = {"sts": _similarity, "retrieval": _retrieval, "entity_resolution": _entities}
    return by[how](pairs, embeddings)


def _items(
    left: NDArray[np.uint64] | pl.Series,
    value: NDArray[np.number],
    *,
    right: pl.Series | None = None,
    gold: NDArray[np.number] | None = None,
    subset: list[str] | None = None,
    run: int = 0,
) -> pl.DataFrame:
    count = len(left)
    columns: dict[str, Any] = {
        "subset": subset or [""] * count,
        "run": [run] * count,
        "item": np.arange(count),
        "left_id": left,
        "right_id": [None] * count if right is None else right,
        "value": value.astype(np.float64),
        "gold": [None] * count if gold is None else gold.astype(np.float64),
    }
    return pl.DataFrame(
        {name: pl.Series(values, dtype=ITEMS_SCHEMA[name]) for name, values in columns.items()}
    )


def _similarity(pairs: pl.DataFrame, embeddings: Embeddings) -> tuple[dict[str, float], pl.DataFrame]:
    similarity = sts.similarity(pairs, embeddings)
    gold = pairs["score"].to_numpy()
    return sts.scores(pairs, similarity), _items(
        pairs["left_id"], similarity, right=pairs["right_id"], gold=gold
    )


def _retrieval(pairs: pl.DataFrame, embeddings: Embeddings) -> tuple[dict[str, float], pl.DataFrame]:
    """The reciprocal rank of each query's first relevant document."""
    task, found = retrieval.search(pairs, embeddings)
    return retrieval.scores(task, found), _items(task.queries, ranking.reciprocal_ranks(task, found))


def _entities(pairs: pl.DataFrame, embeddings: Embeddings) -> tuple[dict[str, float], pl.DataFrame]:
    """Whether each query is resolved, subset by subset."""
    found = entity_resolution.resolved(pairs, embeddings)
    values = found["resolved"].to_numpy()
    return entity_resolution.scores(pairs, found), _items(
        found["left_id"], values, subset=found["subset"].to_list()
    )


def _classified(pairs: pl.DataFrame, predictions: Predictions, metric: str) -> pl.DataFrame:
    """What the classifiers that are trained on all rows make of the test rows."""
    predicted, classes = predictions.by_share[1.0], predictions.classes
    rows = pairs.filter(subset="test")
    left, right = rows["left_id"], rows["right_id"]
    if metric == "accuracy":
        return _items(left, np.mean([one == classes for one in predicted], axis=0), right=right)
    runs = (_items(left, one, right=right, gold=classes, run=number) for number, one in enumerate(predicted))
    return pl.concat(runs)
