"""Mixtures: how often an epoch reads the texts of each set."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Portion:
    """The rows of one text set, and how often an epoch reads each of them."""

    rows: int
    proportion: float = 1.0

    @property
    def an_epoch(self) -> int:
        """Rows that an epoch reads, the same number in every epoch; one at least of a set that has any."""
        return min(self.rows, 1) and max(1, round(self.proportion * self.rows))


def epoch_order(portions: Sequence[Portion], seed: int, epoch: int) -> Rows:
    """The rows that an epoch reads, in its order; it depends on nothing but these arguments.

    Each set is dealt out like a pack of cards, shuffled anew whenever it is used up: no row comes again
    before all others of its set have been read. Of whole sets, read once, the order is a permutation.

    Args:
        portions: the sets, whose rows are numbered on from one to the next.
        seed: of the orders.
        epoch: its number, from 0.
    """
    dealt, first = [np.empty(0, np.int64)], 0
    for number, portion in enumerate(portions):
        dealt.append(first + np.sort(_dealt(portion, [seed, number], epoch)))
        first += portion.rows
    rows = np.concatenate(dealt)
    return rows[np.random.default_rng([seed, epoch]).permutation(len(rows))]


def _dealt(portion: Portion, seed: list[int], epoch: int) -> Rows:
    """The rows (0-based) of one set that an epoch reads."""
    start, stop = epoch * portion.an_epoch, (epoch + 1) * portion.an_epoch
    if start == stop:
        return np.empty(0, np.int64)
    packs = range(start // portion.rows, (stop - 1) // portion.rows + 1)
    cut = slice(start - packs.start * portion.rows, stop - packs.start * portion.rows)
    if cut == slice(0, len(packs) * portion.rows):  # whole packs, whose order the epoch shuffles anyway
        return np.tile(np.arange(portion.rows), len(packs))
    shuffled = (np.random.default_rng([*seed, pack, 1]).permutation(portion.rows) for pack in packs)
    return np.concatenate(list(shuffled))[cut]


def _kept_order() -> Callable[[tuple[Portion, ...], int, int], Rows]:
    return lru_cache(maxsize=1)(epoch_order)


@dataclass(frozen=True)
class Batches:
    """The rows of every step: a new order every epoch, which depends on the seed and the epoch alone."""

    portions: tuple[Portion, ...]
    batch_size: int
    seed: int
    _order: Callable[[tuple[Portion, ...], int, int], Rows] = field(
        default_factory=_kept_order, compare=False, repr=False
    )
    """One epoch's order is kept. Another stream of batches, in the same steps, keeps its own."""

    @property
    def rows(self) -> int:
        """Rows that an epoch reads."""
        return sum(portion.an_epoch for portion in self.portions)

    @property
    def steps_per_epoch(self) -> int:
        """Batches of an epoch, the last one smaller."""
        return -(-self.rows // self.batch_size)

    def batch(self, step: int) -> Rows:
        """The rows of a step."""
        epoch, number = divmod(step, self.steps_per_epoch)
        order = self._order(self.portions, self.seed, epoch)
        return order[number * self.batch_size : (number + 1) * self.batch_size]


def epochs(*streams: Batches | None) -> list[int]:
    """The steps of an epoch of each stream that there is."""
    return [stream.steps_per_epoch for stream in streams if stream]
