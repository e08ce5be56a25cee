"""The items that a task's headline score is made of: pairs, queries or test rows, each with its own value."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pipeline.artifacts.examined import ITEMS_SCHEMA
from pipeline.core.params.evaluate import Probe, Scoring
from pipeline.evaluation import classification, entity_resolution, ranking, retrieval
from pipeline.evaluation.embeddings import Embeddings
from pipeline.evaluation.geometry import cosines
from pipeline.evaluation.heads import one_thread


def of_tasks(
    tasks: Mapping[str, pl.DataFrame], scoring: Mapping[str, Scoring], embeddings: Embeddings
) -> pl.DataFrame:
    """The items of all tasks by one model: `task` and the columns of ITEMS_SCHEMA."""
    parts = [of_task(group, scoring[name], embeddings) for name, group in tasks.items()]
    return pl.concat(
        part.select(pl.lit(name).alias("task"), *ITEMS_SCHEMA)
        for name, part in zip(tasks, parts, strict=True)
    )


def of_task(pairs: pl.DataFrame, how: Scoring, embeddings: Embeddings) -> pl.DataFrame:
    """The items of one task by one model, as ITEMS_SCHEMA says, in an order that the pairs alone decide.

    Args:
        pairs: the task's rows, as `artifacts.pairs` says.
        how: the scoring that the items' values make up.
        embeddings: vectors of all the task's texts.
    """
    if isinstance(how, Probe):
        return _classified(pairs, embeddings, how)
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


def _similarity(pairs: pl.DataFrame, embeddings: Embeddings) -> pl.DataFrame:
    left, right = (pairs[side] for side in ("left_id", "right_id"))
    similarity = cosines(embeddings.of(left.to_numpy()), embeddings.of(right.to_numpy()))
    return _items(left, similarity, right=right, gold=pairs["score"].to_numpy())


def _retrieval(pairs: pl.DataFrame, embeddings: Embeddings) -> pl.DataFrame:
    """The reciprocal rank of each query's first relevant document among the first 10."""
    task, found = retrieval.search(pairs, embeddings)
    return _items(task.queries, ranking.reciprocal_ranks(task, found))


def _entities(pairs: pl.DataFrame, embeddings: Embeddings) -> pl.DataFrame:
    """Whether each query is resolved, subset by subset."""
    queries: list[int] = []
    subsets: list[str] = []
    resolved: list[NDArray[np.bool_]] = []
    for (name,), rows in sorted(pairs.group_by("subset"), key=lambda part: str(part[0])):
        ordered = rows.sort("left_id", "right_id")
        of_subset = ordered["left_id"].drop_nulls().unique(maintain_order=True).to_list()
        queries += of_subset
        subsets += [str(name)] * len(of_subset)
        resolved.append(entity_resolution._resolved(ordered, embeddings))
    left = pl.Series(queries, dtype=pl.UInt64)
    return _items(left, np.concatenate(resolved).astype(np.float64), subset=subsets)


def _classified(pairs: pl.DataFrame, embeddings: Embeddings, probe: Probe) -> pl.DataFrame:
    """What the classifiers that are trained on all rows make of the test rows."""
    labels = classification._sorted(pairs.filter(subset="train")["label"].unique().to_list())
    train, dev, test = classification._scaled(pairs, embeddings, labels)
    with one_thread():
        predicted = [
            predict(test.features) for predict in classification._classifiers(train, dev, probe, 1.0)
        ]
    rows = pairs.filter(subset="test")
    left, right = rows["left_id"], rows["right_id"]
    if probe.metric == "accuracy":
        right_ones = np.mean([one == test.classes for one in predicted], axis=0)
        return _items(left, right_ones, right=right)
    runs = (
        _items(left, one, right=right, gold=test.classes, run=number) for number, one in enumerate(predicted)
    )
    return pl.concat(runs)
