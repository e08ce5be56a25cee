"""Bootstrap: a task's scores when its items are drawn again, by chance and with replacement.

Throughout, a row of scores is first the score itself, of all items once, and then that of every resample:
(1 + samples,). What is computed from rows, a mean or a difference, is a row again.
"""

from collections.abc import Iterator, Mapping
from typing import Protocol, TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pipeline.score.statistics.examined import CLASS, CLUSTER, COSINE, RESOLVED

Row = NDArray[np.float64]
"""(1 + samples,): the score itself, then those of the resamples."""
Counts = NDArray[np.float64]
"""(b, n): how often each item is in each of b resamples."""

Key = TypeVar("Key")

AT_A_TIME = 2**21
"""Counts that are held at a time, (16 MB), whatever the number of items."""


class Statistic(Protocol):
    """A score of resampled items."""

    def __call__(self, counts: Counts) -> NDArray[np.float64]:
        """The score of each resample, (b, n) -> (b,)."""
        ...


def statistics(items: pl.DataFrame, labels: int) -> dict[str, Statistic]:
    """The scores of a task by metric, from one model's items.

    Args:
        items: of one task and model, as score.examined.ITEMS_SCHEMA says.
        labels: how many there are, which F1 has to know: of two it is that of the larger.
    """
    within = strata(items)
    found: dict[str, Statistic] = {}
    for (measure,), rows in items.group_by("measure", maintain_order=True):
        runs = [part.sort("item") for _, part in sorted(rows.group_by("run"), key=lambda part: part[0])]
        values, gold = (np.stack([part[name].to_numpy() for part in runs]) for name in ("value", "gold"))
        found |= _of_measure(str(measure), values, gold, within, labels)
    return found


def _of_measure(
    measure: str,
    values: NDArray[np.float64],
    gold: NDArray[np.float64],
    within: dict[str, NDArray[np.intp]],
    labels: int,
) -> dict[str, Statistic]:
    """The scores of values and gold (runs, n) by metric."""
    if measure == COSINE:
        cosines, human = values[0], gold[0]
        ranked = [rows for rows in within.values() if np.ptp(human[rows]) > 0]  # as tasks.sts
        each = [Spearman(cosines[rows], human[rows], rows) for rows in ranked]
        return {
            "spearman": Spearman(cosines, human),
            "spearman_mean": lambda counts: (
                np.mean([of(counts) for of in each], axis=0) if each else np.zeros(len(counts))
            ),
            "pearson": Pearson(cosines, human),
        }
    if measure.startswith(CLASS):
        predicted, true = values.astype(np.int64), gold.astype(np.int64)
        share = measure.removeprefix(CLASS)
        right = (predicted == true).mean(axis=0)
        return {
            f"accuracy{share}": Mean(right, [np.arange(len(right))]),
            f"f1{share}": F1(predicted, true, binary=labels == 2),
        }
    if measure == CLUSTER:
        return {"nmi": Nmi(values.astype(np.int64), gold.astype(np.int64))}
    if measure == RESOLVED:
        of_subset = {f"recall@1/{name}": Mean(values[0], [rows]) for name, rows in within.items()}
        return {
            "recall@1": Mean(values[0], list(within.values())),
            "recall@1_all": Mean(values[0], [np.arange(values.shape[1])]),
            **of_subset,
        }
    return {measure: Mean(values[0], list(within.values()))}


def strata(items: pl.DataFrame) -> dict[str, NDArray[np.intp]]:
    """Rows of the items by subset; a task without subsets is one."""
    subsets = items.filter(run=0, measure=items["measure"][0]).sort("item")["subset"].to_numpy()
    return {str(name): np.flatnonzero(subsets == name) for name in np.unique(subsets)}


