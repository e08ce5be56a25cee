"""Whether an export gives what the trained student gives: its vectors, and its score."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pipeline.core.errors import UserError
from pipeline.params.evaluate import Evaluate
from pipeline.params.export import Format, Tolerance, tolerance_of
from pipeline.params.teacher import Similarity
from pipeline.score.statistics import bootstrap
from pipeline.tasks import scoring as evaluation
from pipeline.tasks import sts
from pipeline.tasks.agreement import TOP, nearest
from pipeline.tasks.embeddings import Embeddings
from pipeline.vectors.space.geometry import agreement, normalised

Vectors = NDArray[np.floating]

CONFIDENCE = 0.95
"""Of the interval of a lost score."""
SAMPLES = 500
"""Resamples that it is taken from."""
MEASURES: tuple[Similarity, ...] = ("cosine", "dot", "euclidean")
"""What stores of vectors offer."""
GROUPS = 10
"""Of texts, where agreement is what is scored."""


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

    def least_loss(
        self, embeddings: Embeddings, parity: Vectors, trained_embeddings: Embeddings, trained: Vectors
    ) -> float:
        """The share of the student's score that is lost at least, in CONFIDENCE of all samples like this.

        Of tasks by bootstrap over their pairs, the same for both; of agreement by the means of GROUPS groups
        of texts (Student's t). A loss within chance of what is allowed fails no stage.
        """
        from scipy.stats import t

        if self.tasks:
            rows = []
            for number, task in enumerate(self.tasks.values()):
                human = task["score"].to_numpy().astype(np.float64)
                both = {
                    name: bootstrap.Spearman(sts.similarity(task, one), human)
                    for name, one in (("export", embeddings), ("student", trained_embeddings))
                }
                whole = [np.arange(len(human))]
                rows.append(bootstrap.resampled(both, whole, SAMPLES, (number,)))
            export, student = (np.mean([row[name] for row in rows], axis=0) for name in ("export", "student"))
            lost = np.divide(student - export, student, out=np.zeros_like(student), where=student > 0)
            return bootstrap.interval(lost, CONFIDENCE)[0]
        groups = np.array_split(np.arange(len(trained)), min(GROUPS, len(trained) // 3))
        lost = np.array([1 - agreement(parity[rows], trained[rows]) for rows in groups])
        if len(groups) < 2:
            return float(lost.mean())
        margin = t.ppf((1 + CONFIDENCE) / 2, len(groups) - 1) * lost.std(ddof=1) / np.sqrt(len(groups))
        return float(lost.mean() - margin)


def overlaps(vectors: Vectors, trained: Vectors, *, unit: bool) -> dict[Similarity, float]:
    """The mean share of a text's TOP nearest texts in the student's vectors that are so in an export's.

    Args:
        vectors: the export's (n, d), n >= 2.
        trained: the student's (n, d).
        unit: whether the student's have length 1: then all measures have to find what its cosine finds.
    """
    return {how: _overlap(vectors, how, trained, "cosine" if unit else how) for how in MEASURES}


def _overlap(vectors: Vectors, how: Similarity, trained: Vectors, trained_how: Similarity) -> float:
    found, wanted = nearest(vectors, how), nearest(trained, trained_how)
    return float((found[:, :, None] == wanted[:, None, :]).any(axis=2).mean())


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


def check_vectors(name: Format, found: Difference, texts: list[str], tolerance: Tolerance) -> None:
    """Fail if an export's vectors are farther from the trained student's than is allowed.

    Args:
        name: the format.
        found: what its vectors differ by.
        texts: of these texts, in order.
        tolerance: what is allowed.

    Raises:
        UserError: by how much, and on which text.
    """
    key = _key(name)
    farthest = float(found.distances[found.worst])
    if not farthest <= tolerance.distance:
        raise UserError(
            f"{name} does not give the student's vectors: 1 - cosine is {farthest:.3g} at "
            f"{texts[found.worst][:60]!r} (mean {found.distances.mean():.3g}), {key}.distance allows "
            f"{tolerance.distance:g}; raise it, or leave {name} out of export.formats"
        )
    stretch = float(np.sqrt(2 * tolerance.distance))
    if not found.stretch <= stretch:
        raise UserError(
            f"{name} does not give the student's vectors: a length differs by {found.stretch:.3g} of "
            f"itself, {key}.distance {tolerance.distance:g} allows {stretch:.3g}; leave {name} out of "
            "export.formats"
        )


def check_overlaps(name: Format, found: dict[Similarity, float], tolerance: Tolerance) -> None:
    """Fail if searches find too few of the texts that they find with the trained student's vectors.

    Raises:
        UserError: how few, and by which measure.
    """
    how = min(found, key=lambda one: found[one])
    if not found[how] >= tolerance.overlap:
        raise UserError(
            f"{name} finds {found[how]:.1%} of the {TOP} nearest texts by {how} that the student finds, "
            f"{_key(name)}.overlap asks for {tolerance.overlap:.1%}; lower it, or leave {name} out of "
            "export.formats"
        )


def check_score(
    name: Format, score: float, trained_score: float, least_loss: float, tolerance: Tolerance
) -> None:
    """Fail if an export loses more than is allowed of the trained student's score, which is positive.

    Args:
        name: the format.
        score: what it scores.
        trained_score: what the student scores.
        least_loss: the share that is lost at least, chance taken into account.
        tolerance: what is allowed.

    Raises:
        UserError: how much.
    """
    key, lost = _key(name), 1 - score / trained_score
    if not (lost <= tolerance.loss or least_loss <= tolerance.loss):
        raise UserError(
            f"{name} scores {score:.4f}, the student {trained_score:.4f}: {lost:.2%} is lost, "
            f"{least_loss:.2%} at least, {key}.loss allows {tolerance.loss:.2%}; raise it, "
            f"or leave {name} out of export.formats"
        )


def _key(name: Format) -> str:
    return f"export.{tolerance_of(name)}"
