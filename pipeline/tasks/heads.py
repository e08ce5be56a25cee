"""Classifiers on vectors that stay as they are: SRA's multilayer perceptron, and logistic regression."""

import copy
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import nn

HIDDEN = 256
LEARNING_RATES = (2e-4, 3e-4, 5e-4, 1e-3)
INVERSE_PENALTIES = (0.01, 0.1, 1.0)
BATCH = 256
ROUNDS = 12
"""Rounds of training, at most; a round sees every row, and ROUND_STEPS batches or more."""
ROUND_STEPS = 30
PATIENCE = 4
"""Rounds without a better accuracy on dev, after which training ends."""
MAX_ITERATIONS = 1000

Features = NDArray[np.float32]
Classes = NDArray[np.int64]
Logits = Callable[[Features], NDArray[np.float32]]
"""Features (n, f) to one number a class (n, c), whose softmax is the classes' probabilities."""


class Classifier(NamedTuple):
    """A trained head."""

    logits: Logits
    fits_dev: float
    """How well it fits the dev rows: the higher, the better its setting."""

    def predict(self, features: Features) -> Classes:
        """The classes of features (n, f), (n,)."""
        return self.logits(features).argmax(axis=1)


@dataclass(frozen=True)
class Data:
    """Features (n, f), centred and scaled, and classes (n,) from 0 on."""

    features: Features
    classes: Classes

    def select(self, rows: NDArray[np.intp]) -> "Data":
        """These rows."""
        return Data(self.features[rows], self.classes[rows])


def mlp(train: Data, dev: Data, learning_rate: float, seed: int) -> Classifier:
    """One hidden layer of 256 ReLU units, as the classifiers of SRA (Wu et al. 2020, section 4.3), by Adam.

    The weights after the round with the best accuracy on dev are kept, the first of several. That accuracy is
    how well it fits dev.
    """
    import torch
    from torch.nn.functional import cross_entropy

    features, classes = torch.from_numpy(train.features), torch.from_numpy(train.classes)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = torch.nn.Sequential(
            torch.nn.Linear(features.shape[1], HIDDEN),
            torch.nn.ReLU(),
            torch.nn.Linear(HIDDEN, int(classes.max()) + 1),
        )
        optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate, fused=True)
        best, best_round, kept = -1.0, 0, model.state_dict()
        passes = math.ceil(ROUND_STEPS / math.ceil(len(classes) / BATCH))
        for number in range(ROUNDS):
            for rows in (rows for _ in range(passes) for rows in torch.randperm(len(classes)).split(BATCH)):
                optimizer.zero_grad()
                cross_entropy(model(features[rows]), classes[rows]).backward()
                optimizer.step()
            accuracy = float((_logits(model, dev.features).argmax(axis=1) == dev.classes).mean())
            if accuracy > best:
                best, best_round, kept = accuracy, number, copy.deepcopy(model.state_dict())
            elif number - best_round >= PATIENCE:
                break
        model.load_state_dict(kept)
    return Classifier(lambda features: _logits(model, features), best)


def linear(train: Data, dev: Data, inverse_penalty: float, seed: int) -> Classifier:
    """Logistic regression with an L2 penalty; `seed` changes nothing.

    It fits dev as well as its mean log-likelihood there: of few rows, two penalties often get as many right,
    and which is ahead by a row would decide over points of the test score.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import log_loss

    model = LogisticRegression(C=inverse_penalty, max_iter=MAX_ITERATIONS)
    model.fit(train.features, train.classes)
    loss = log_loss(dev.classes, model.predict_proba(dev.features), labels=model.classes_)

    def logits(features: Features) -> NDArray[np.float32]:
        found = model.decision_function(features).astype(np.float32)
        # Of two classes it has one score, of the second one.
        return found if found.ndim == 2 else np.stack([np.zeros_like(found), found], axis=1)

    return Classifier(logits, -float(loss))


def _logits(model: "nn.Module", features: Features) -> NDArray[np.float32]:
    import torch

    with torch.no_grad():
        return model(torch.from_numpy(features)).numpy()


@contextmanager
def one_thread() -> Iterator[None]:
    """Torch and BLAS on one thread.

    Matrices this small gain nothing by more: beside another job, threads that wait for each other made a
    regression 40 times as slow. And sums are the same on machines of any number of cores.
    """
    import torch
    from threadpoolctl import threadpool_limits

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            yield
    finally:
        torch.set_num_threads(before)
