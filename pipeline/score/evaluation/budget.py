"""What a student's vectors score at fewer bytes: prefixes of them, and smaller types of number."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pipeline.params.evaluate import Probe, Scoring
from pipeline.params.search import Budget, VectorType
from pipeline.params.students import Student
from pipeline.tasks import scoring as evaluation
from pipeline.tasks.embeddings import Embeddings, Ids
from pipeline.tasks.ranking import in_blocks
from pipeline.vectors.space.geometry import normalised

SHORTEST = 32
"""Where halving a vector ends."""

Vectors = NDArray[np.floating]
Cell = dict[str, Any]
"""dim, type, trained, megabytes_per_million, average, kept, scores."""


def score_tasks(
    tasks: Mapping[str, pl.DataFrame],
    scoring: Mapping[str, Scoring],
    main: Mapping[str, str],
    embeddings: Embeddings,
    student: Student,
    budget: Budget,
) -> list[Cell]:
    """The headline scores of a student at every prefix and type, the whole vectors first.

    Prefixes are brought to length 1, where cosines compare them, and then to their type, on both sides of a
    pair. `trained` is whether the
    student was trained for a prefix of this length.

    Args:
        tasks: the rows of each.
        scoring: how each is scored.
        main: the headline metric of each.
        embeddings: the student's vectors of all their texts (n, d).
        student: its block.
        budget: which prefixes and types.

    Returns:
        dim, type, trained, megabytes_per_million (vectors; 1 MB = 1,000,000 bytes), scores (by task), their
        average, and kept: the mean of their ratios to those of the whole float32 vectors, None where one of
        those is not positive. No rows where no task can be scored.
    """
    tasks = {name: pairs for name, pairs in tasks.items() if can_score(scoring[name])}
    if not tasks:
        return []
    whole = embeddings.dim
    trained = _trained(student, whole)

    def scored(dim: int, kind: VectorType) -> evaluation.Scores:
        return {name: _score(pairs, scoring[name], embeddings, dim, kind) for name, pairs in tasks.items()}

    reference, rows = scored(whole, "float32"), []
    for dim in (whole, *_prefixes(whole, trained, budget)):
        for kind in budget.types:
            scores = reference if (dim, kind) == (whole, "float32") else scored(dim, kind)
            rows.append(
                {
                    "dim": dim,
                    "type": kind,
                    "trained": dim == whole or dim in trained,
                    "megabytes_per_million": bytes_of(dim, kind),
                    "average": evaluation.average(scores, main),
                    "kept": evaluation.retention(scores, reference, main),
                    "scores": {name: metrics[main[name]] for name, metrics in scores.items()},
                }
            )
    return rows


def can_score(how: Scoring) -> bool:
    """Whether a task is scored by the vectors alone, without a classifier that is trained on them."""
    return not isinstance(how, Probe)


def stored(vectors: Vectors, fitted: Vectors, kind: VectorType) -> NDArray[np.float32]:
    """What is left of vectors that are stored as a type, (n, d) -> (n, d), or wider for `binary`.

    Args:
        vectors: any.
        fitted: (m, d); int8 has 256 steps from the least to the greatest of each of their dimensions, and
            clips what lies outside. So the least and the greatest alone, (2, d), do for all.
        kind: `binary` keeps signs (0 counts as negative): cosines rank pairs by the Hamming distance of their
            bits.
    """
    import faiss

    rows = vectors.astype(np.float32)
    match kind:
        case "float32":
            return rows
        case "float16":
            return rows.astype(np.float16).astype(np.float32)
        case "int8":
            quantizer = faiss.ScalarQuantizer(rows.shape[1], faiss.ScalarQuantizer.QT_8bit)
            quantizer.train(np.ascontiguousarray(fitted, dtype=np.float32))
            return quantizer.decode(quantizer.compute_codes(np.ascontiguousarray(rows)))
        case "binary":
            return _signs(rows)


def bytes_of(dim: int, kind: VectorType) -> int:
    """Bytes of a vector, without what a whole store has once: the ranges of int8 and an index."""
    sizes = {"float32": 4 * dim, "float16": 2 * dim, "int8": dim, "binary": (dim + 7) // 8}
    return sizes[kind]


def _score(
    pairs: pl.DataFrame, how: Scoring, embeddings: Embeddings, dim: int, kind: VectorType
) -> dict[str, float]:
    """A task's scores; int8 is fitted on what is stored: documents, entities, all candidates of a choice."""
    prefixes = replace(embeddings, vectors=embeddings.vectors[:, :dim])
    kept = evaluation.stored_ids(pairs)
    kept = kept if len(kept) else evaluation.text_ids({"": pairs})  # clustering has single texts
    fitted = _range(prefixes, kept) if kind == "int8" else np.empty((0, dim), np.float32)
    unit = embeddings.similarity == "cosine"

    def as_stored(rows: Vectors) -> NDArray[np.float32]:
        return stored(normalised(rows) if unit else rows, fitted, kind)

    similarity = "cosine" if kind == "binary" else embeddings.similarity
    stored_ones = replace(prefixes, similarity=similarity, change=as_stored)
    return evaluation.score_tasks({"": pairs}, {"": how}, stored_ones)[""]


def _range(embeddings: Embeddings, wanted: Ids) -> NDArray[np.float32]:
    """The least and the greatest value of each dimension of these vectors, as they are compared, (2, d)."""
    ends = [np.stack([block.min(axis=0), block.max(axis=0)]) for block in in_blocks(embeddings, wanted)]
    return np.stack([np.min(ends, axis=0)[0], np.max(ends, axis=0)[1]])


def _signs(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """1 and -1, and columns that are the same in all rows and bring the length to a power of 2, s.

    With h the Hamming distance, a cosine is 1 - 2 h / s^2, and exact in floating point: at a length such as
    sqrt(128), rounding would tell pairs of one distance apart, in another way on every machine.
    """
    dim = rows.shape[1]
    rest, same = 4 ** math.ceil(math.log(dim, 4)) - dim, []
    while rest:
        same.append(math.isqrt(rest))
        rest -= same[-1] ** 2
    return np.hstack([np.where(rows > 0, 1, -1), np.tile(same, (len(rows), 1))]).astype(np.float32)


def _trained(student: Student, dim: int) -> tuple[int, ...]:
    """Lengths of the prefixes that the student was trained for; a layer after training mixes them up."""
    if not student.train or student.whitening or (student.finetune and student.finetune.projection):
        return ()
    return tuple(sorted((length for length in student.train.matryoshka if length < dim), reverse=True))


def _prefixes(whole: int, trained: tuple[int, ...], budget: Budget) -> tuple[int, ...]:
    if budget.dims is not None:
        return tuple(sorted({length for length in budget.dims if length < whole}, reverse=True))
    if trained:
        return trained
    halves = []
    while (whole := whole // 2) >= SHORTEST:
        halves.append(whole)
    return tuple(halves)