def resampled(
    statistics: Mapping[Key, Statistic], within: list[NDArray[np.intp]], samples: int, key: tuple[int, ...]
) -> dict[Key, Row]:
    """Each statistic's score, and its scores on the same resamples of the items.

    Items are drawn within their subset, as many as it has (Efron and Tibshirani 1993, ch. 6 and 8): the
    subsets are what the score is about, their items are a sample.

    Args:
        statistics: by model, or by whatever tells them apart.
        within: the rows of each subset.
        samples: how many resamples.
        key: decides which they are.
    """
    items = sum(map(len, within))
    parts: dict[Key, list[NDArray[np.float64]]] = {
        name: [of(np.ones((1, items)))] for name, of in statistics.items()
    }
    for counts in _draws(within, samples, np.random.default_rng(key)):
        for name, of in statistics.items():
            parts[name].append(of(counts))
    return {name: np.concatenate(found) for name, found in parts.items()}


def interval(row: Row, confidence: float) -> tuple[float, float]:
    """The percentile interval of a score: the middle share `confidence` of its resamples."""
    outside = (1 - confidence) / 2
    low, high = np.quantile(row[1:], [outside, 1 - outside])
    return float(low), float(high)


def p_value(differences: Row) -> float:
    """Two-sided: twice the share of resampled differences on the rarer side of 0, the bounds included.

    One is added to the count and to the resamples, so that p is never 0 (Davison and Hinkley 1997, eq. 4.11).
    """
    drawn = differences[1:]
    rarer = min(int((drawn <= 0).sum()), int((drawn >= 0).sum()))
    return min(1.0, 2 * (rarer + 1) / (len(drawn) + 1))


class Mean:
    """The mean of the subsets' means."""

    def __init__(self, values: NDArray[np.float64], within: list[NDArray[np.intp]]) -> None:
        self._shares = np.zeros(len(values))
        for rows in within:
            self._shares[rows] = values[rows] / (len(rows) * len(within))

    def __call__(self, counts: Counts) -> NDArray[np.float64]:
        """(b, n) -> (b,)."""
        return counts @ self._shares


class Pearson:
    """The correlation of two sides (n,); 0 where a side is constant."""

    def __init__(self, left: NDArray[np.float64], right: NDArray[np.float64]) -> None:
        x, y = (side - side.mean() for side in (left, right))
        self._moments = np.stack([x, y, x * x, y * y, x * y], axis=1)

    def __call__(self, counts: Counts) -> NDArray[np.float64]:
        """(b, n) -> (b,)."""
        x, y, xx, yy, xy = (counts @ self._moments / counts.sum(axis=1, keepdims=True)).T
        square = (xx - x * x) * (yy - y * y)
        scale = np.sqrt(np.maximum(square, 0))
        return np.divide(xy - x * y, scale, out=np.zeros_like(x), where=scale > 0)


class Spearman:
    """The rank correlation of two sides (n,), ties at their average rank; 0 where a side is constant."""

    def __init__(
        self,
        left: NDArray[np.float64],
        right: NDArray[np.float64],
        rows: NDArray[np.intp] | None = None,
    ) -> None:
        """`rows`: those of all items that the sides are of, where they are not all."""
        self._rows = rows
        self._sides = [np.unique(side, return_inverse=True)[1] for side in (left, right)]
        self._orders = [np.argsort(places, kind="stable") for places in self._sides]
        self._starts = [
            np.searchsorted(places[order], np.arange(places.max() + 1))
            for places, order in zip(self._sides, self._orders, strict=True)
        ]

    def __call__(self, counts: Counts) -> NDArray[np.float64]:
        """(b, n) -> (b,)."""
        counts = counts if self._rows is None else counts[:, self._rows]
        drawn = counts.sum(axis=1, keepdims=True)
        ranks, squares = [], []
        for places, order, starts in zip(self._sides, self._orders, self._starts, strict=True):
            of_value = np.add.reduceat(counts[:, order], starts, axis=1)
            # A value's items take the ranks from those below it on; the mean of all ranks is (n + 1) / 2.
            rank = np.cumsum(of_value, axis=1) - (of_value - 1) / 2 - (drawn + 1) / 2
            squares.append((of_value * rank**2).sum(axis=1))
            ranks.append(rank[:, places])
        product = np.einsum("bn,bn,bn->b", counts, *ranks)
        scale = np.sqrt(squares[0] * squares[1])
        return np.divide(product, scale, out=np.zeros_like(product), where=scale > 0)


