"""Choices by hash: the same rows are chosen whatever their order and whatever else is in the table."""

from collections.abc import Callable, Iterable

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pipeline.data.common.texts import text_id

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)
_FIRST_16 = np.uint64(48)


def ranks(ids: pl.Series, purpose: str) -> NDArray[np.uint64]:
    """A pseudo-random 64-bit rank of every id; ranks of different purposes are independent.

    The ids themselves would not do: keeping the smallest leaves a part of the id space empty.
    """
    mixed = ids.to_numpy().astype(np.uint64) ^ np.uint64(text_id(purpose))
    for _ in range(2):
        mixed = mixed * _MULTIPLIER
        mixed = mixed ^ (mixed >> _HALF)
    return mixed


def keep_first(table: pl.DataFrame, by: str, limit: int | None, purpose: str) -> pl.DataFrame:
    """The `limit` rows with the lowest ranks of the ids in column `by`; all for None. Keeps the order."""
    if limit is None or len(table) <= limit:
        return table
    chosen = np.argsort(ranks(table[by], purpose), kind="stable")[:limit]
    return table[np.sort(chosen)]


def rank_of_limit(ids: Callable[[], Iterable[pl.Series]], limit: int, purpose: str) -> np.uint64:
    """The highest rank among the `limit` lowest ones.

    Args:
        ids: gives more than `limit` different ids, some at a time, and again when it is called again.
        limit: how many.
        purpose: of the ranks.
    """
    counts = np.zeros(1 << 16, np.int64)
    for part in ids():
        counts += np.bincount(ranks(part, purpose) >> _FIRST_16, minlength=len(counts))
    below = np.cumsum(counts)
    first = int(np.searchsorted(below, limit))
    of_first = [(found := ranks(part, purpose))[found >> _FIRST_16 == first] for part in ids()]
    return np.sort(np.concatenate(of_first))[limit - int(below[first] - counts[first]) - 1]


def share(ids: pl.Series, fraction: float, purpose: str) -> pl.Series:
    """Whether each id is in the share `fraction` of all possible ids."""
    return pl.Series(ranks(ids, purpose).astype(np.float64) < fraction * 2.0**64)
