"""Classification: do vectors tell the classes of texts, or of pairs of texts, apart?"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pipeline.core import memory
from pipeline.params.evaluate import Probe
from pipeline.tasks.embeddings import Embeddings
from pipeline.tasks.heads import (
    INVERSE_PENALTIES,
    LEARNING_RATES,
    Classes,
    Classifier,
    Data,
    Features,
    linear,
    mlp,
    one_thread,
)

Head = Callable[[Data, Data, float, int], Classifier]
"""Training rows, dev rows, a setting and a seed to a classifier."""
HEADS: dict[str, tuple[Head, tuple[float, ...]]] = {
    "mlp": (mlp, LEARNING_RATES),
    "linear": (linear, INVERSE_PENALTIES),
}
"""Each with the settings that dev rows choose from."""

COPIES = 2
"""Of features, in float32: as they are, and scaled."""


@dataclass(frozen=True)
class Predictions:
    """What classifiers make of the test rows."""

    train: int
    """How many rows they could be trained on."""
    labels: int
    """How many there are."""
    classes: Classes
    """The true classes of the test rows, (n,)."""
    by_share: dict[float, list[Classes]]
    """By share of the training rows, ascending and with 1, what each classifier predicts, (n,)."""


def predict(pairs: pl.DataFrame, embeddings: Embeddings, probe: Probe) -> Predictions:
    """Train classifiers on the training rows' vectors, and let them classify the test rows.

    SRA (Wu et al. 2020) trains the student with its classifier. Here the vectors stay, so that teacher and
    students are compared on equal terms. The setting (learning rate or penalty) whose classifier fits the dev
    rows best is taken for all of `probe.seeds` classifiers.

    Args:
        pairs: left_id, right_id (all null for single texts), label, subset (train, dev or test).
        embeddings: vectors of all texts.
        probe: the classifier.
    """
    labels = labels_of(pairs)
    (train, dev, test), _ = _scaled(pairs, embeddings, labels, concatenated=probe.concatenated)
    with one_thread():
        by_share = {
            fraction: [one.predict(test.features) for one in _classifiers(train, dev, probe, fraction)]
            for fraction in sorted({1.0, *probe.fractions})
        }
    return Predictions(len(train.classes), len(labels), test.classes, by_share)


Ask = Callable[[pl.DataFrame, Embeddings], NDArray[np.float32]]
"""Rows (n) of texts or pairs, and vectors of their texts, to logits (n, c)."""
ASKED_ROWS = 1 << 15


def task_teacher(pairs: pl.DataFrame, embeddings: Embeddings) -> tuple[Ask, Classes]:
    """A head on the teacher's vectors, trained on the training rows.

    SRA (Wu et al. 2020, section 4.3): one hidden layer of 256 ReLU units, its learning rate chosen on dev.

    Args:
        pairs: as for `predict`.
        embeddings: the teacher's vectors of all texts.

    Returns:
        What gives the logits of any rows, and the classes of the test rows, (n,).
    """
    (train, dev, test), scaling = _scaled(pairs, embeddings, labels_of(pairs))
    with one_thread():
        found = max((mlp(train, dev, rate, 0) for rate in LEARNING_RATES), key=lambda one: one.fits_dev)

    def ask(rows: pl.DataFrame, vectors: Embeddings) -> NDArray[np.float32]:
        parts = rows.iter_slices(ASKED_ROWS)
        with one_thread():
            return np.concatenate([found.logits(scaling(blocks(part, vectors))) for part in parts])

    return ask, found.predict(test.features)


def scores(predictions: Predictions, metric: str) -> dict[str, float]:
    """Accuracy and F1, each the mean over the classifiers.

    `accuracy@20%` is after training on a fifth of the training rows; without a share it is after all.
    `spread` is the standard deviation of `metric` over the classifiers that were trained on all.

    F1 is that of the larger label where there are two (1 of 0 and 1), else the mean over the labels.
    """
    found: dict[str, float] = {}
    for share, predicted in predictions.by_share.items():
        of_each = [scores_of(one, predictions.classes, predictions.labels) for one in predicted]
        found |= {name + suffix(share): float(np.mean([one[name] for one in of_each])) for name in of_each[0]}
        spread = float(np.std([one[metric] for one in of_each]))
    counts = {"train": predictions.train, "test": len(predictions.classes), "labels": predictions.labels}
    return {**found, "spread": spread, **counts}


def suffix(share: float) -> str:
    """What marks a metric after training on a share of the rows: `@20%`; nothing for all."""
    return "" if share == 1 else f"@{100 * share:g}%"


def score(pairs: pl.DataFrame, embeddings: Embeddings, probe: Probe) -> dict[str, float]:
    """As `scores`, of what classifiers `predict`."""
    return scores(predict(pairs, embeddings, probe), probe.metric)


def pair_features(left: NDArray[np.floating], right: NDArray[np.floating]) -> list[NDArray[np.floating]]:
    """[u, v, |u - v|, u * v] of vectors (n, d), each (n, d): SRA, section 3.2."""
    return [left, right, np.abs(left - right), left * right]


def nested_order(classes: NDArray[np.int64], seed: int) -> NDArray[np.intp]:
    """Rows by chance, one of each class first; any beginning of the order has the classes' shares."""
    generator = np.random.default_rng(seed)
    chance = generator.random(len(classes))
    place = np.empty(len(classes))
    for one in np.unique(classes):
        rows = np.flatnonzero(classes == one)
        place[rows[np.argsort(chance[rows])]] = np.arange(len(rows)) / len(rows)
    return np.lexsort((chance, place))