class F1:
    """The mean over the classifiers of the F1 of their predictions, predicted and true classes (runs, n).

    As scikit-learn: that of class 1 where it is binary, else the mean over the classes that are predicted or
    true; 0 where there is none.
    """

    def __init__(
        self, predicted: NDArray[np.int64], classes: NDArray[np.int64], *, binary: bool = False
    ) -> None:
        self._binary = binary
        self._classes = max(2, int(predicted.max()) + 1, int(classes.max()) + 1)
        self._runs = list(zip(predicted, classes, strict=True))

    def __call__(self, counts: Counts) -> NDArray[np.float64]:
        """(b, n) -> (b,)."""
        return np.mean([self._of(counts, *run) for run in self._runs], axis=0)

    def _of(
        self, counts: Counts, predicted: NDArray[np.int64], true: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        same = predicted == true
        hits = 2 * _sums(counts[:, same], true[same], self._classes)
        found = _sums(counts, predicted, self._classes) + _sums(counts, true, self._classes)
        of_class = np.divide(hits, found, out=np.zeros_like(hits), where=found > 0)
        if self._binary:
            return of_class[:, 1]
        return of_class.sum(axis=1) / (found > 0).sum(axis=1)


class Nmi:
    """The mean over the clusterings of their normalised mutual information with the classes, both (runs, n).

    As scikit-learn, with the arithmetic mean of the entropies; 1 where all items are in one cluster and of
    one class.
    """

    def __init__(self, clusters: NDArray[np.int64], classes: NDArray[np.int64]) -> None:
        self._runs = list(zip(clusters, classes, strict=True))

    def __call__(self, counts: Counts) -> NDArray[np.float64]:
        """(b, n) -> (b,)."""
        return np.mean([self._of(counts, *run) for run in self._runs], axis=0)

    def _of(
        self, counts: Counts, clusters: NDArray[np.int64], classes: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        # Of all pairs of a cluster and a class those alone that an item has: there are n at most.
        both = np.unique(clusters * (classes.max() + 1) + classes, return_inverse=True)[1]
        of_cluster, of_class, joint = (_entropy(counts, cells) for cells in (clusters, classes, both))
        shared = of_cluster + of_class - joint
        whole = (of_cluster + of_class) / 2
        return np.divide(np.maximum(shared, 0), whole, out=np.ones_like(whole), where=whole > 0)


def _entropy(counts: Counts, cells: NDArray[np.int64]) -> NDArray[np.float64]:
    """Of the shares of the cells (n,) in each resample, (b, n) -> (b,)."""
    shares = _sums(counts, cells, int(cells.max()) + 1) / counts.sum(axis=1, keepdims=True)
    logs = np.log(shares, out=np.zeros_like(shares), where=shares > 0)
    return -(shares * logs).sum(axis=1)


def _sums(counts: Counts, cells: NDArray[np.int64], size: int) -> NDArray[np.float64]:
    """How often each resample draws an item of each cell, with counts (b, n) and cells (n,): (b, size)."""
    # Of no items numpy counts in integers.
    return np.stack([np.bincount(cells, weights=row, minlength=size).astype(np.float64) for row in counts])


def _draws(within: list[NDArray[np.intp]], samples: int, random: np.random.Generator) -> Iterator[Counts]:
    items = sum(map(len, within))
    for start in range(0, samples, max(1, AT_A_TIME // items)):
        count = min(samples - start, max(1, AT_A_TIME // items))
        counts = np.empty((count, items))
        for rows in within:
            drawn = random.integers(len(rows), size=(count, len(rows))) + np.arange(count)[:, None] * len(
                rows
            )
            of_each = np.bincount(drawn.ravel(), minlength=count * len(rows))
            counts[:, rows] = of_each.reshape(count, len(rows))
        yield counts
