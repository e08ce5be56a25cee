"""Whether an export gives what the trained student gives: its vectors, and its score."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pipeline.core.errors import UserError
from pipeline.core.params.evaluate import Evaluate
from pipeline.core.params.export import Format, Gate
from pipeline.evaluation import sts
from pipeline.evaluation import tasks as evaluation
from pipeline.evaluation.embeddings import Embeddings
from pipeline.evaluation.geometry import agreement, normalised

Vectors = NDArray[np.floating]


@dataclass(frozen=True)
class Difference:
    """How far vectors are from those of the trained student, over all texts."""

    distances: NDArray[np.float64]
    """1 - cosine of every text's two vectors, (n,); 1 where only one of the two is zero."""
    stretch: float
    """Largest |length / the student's length - 1|."""

    @property
    def worst(self) -> int:
        """The row that is farthest."""
        return int(self.distances.argmax())


def difference(vectors: Vectors, trained: Vectors) -> Difference:
    """Compare an export's vectors with the student's. (n, d), (n, d)."""
    lengths, wanted = (np.linalg.norm(rows.astype(np.float64), axis=1) for rows in (vectors, trained))
    # From the chord: 1 - u.v cancels where the two are nearly equal.
    chords = np.linalg.norm(normalised(vectors) - normalised(trained), axis=1)
    distances = np.where((lengths == 0) & (wanted == 0), 0.0, np.square(chords) / 2)
    distances = np.where((lengths == 0) != (wanted == 0), 1.0, distances)
    both = (lengths > 0) & (wanted > 0)
    stretch = np.abs(lengths[both] / wanted[both] - 1).max(initial=0.0)
    return Difference(distances, float(stretch))


@dataclass(frozen=True)
class Measure:
    """How vectors are scored."""

    tasks: dict[str, pl.DataFrame]
    """STS tasks by name; none: agreement with the student."""
    said: dict[str, Any]
    """What metrics and the card say of it."""

    def score(self, embeddings: Embeddings, parity: Vectors, trained: Vectors) -> float:
        """Mean Spearman over the tasks, or the agreement of (n, d) with the student's (n, d)."""
        if not self.tasks:
            return agreement(parity, trained)
        return float(np.mean([sts.score(task, embeddings)["spearman"] for task in self.tasks.values()]))


AGREEMENT = Measure({}, {"measure": "agreement"})


def sts_measure(pairs: pl.DataFrame, params: Evaluate, split: str) -> Measure:
    """Score by the STS tasks with this split, else the other; the user's own before WordNet's.

    Args:
        pairs: corpus/tasks.parquet.
        params: their kinds.
        split: dev, test or agreement.
    """
    if split == "agreement":
        return AGREEMENT
    for kind in ("sts", "wordnet_relatedness"):
        for wanted in (split, "test" if split == "dev" else "dev"):
            there = evaluation.split_of(pairs, wanted)
            chosen = {name: rows for name, rows in there.items() if params.tasks[name].kind == kind}
            if chosen:
                said = {"measure": "spearman", "split": wanted, "tasks": sorted(chosen)}
                return Measure(chosen, said)
    return AGREEMENT


def check_vectors(
    name: Format, found: Difference, texts: list[str], gate: Gate, *, alone: bool = False
) -> None:
    """Fail if an export's vectors are farther from the trained student's than its gate allows.

    Args:
        name: the format.
        found: what its vectors differ by.
        texts: of these texts, in order.
        gate: what is allowed.
        alone: each was encoded alone, and not in a batch.

    Raises:
        UserError: by how much, and on which text.
    """
    key, how = _key(name), ", one text at a time," if alone else ""
    farthest = float(found.distances[found.worst])
    if not farthest <= gate.distance:
        raise UserError(
            f"{name}{how} does not give the student's vectors: 1 - cosine is {farthest:.3g} at "
            f"{texts[found.worst][:60]!r} (mean {found.distances.mean():.3g}), {key}.distance allows "
            f"{gate.distance:g}; raise it, or leave {name} out of export.formats"
        )
    stretch = float(np.sqrt(2 * gate.distance))
    if not found.stretch <= stretch:
        raise UserError(
            f"{name}{how} does not give the student's vectors: a length differs by {found.stretch:.3g} of "
            f"itself, {key}.distance {gate.distance:g} allows {stretch:.3g}; leave {name} out of "
            "export.formats"
        )


def check_score(name: Format, score: float, trained_score: float, gate: Gate) -> None:
    """Fail if an export loses more than its gate allows of the trained student's score, which is positive.

    Raises:
        UserError: how much.
    """
    key, lost = _key(name), 1 - score / trained_score
    if not lost <= gate.loss:
        raise UserError(
            f"{name} scores {score:.4f}, the student {trained_score:.4f}: {lost:.2%} is lost, {key}.loss "
            f"allows {gate.loss:.2%}; raise it, or leave {name} out of export.formats"
        )


def _key(name: Format) -> str:
    return f"export.{'int8' if name == 'onnx-int8' else 'fp32'}"
