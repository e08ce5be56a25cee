"""The loss of a classifier, its head, and its threshold, by their equations."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score

from pipeline.classifiers.saved.head import Head
from pipeline.classifiers.training.joint import loss
from pipeline.classifiers.training.untuned import predict

LOGITS = torch.tensor([[2.0, -1.0, 0.5], [0.1, 0.2, -3.0]], requires_grad=True)
TAUGHT = torch.tensor([[1.0, 0.0, 0.0], [-1.0, 2.0, 1.0]])
CLASSES = torch.tensor([0, 1])


def cross_entropy():
    given = LOGITS.detach().double().numpy()
    probabilities = np.exp(given) / np.exp(given).sum(1, keepdims=True)
    return -np.log(probabilities[[0, 1], CLASSES]).mean()


@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])
def test_alpha_weighs_labels_and_the_teachers_logits(alpha):
    distance = ((LOGITS.detach() - TAUGHT).double().numpy() ** 2).sum(1).mean()
    expected = alpha * cross_entropy() + (1 - alpha) * distance
    assert loss(LOGITS, CLASSES, TAUGHT, alpha).item() == pytest.approx(expected, rel=1e-6)


def test_without_a_teacher_it_is_the_cross_entropy():
    assert loss(LOGITS, CLASSES, None, 1.0).item() == pytest.approx(cross_entropy(), rel=1e-6)


@pytest.mark.parametrize("pairs", [False, True])
def test_a_head_is_its_equation(pairs):
    torch.manual_seed(0)
    head = Head(5, 7, 3, pairs=pairs)
    vectors = torch.randn(8, 5) * 0.01 + 2
    head.fit_scale(head.features(vectors))
    v = vectors.double().numpy()
    features = v
    if pairs:
        left, right = v[0::2], v[1::2]
        features = np.concatenate([left, right, abs(left - right), left * right], axis=1)
    centred = features - features.mean(0)
    blocks = np.split(centred, centred.shape[1] // 5, axis=1)
    scaled = np.concatenate([block / np.sqrt((block**2).mean()) for block in blocks], axis=1)
    hidden, output = (
        (layer.weight.detach().double().numpy(), layer.bias.detach().double().numpy())
        for layer in (head.hidden, head.output)
    )
    expected = np.maximum(scaled @ hidden[0].T + hidden[1], 0) @ output[0].T + output[1]
    assert head(vectors).detach().numpy() == pytest.approx(expected, rel=2e-3, abs=2e-3)


@given(st.lists(st.tuples(st.integers(-5, 5), st.booleans()), min_size=1, max_size=30))
def test_no_threshold_is_better_on_the_training_pairs(rows):
    similarity = np.array([row[0] for row in rows], np.float64)
    classes = np.array([row[1] for row in rows], np.int64)
    found, threshold = predict(similarity, classes, similarity)
    tries = [accuracy_score(classes, similarity >= at) for at in np.arange(-5.5, 7)]
    assert accuracy_score(classes, found) == max(tries)
    assert (found == (similarity >= threshold)).all()
