"""How far new texts are from their parents, by the teacher's cached vectors, and which are kept for it."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pipeline.core.atomic import disk_errors
from pipeline.data.common.texts import SAMPLE_SCHEMA
from pipeline.data.tokens.mapped import Rows, gather, map_file, read_ahead
from pipeline.params.gates import SimilarityGate
from pipeline.vectors.sets.published import VectorSet
from pipeline.vectors.sets.shards import Half, Ids

VIEW = "sentence"
SAMPLED = {None: 6, "too_different": 2, "too_similar": 2}
"""Rows of a sample that were kept, and of those that were dropped by reason."""


def similarities(
    ids: Ids, parents: Ids, vectors: VectorSet, corpus_vectors: VectorSet, scratch: Path
) -> NDArray[np.float32]:
    """The teacher's cosines (n,) of texts to their parents; 0 beside a vector of zeros.

    Both sets of vectors are read once, in the order of their ids: those of the parents go into a file, from
    which they are read as their children come. In memory are a shard and the ids.

    Args:
        ids: of the texts (n,), ascending.
        parents: of their parents (n,), in any order.
        vectors: of the texts.
        corpus_vectors: of their parents.
        scratch: the file, as large as the parents' vectors.

    Raises:
        UserError: a text has no vector, the vectors have no view `sentence`, or the disk is full.
    """
    known = np.sort(parents)  # np.unique takes several times the memory
    known = known[np.append(known[1:] != known[:-1], True)]
    with disk_errors(scratch), scratch.open("wb") as file:
        for part in corpus_vectors.of(known, VIEW):
            file.write(np.ascontiguousarray(part).data)
    lying = map_file(scratch, np.float16, (len(known), corpus_vectors.dims[VIEW]))
    found, done = np.empty(len(ids), np.float32), 0
    for part in vectors.of(ids, VIEW):
        stop = done + len(part)
        rows = np.searchsorted(known, parents[done:stop])
        ones = np.ones_like(rows)
        read_ahead(lying, rows, ones)  # all at once
        found[done:stop] = _cosines(part, gather(lying, rows, ones))
        done = stop
    return found


def reasons(similarity: pl.Series, gate: SimilarityGate) -> pl.Series:
    """Why a text of this similarity (n,) is dropped: `too_different`, `too_similar`, or null."""
    column = pl.col("similarity")
    different = pl.when(column < gate.min_similarity).then(pl.lit("too_different"))
    highest = 2.0 if gate.max_similarity is None else gate.max_similarity
    similar = different.when(column > highest).then(pl.lit("too_similar"))
    return pl.DataFrame({"similarity": similarity}).select(similar.alias("dropped")).to_series()


def sample(judged: pl.DataFrame) -> Rows:
    """Some rows over the whole range of similarity, the least similar first.

    Args:
        judged: columns `similarity`, `dropped`.

    Returns:
        As many rows as `SAMPLED` has, of equally many texts each.
    """
    similarity, chosen = judged["similarity"].to_numpy(), [np.empty(0, np.int64)]
    for reason, number in SAMPLED.items():
        rows = np.flatnonzero(judged["dropped"].eq_missing(reason))
        rows = rows[np.argsort(similarity[rows], kind="stable")]
        middles = (np.arange(number) + 0.5) / number * len(rows)
        chosen.append(rows[np.unique(middles.astype(np.int64))] if len(rows) else rows)
    found = np.sort(np.concatenate(chosen))
    return found[np.argsort(similarity[found], kind="stable")]


def beside_parents(
    judged: pl.DataFrame, chosen: Rows, texts: Iterable[pl.DataFrame], corpus: Iterable[pl.DataFrame]
) -> pl.DataFrame:
    """The rows of a sample with their texts and parents, `texts.SAMPLE_SCHEMA`.

    Args:
        judged: as `sample` takes them.
        chosen: the rows, as `sample` gives them.
        texts: columns `parent_id` and `text` of all rows, some at a time.
        corpus: columns `text_id` and `text` of all texts, some at a time.
    """
    own = _at(texts, chosen)
    parents = _named(corpus, own["parent_id"])
    named = parents.select(pl.col("text_id").alias("parent_id"), pl.col("text").alias("parent"))
    beside = pl.concat([judged[chosen], own], how="horizontal")
    return beside.join(named, on="parent_id", maintain_order="left").select(list(SAMPLE_SCHEMA))


def _at(texts: Iterable[pl.DataFrame], chosen: Rows) -> pl.DataFrame:
    """parent_id and text of the few rows that are chosen, in their order."""
    found, start = [pl.DataFrame(schema={"parent_id": pl.UInt64, "text": pl.String})], 0
    ascending = np.sort(chosen)
    for part in texts:
        first, last = np.searchsorted(ascending, [start, start + len(part)])
        found.append(part[ascending[first:last] - start].select("parent_id", "text"))
        start += len(part)
    return pl.concat(found)[np.searchsorted(ascending, chosen)]


def _named(texts: Iterable[pl.DataFrame], ids: pl.Series) -> pl.DataFrame:
    """The few texts that have these ids."""
    none = pl.DataFrame(schema={"text_id": pl.UInt64, "text": pl.String})
    among = pl.col("text_id").is_in(ids.implode())
    return pl.concat([none, *(part.filter(among).select("text_id", "text") for part in texts)])


def _cosines(one: Half, other: Half) -> NDArray[np.float32]:
    """Row by row, of vectors (n, d)."""
    left, right = one.astype(np.float32), other.astype(np.float32)
    lengths = np.linalg.norm(left, axis=1) * np.linalg.norm(right, axis=1)
    dots = np.einsum("nd,nd->n", left, right)
    return np.divide(dots, lengths, out=np.zeros_like(dots), where=lengths > 0).clip(-1, 1)
