"""How long faiss takes to build an index of a model's vectors, and to search it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, product
from pathlib import Path
from time import perf_counter
from typing import TypeVar

import numpy as np
import polars as pl

from pipeline.core.rounds import spread
from pipeline.params.search import Index
from pipeline.params.teacher import Similarity
from pipeline.score.evaluation.searches import indexes, mapped
from pipeline.score.evaluation.searches.indexes import Row
from pipeline.tasks import ranking
from pipeline.tasks.embeddings import Embeddings
from pipeline.tasks.ranking import Searchable

QUERIES = 1000
"""Most queries that are searched for in one timed call: HPD gives the time of as many."""
Found = TypeVar("Found")

LEAST_SECONDS = 0.05
"""What takes less is repeated: a single time of it would be the system's own work."""
PAGE = 4096
WARM_UP = 64
"""Documents of the first index, which is not timed."""


@dataclass(frozen=True)
class Plan:
    """How often, and on how many threads."""

    rounds: int
    threads: int


@dataclass(frozen=True)
class Sides:
    """A model's vectors of a task."""

    documents: Searchable
    """(n, d), mapped from a file."""
    queries: Searchable
    similarity: Similarity


def measure(
    tasks: Mapping[str, pl.DataFrame],
    models: Iterable[tuple[str, Embeddings]],
    specs: Sequence[Index],
    plan: Plan,
    folder: Path,
) -> list[Row]:
    """Build and search every index of every model in turn, round after round, as a machine's speed drifts.

    All vectors lie in files: memory is that of an index. Before an index is built, its file is gone through,
    and an index that stays in files is searched once before it is timed. So the time is none of the disk's
    as long as the system keeps as much of the files.

    Args:
        tasks: the rows of each.
        models: name and vectors of each, asked for once and one after the other.
        specs: the indexes.
        plan: how often, and on how many threads.
        folder: an empty one, for all models' vectors of the tasks' documents.

    Returns:
        Rows of task, model, index and its settings, documents and dim as in `indexes.score_tasks`, queries,
        build_seconds, and ms_per_1000_queries, of one call with all queries at once: medians of the rounds.
        build_spread and search_spread, by how much a round's time differs from them.
    """
    from threadpoolctl import threadpool_limits

    rows = []
    for name, vectors in _stored(tasks, models, folder).items() if specs else ():
        cells = list(product(specs, vectors))
        seconds: list[list[tuple[float, float]]] = [[] for _ in cells]
        with threadpool_limits(plan.threads):
            for spec, model in cells:
                sides = vectors[model]
                _time(spec, sides.documents[:WARM_UP], sides.queries[:WARM_UP], sides.similarity)
            for _ in range(plan.rounds):
                for measured, (spec, model) in zip(seconds, cells, strict=True):
                    sides = vectors[model]
                    touch(sides.documents)
                    measured.append(_time(spec, sides.documents, sides.queries, sides.similarity))
        for measured, (spec, model) in zip(seconds, cells, strict=True):
            build, search = np.median(measured, axis=0)
            queries = len(vectors[model].queries)
            rows.append(
                {
                    "task": name,
                    "model": model,
                    **indexes.described(spec, vectors[model].documents),
                    "queries": queries,
                    "build_seconds": float(build),
                    "build_spread": spread([built for built, _ in measured]),
                    "ms_per_1000_queries": float(search / queries * 1e6),
                    "search_spread": spread([searched for _, searched in measured]),
                }
            )
    return rows


def _stored(
    tasks: Mapping[str, pl.DataFrame], models: Iterable[tuple[str, Embeddings]], folder: Path
) -> dict[str, dict[str, Sides]]:
    """Every model's vectors of every task: task -> model -> vectors."""
    collections = {name: ranking.collection(pairs) for name, pairs in tasks.items()}
    found: dict[str, dict[str, Sides]] = {name: {} for name in tasks}
    numbers = count()
    for model, embeddings in models:
        for name, task in collections.items():
            documents = indexes.stored(embeddings, task.documents, folder / f"{next(numbers)}.bin")
            queries = ranking.searchable(embeddings, task.queries[:QUERIES])
            found[name][model] = Sides(documents, queries, embeddings.similarity)
        del embeddings  # before the next model's are made
    return found


def touch(stored: Searchable) -> None:
    """Let the system have all of a mapped file in its memory, by a number of each of its pages."""
    stored.reshape(-1)[:: PAGE // stored.itemsize].sum()


def _time(
    spec: Index, documents: Searchable, queries: Searchable, how: Similarity = "cosine"
) -> tuple[float, float]:
    """Seconds to build an index, and to search it: the means of as many as take LEAST_SECONDS."""
    build, index = _mean(lambda: indexes.build(spec, documents, how))
    if mapped.stays(documents):
        indexes.search(index, queries)  # the first touch of mapped lists is the system's work
    return build, _mean(lambda: indexes.search(index, queries))[0]


def _mean(call: Callable[[], Found]) -> tuple[float, Found]:
    """Seconds of a call, and what the last one gave."""
    started, calls = perf_counter(), 0
    while True:
        found = call()
        calls, taken = calls + 1, perf_counter() - started
        if taken >= LEAST_SECONDS:
            return taken / calls, found
