"""The items that a task's scores are made of: pairs, queries or test rows, each with its own values."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pipeline.params.evaluate import DEPTH, Probe, Scoring
from pipeline.score.statistics.examined import CLASS, CLUSTER, COSINE, ITEMS_SCHEMA, RESOLVED
from pipeline.tasks import (
    agreement,
    choice,
    classification,
    clustering,
    entity_resolution,
    retrieval,
    sts,
)
from pipeline.tasks.classification import Predictions
from pipeline.tasks.embeddings import Embeddings
from pipeline.tasks.scoring import Scores


def score_tasks(
    tasks: Mapping[str, pl.DataFrame],
    scoring: Mapping[str, Scoring],
    embeddings: Embeddings,
    depths: Mapping[str, int] | None = None,
) -> tuple[Scores, pl.DataFrame]:
    """Score every task by one model as `tasks.score_tasks` does, and keep the items that the scores are of.

    What a score and its items share, searches and classifiers, is done once. A task of `depths` is retrieval
    that looks at so many documents.

    Returns:
        The scores, and the items of all tasks: `task` and the columns of ITEMS_SCHEMA.
    """
    found = {
        name: score_task(group, scoring[name], embeddings, (depths or {}).get(name, DEPTH))
        for name, group in tasks.items()
    }
    items = pl.concat(
        of_task.select(pl.lit(name).alias("task"), *ITEMS_SCHEMA) for name, (_, of_task) in found.items()
    )
    return {name: scores for name, (scores, _) in found.items()}, items


def score_task(
    pairs: pl.DataFrame, how: Scoring, embeddings: Embeddings, depth: int = DEPTH
) -> tuple[dict[str, float], pl.DataFrame]:
    """The scores of one task by one model, and its items as ITEMS_SCHEMA says.

    Args:
        pairs: the task's rows, as `prepare.pairs` says; they alone decide which items there are, and their
            order.
        how: the scoring that the items' values make up.
        embeddings: vectors of all the task's texts.
        depth: documents that retrieval looks at for a query.
    """
    if how == "retrieval":
        return _retrieval(pairs, embeddings, depth)
    if isinstance(how, Probe):
        predictions = classification.predict(pairs, embeddings, how)
        return classification.scores(predictions, how.metric), _classified(pairs, predictions)
    by = {
        "sts": _similarity,
        "entity_resolution": _entities,
        "choice": _choice,
        "clustering": _clustering,
        "agreement": _agreement,
    }
    return by[how](pairs, embeddings)


def _items(
    measure: str,
    left: NDArray[np.uint64] | pl.Series,
    value: NDArray[np.number],
    *,
    right: pl.Series | None = None,
    gold: NDArray[np.number] | None = None,
    subset: pl.Series | None = None,
    run: int = 0,
) -> pl.DataFrame:
    count = len(left)
    columns: dict[str, Any] = {
        "measure": [measure] * count,
        "subset": [""] * count if subset is None else subset,
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
        COSINE,
        pairs["left_id"],
        similarity,
        right=pairs["right_id"],
        gold=gold,
        subset=pairs["subset"],
    )


def _retrieval(
    pairs: pl.DataFrame, embeddings: Embeddings, depth: int
) -> tuple[dict[str, float], pl.DataFrame]:
    """What each query scores by every metric."""
    task, found = retrieval.search(pairs, embeddings, depth)
    values = retrieval.by_query(task, found, depth)
    parts = (_items(metric, task.queries, of_queries) for metric, of_queries in values.items())
    return retrieval.scores(task, values), pl.concat(parts)


def _entities(pairs: pl.DataFrame, embeddings: Embeddings) -> tuple[dict[str, float], pl.DataFrame]:
    """Whether each query is resolved, subset by subset."""
    found = entity_resolution.resolved(pairs, embeddings)
    values = found["resolved"].to_numpy()
    return entity_resolution.scores(pairs, found), _items(
        RESOLVED, found["left_id"], values, subset=found["subset"]
    )


def _choice(pairs: pl.DataFrame, embeddings: Embeddings) -> tuple[dict[str, float], pl.DataFrame]:
    """Whether the answer to each query is chosen."""
    right = choice.right(pairs, embeddings)
    return choice.scores(right), _items(
        choice.HEADLINE, pairs["left_id"], right.astype(np.int64), right=pairs["right_id"]
    )


def _clustering(pairs: pl.DataFrame, embeddings: Embeddings) -> tuple[dict[str, float], pl.DataFrame]:
    """The cluster of each text by each seed."""
    found = clustering.clusters(pairs, embeddings)
    return clustering.scores(found), pl.concat(
        _items(CLUSTER, pairs["left_id"], one, gold=found.classes, run=run)
        for run, one in enumerate(found.by_seed)
    )


def _agreement(pairs: pl.DataFrame, embeddings: Embeddings) -> tuple[dict[str, float], pl.DataFrame]:
    """The share of each text's nearest that are the teacher's too."""
    ids, overlap = agreement.overlaps(pairs, embeddings)
    return agreement.scores(pairs, embeddings, overlap), _items(agreement.HEADLINE, ids, overlap)


def _classified(pairs: pl.DataFrame, predictions: Predictions) -> pl.DataFrame:
    """What each classifier makes of the test rows."""
    rows = pairs.filter(subset="test")
    left, right, gold = rows["left_id"], rows["right_id"], predictions.classes
    return pl.concat(
        _items(CLASS + classification.suffix(share), left, one, right=right, gold=gold, run=run)
        for share, predicted in predictions.by_share.items()
        for run, one in enumerate(predicted)
    )