def _classifiers(train: Data, dev: Data, probe: Probe, fraction: float) -> Iterator[Classifier]:
    """One a seed, with the setting that is best on dev by the first seed."""
    head, settings = HEADS[probe.head]
    # 0.07 of 100 rows are 7.000000000000001
    rows = max(math.ceil(fraction * len(train.classes) - 1e-9), int(train.classes.max()) + 1)
    drawn = train.select(nested_order(train.classes, 0)[:rows])
    candidates = [head(drawn, dev, setting, 0) for setting in settings]
    best = int(np.argmax([candidate.fits_dev for candidate in candidates]))
    yield candidates[best]
    # A regression on all rows has no part in chance.
    alike = probe.head == "linear" and fraction == 1
    for seed in range(1, 1 if alike else probe.seeds):
        drawn = train.select(nested_order(train.classes, seed)[:rows])
        yield head(drawn, dev, settings[best], seed)


@dataclass(frozen=True)
class Scaling:
    """How features are centred and scaled: as the training rows ask, block by block.

    One deviation a feature would blow up the last directions of vectors after a PCA, which hold mere noise;
    as it is, a rotation of the vectors changes nothing in the scores of single texts.
    """

    means: list[NDArray[np.floating]]
    """Of each block, (d,)."""
    deviations: list[float]
    """Of each block, over all its numbers."""

    @classmethod
    def of(cls, blocks: list[NDArray[np.floating]]) -> "Scaling":
        """That of blocks of features, each (n, d)."""
        means = [block.mean(axis=0) for block in blocks]
        spreads = (
            float(np.square(block - mean).mean()) ** 0.5 for block, mean in zip(blocks, means, strict=True)
        )
        return cls(means, [spread or 1.0 for spread in spreads])

    def __call__(self, blocks: list[NDArray[np.floating]]) -> Features:
        """Blocks, each (n, d), side by side, centred and scaled."""
        scaled = [
            (block - mean) / deviation
            for block, mean, deviation in zip(blocks, self.means, self.deviations, strict=True)
        ]
        return np.concatenate(scaled, axis=1).astype(np.float32)


def _scaled(
    pairs: pl.DataFrame, embeddings: Embeddings, labels: Sequence[str], *, concatenated: bool = False
) -> tuple[list[Data], Scaling]:
    """Training, dev and test rows, scaled as the training rows ask."""
    subsets = [pairs.filter(subset=subset) for subset in ("train", "dev", "test")]
    found = [blocks(rows, embeddings, concatenated=concatenated) for rows in subsets]
    scaling = Scaling.of(found[0])
    data = [
        Data(scaling(block), classes_of(rows, labels)) for rows, block in zip(subsets, found, strict=True)
    ]
    return data, scaling


def labels_of(pairs: pl.DataFrame) -> list[str]:
    """The labels of a task's training rows: by value where all are numbers, else as texts."""
    return _sorted(pairs.filter(subset="train")["label"].unique().to_list())


def classes_of(rows: pl.DataFrame, labels: Sequence[str]) -> Classes:
    """The place of each row's label among the labels, (n,)."""
    number = {label: index for index, label in enumerate(labels)}
    return np.array([number[label] for label in rows["label"]], dtype=np.int64)


def blocks(
    rows: pl.DataFrame, embeddings: Embeddings, *, concatenated: bool = False
) -> list[NDArray[np.floating]]:
    """The features of rows of texts, or of pairs of texts: blocks, each (n, d).

    Args:
        rows: left_id, and right_id of pairs.
        embeddings: vectors of their texts.
        concatenated: whether those of a pair are its two vectors alone.
    """
    is_single = rows["right_id"].null_count() == len(rows)
    size = len(rows) * embeddings.dim * (1 if is_single else 2 if concatenated else 4) * COPIES * 4
    memory.say_if_more(f"the features of {len(rows):,} rows with a class take", size, "fewer rows take less")
    left = embeddings.of(rows["left_id"].to_numpy())
    if is_single:
        return [left]
    right = embeddings.of(rows["right_id"].to_numpy())
    return [left, right] if concatenated else pair_features(left, right)


def scores_of(predicted: Classes, classes: Classes, labels: int) -> dict[str, float]:
    """Accuracy and F1 of predictions, as GLUE counts them; F1 as in `scores`.

    Args:
        predicted: (n,).
        classes: the true ones, (n,).
        labels: how many there are.
    """
    from sklearn.metrics import accuracy_score, f1_score

    average = "binary" if labels == 2 else "macro"
    f1 = f1_score(classes, predicted, average=average, zero_division=0.0)
    return {"accuracy": float(accuracy_score(classes, predicted)), "f1": float(f1)}


def _sorted(labels: Sequence[str]) -> list[str]:
    """By value where all are numbers, else as texts."""
    try:
        numbers = {label: float(label) for label in labels}
    except ValueError:
        return sorted(labels)
    if not all(map(math.isfinite, numbers.values())):  # "nan" has no place among numbers
        return sorted(labels)
    return sorted(labels, key=lambda label: (numbers[label], label))
