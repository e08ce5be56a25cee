"""Agreement with the teacher: does a model find the texts near to each other that the teacher does?"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pipeline.data.common import texts
from pipeline.data.common.files.tables import check_table
from pipeline.params.evaluate import AGREEMENT, LEAST_HELD_OUT, Agreement
from pipeline.params.teacher import Similarity
from pipeline.tasks import pairs as pairs_file
from pipeline.tasks import sts
from pipeline.tasks.embeddings import Embeddings
from pipeline.vectors.space.geometry import Vectors, all_similarities, similarities

TOP = 10
HEADLINE = f"overlap@{TOP}"
NEAREST, CHANCE = "nearest", "chance"
"""Labels of the pairs."""
CELLS = 1 << 23
"""Similarities that are held at a time, in float64."""


@dataclass(frozen=True)
class HeldOut:
    """Texts of the corpus' dev split, to agree on."""

    texts: pl.DataFrame
    """`texts.LABELLED_SCHEMA`, sorted by text_id; no rows where there are too few."""
    left_out: str | None = None
    """Why there are none."""


def held_out(corpus: Path, block: Agreement | None) -> HeldOut:
    """The texts of the corpus' dev split that a block asks for.

    Args:
        corpus: corpus/corpus.parquet.
        block: null: none are asked for.

    Raises:
        UserError: the corpus is missing or damaged.
    """
    empty = pl.DataFrame(schema=texts.LABELLED_SCHEMA)
    if block is None:
        return HeldOut(empty, "`evaluate.agreement` is null.")
    check_table(corpus, texts.CORPUS_SCHEMA, "prepare")
    found = texts.head(corpus, "dev", block.texts)
    if len(found) < LEAST_HELD_OUT:
        return HeldOut(
            empty,
            f"The corpus' dev split has {len(found):,} texts, and {LEAST_HELD_OUT} are needed; raise "
            "`corpus.dev_fraction`, or add texts to `corpus.sources`.",
        )
    return HeldOut(found)


def task(teacher: Embeddings) -> pl.DataFrame:
    """What the teacher says of its texts (n, d), as the rows of a task: `pairs.PAIRS_SCHEMA`.

    The score is the teacher's similarity. NEAREST: each text beside the ten nearest others. CHANCE: each text
    beside the ten that follow it by text_id, which being a hash puts them together by chance.
    """
    ids = teacher.ids
    count = min(TOP, len(ids) - 1)
    following = (np.arange(len(ids))[:, None] + np.arange(1, count + 1)) % len(ids)
    rights = np.concatenate([nearest(teacher.vectors, teacher.similarity), following]).ravel()
    lefts = np.tile(np.repeat(np.arange(len(ids)), count), 2)
    similarity = similarities(teacher.vectors[lefts], teacher.vectors[rights], teacher.similarity)
    labels = np.repeat([NEAREST, CHANCE], len(lefts) // 2)
    rows = {"left_id": ids[lefts], "right_id": ids[rights], "score": similarity, "label": labels}
    return pairs_file.make(AGREEMENT, "test", {name: values.tolist() for name, values in rows.items()})


def nearest(vectors: Vectors, how: Similarity) -> NDArray[np.intp]:
    """The rows of the ten nearest other rows of each row, in any order, (n, d) -> (n, 10).

    Of fewer rows than 11, all others are nearest. Of equal similarities the first row is nearer.
    """
    count = min(TOP, len(vectors) - 1)
    found = np.empty((len(vectors), count), np.intp)
    block = max(1, CELLS // len(vectors))
    for start in range(0, len(vectors), block):
        rows = np.arange(start, min(start + block, len(vectors)))
        # Equal vectors differ in their last bits, by their places in a product.
        similarity = all_similarities(vectors[rows], vectors, how).astype(np.float32)
        similarity[rows - start, rows] = -np.inf
        found[rows] = _largest(similarity, count)
    return found


def _largest(values: NDArray[np.floating], count: int) -> NDArray[np.intp]:
    """The columns of the largest values of each row, (n, m) -> (n, count); of equal ones the first."""
    columns = np.argpartition(-values, count - 1, axis=1)[:, :count]
    least = np.take_along_axis(values, columns, axis=1).min(axis=1)
    # Whole rows are sorted only where the last place has several candidates: that is many times as slow.
    tied = (values >= least[:, None]).sum(axis=1) > count
    columns[tied] = np.argsort(-values[tied], axis=1, kind="stable")[:, :count]
    return columns


def overlaps(pairs: pl.DataFrame, embeddings: Embeddings) -> tuple[NDArray[np.uint64], NDArray[np.float64]]:
    """The texts, ascending, (n,), and the share of each one's ten nearest that are the teacher's too, (n,).

    Args:
        pairs: as `task` makes them.
        embeddings: a model's vectors of their texts.
    """
    near = pairs.filter(label=NEAREST).sort("left_id", maintain_order=True)
    ids = near["left_id"].unique().sort().to_numpy()
    theirs = near["right_id"].to_numpy().reshape(len(ids), -1)
    own = ids[nearest(embeddings.of(ids), embeddings.similarity)]
    return ids, (own[:, :, None] == theirs[:, None, :]).any(axis=2).mean(axis=1)


def spearman(pairs: pl.DataFrame, embeddings: Embeddings) -> float:
    """Rank correlation of the CHANCE pairs' similarities with the teacher's; 0 where a side is constant."""
    chance = pairs.filter(label=CHANCE)
    # As exact as the teacher's in the table, so that equal vectors give equal ranks.
    similarity = sts.similarity(chance, embeddings).astype(np.float32).astype(np.float64)
    return sts.scores(chance, similarity)["spearman"]


def scores(pairs: pl.DataFrame, embeddings: Embeddings, overlap: NDArray[np.float64]) -> dict[str, float]:
    """The mean of the `overlaps` (n,), `spearman`, and the number of texts."""
    correlation = spearman(pairs, embeddings)
    return {HEADLINE: float(overlap.mean()), "spearman": correlation, "texts": len(overlap)}


def score(pairs: pl.DataFrame, embeddings: Embeddings) -> dict[str, float]:
    """As `scores`, of what the model finds."""
    return scores(pairs, embeddings, overlaps(pairs, embeddings)[1])
