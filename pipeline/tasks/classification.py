"""Classification: do vectors tell the classes of texts, or of pairs of texts, apart?"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pipeline.params.evaluate import Probe
from pipeline.tasks.embeddings import Embeddings
from pipeline.tasks.heads import (
    INVERSE_PENALTIES,
    LEARNING_RATES,
    Classes,
    Classifier,
    Data,
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
    labels = _sorted(pairs.filter(subset="train")["label"].unique().to_list())
    train, dev, test = _scaled(pairs, embeddings, labels, concatenated=probe.concatenated)
    with one_thread():
        by_share = {
            fraction: [one.predict(test.features) for one in _classifiers(train, dev, probe, fraction)]
            for fraction in sorted({1.0, *probe.fractions})
        }
    return Predictions(len(train.classes), len(labels), test.classes, by_share)


def scores(predictions: Predictions, metric: str) -> dict[str, float]:
    """Accuracy and F1, each the mean over the classifiers.

    `accuracy@20%` is after training on a fifth of the training rows; without a share it is after all.
    `spread` is the standard deviation of `metric` over the classifiers that were trained on all.

    F1 is that of the larger label where there are two (1 of 0 and 1), else the mean over the labels.
    """
    found: dict[str, float] = {}
    for share, predicted in predictions.by_share.items():
        of_each = [_scores(one, predictions) for one in predicted]
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
    rows = max(math.ceil(fraction * len(train.classes)), int(train.classes.max()) + 1)
    drawn = train.select(nested_order(train.classes, 0)[:rows])
    candidates = [head(drawn, dev, setting, 0) for setting in settings]
    best = int(np.argmax([candidate.fits_dev for candidate in candidates]))
    yield candidates[best]
    # A regression on all rows has no part in chance.
    alike = probe.head == "linear" and fraction == 1
    for seed in range(1, 1 if alike else probe.seeds):
        drawn = train.select(nested_order(train.classes, seed)[:rows])
        yield head(drawn, dev, settings[best], seed)


def _scaled(
    pairs: pl.DataFrame, embeddings: Embeddings, labels: Sequence[str], *, concatenated: bool
) -> list[Data]:
    """Training, dev and test rows, centred and each block of features scaled, as the training rows ask.

    One deviation a feature would blow up the last directions of vectors after a PCA, which hold mere noise;
    as it is, a rotation of the vectors changes nothing in the scores of single texts.
    """
    number = {label: index for index, label in enumerate(labels)}
    subsets = [pairs.filter(subset=subset) for subset in ("train", "dev", "test")]
    blocks = [_blocks(rows, embeddings, concatenated=concatenated) for rows in subsets]
    means = [block.mean(axis=0) for block in blocks[0]]
    deviations = [
        float(np.square(block - mean).mean()) ** 0.5 or 1.0
        for block, mean in zip(blocks[0], means, strict=True)
    ]
    return [
        Data(
            np.concatenate(
                [(part - mean) / scale for part, mean, scale in zip(found, means, deviations, strict=True)],
                axis=1,
            ).astype(np.float32),
            np.array([number[label] for label in rows["label"]], dtype=np.int64),
        )
        for rows, found in zip(subsets, blocks, strict=True)
    ]


def _blocks(rows: pl.DataFrame, embeddings: Embeddings, *, concatenated: bool) -> list[NDArray[np.floating]]:
    left = embeddings.of(rows["left_id"].to_numpy())
    if rows["right_id"].null_count() == len(rows):
        return [left]
    right = embeddings.of(rows["right_id"].to_numpy())
    return [left, right] if concatenated else pair_features(left, right)


def _scores(predicted: Classes, predictions: Predictions) -> dict[str, float]:
    from sklearn.metrics import accuracy_score, f1_score

    classes = predictions.classes
    average = "binary" if predictions.labels == 2 else "macro"
    f1 = f1_score(classes, predicted, average=average, zero_division=0.0)
    return {"accuracy": float(accuracy_score(classes, predicted)), "f1": float(f1)}


def _sorted(labels: Sequence[str]) -> list[str]:
    """By value where all are numbers, else as texts."""
    try:
        return sorted(labels, key=lambda label: (float(label), label))
    except ValueError:
        return sorted(labels)
