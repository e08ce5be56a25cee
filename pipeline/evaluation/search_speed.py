"""How long faiss takes to build an index of a model's vectors, and to search it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from time import perf_counter

import numpy as np
import polars as pl

from pipeline.core.params.search import Index
from pipeline.evaluation import indexes, ranking
from pipeline.evaluation.embeddings import Embeddings
from pipeline.evaluation.indexes import Row
from pipeline.evaluation.ranking import Unit

QUERIES = 1000
"""Most queries that are searched for in one timed call: HPD gives the time of as many."""
WARM_UP = 64
"""Documents of the first index, which is not timed."""


@dataclass(frozen=True)
class Plan:
    """How often, and on how many threads."""

    rounds: int
    threads: int


def measure(
    tasks: Mapping[str, pl.DataFrame],
    models: Mapping[str, Embeddings],
    specs: Sequence[Index],
    plan: Plan,
) -> list[Row]:
    """Build and search every index of every model in turn, round after round, as a machine's speed drifts.

    Returns:
        Rows of task, model, index and its settings, documents and dim as in `indexes.score_tasks`, queries,
        build_seconds, and ms_per_1000_queries, of one call with all queries at once. Medians of the rounds.
    """
    from threadpoolctl import threadpool_limits

    rows = []
    for name, pairs in tasks.items() if specs else ():
        task = ranking.collection(pairs)
        queries = task.queries[:QUERIES]
        vectors = {
            model: (ranking.unit(embeddings, task.documents), ranking.unit(embeddings, queries))
            for model, embeddings in models.items()
        }
        cells = list(product(specs, vectors))
        seconds: list[list[tuple[float, float]]] = [[] for _ in cells]
        with threadpool_limits(plan.threads):
            for spec, model in cells:
                _time(spec, *(side[:WARM_UP] for side in vectors[model]))
            for _ in range(plan.rounds):
                for measured, (spec, model) in zip(seconds, cells, strict=True):
                    measured.append(_time(spec, *vectors[model]))
        for measured, (spec, model) in zip(seconds, cells, strict=True):
            build, search = np.median(measured, axis=0)
            rows.append(
                {
                    "task": name,
                    "model": model,
                    **indexes.described(spec, vectors[model][0]),
                    "queries": len(queries),
                    "build_seconds": float(build),
                    "ms_per_1000_queries": float(search / len(queries) * 1e6),
                }
            )
    return rows


def _time(spec: Index, documents: Unit, queries: Unit) -> tuple[float, float]:
    """Seconds to build an index, and to search it."""
    start = perf_counter()
    index = indexes.build(spec, documents)
    built = perf_counter()
    indexes.search(index, queries)
    return built - start, perf_counter() - built
