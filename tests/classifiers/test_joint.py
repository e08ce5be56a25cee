"""The loss of a classifier, its head, and its threshold, by their equations."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score

from pipeline.classifiers.saved.head import Head
from pipeline.classifiers.training.losses import first_states, loss, matched, patience
from pipeline.classifiers.training.untuned import predict
from pipeline.core.errors import UserError

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


@pytest.mark.parametrize("alpha", [0.0, 0.3])
@pytest.mark.parametrize("temperature", [1.0, 10.0])
def test_softened_labels_are_the_divergence_of_the_softmax(alpha, temperature):
    """Sun et al. 2019, eq. 2: its cross-entropy is this and the entropy of p_t, which nothing changes."""
    student, teacher = (softmax(one.detach().double().numpy() / temperature) for one in (LOGITS, TAUGHT))
    soft_cross_entropy = -(teacher * np.log(student)).sum(1).mean()
    divergence = soft_cross_entropy + (teacher * np.log(teacher)).sum(1).mean()
    expected = alpha * cross_entropy() + (1 - alpha) * divergence
    found = loss(LOGITS, CLASSES, TAUGHT, alpha, temperature)
    assert found.item() == pytest.approx(expected, rel=1e-5)
    (gradient,) = torch.autograd.grad(loss(LOGITS, CLASSES, TAUGHT, 0.0, temperature), LOGITS)
    assert gradient.numpy() == pytest.approx((student - teacher) / temperature / 2, abs=1e-7)


def softmax(logits):
    return np.exp(logits) / np.exp(logits).sum(1, keepdims=True)


def test_patience_is_its_equation():
    """Sun et al. 2019, eq. 7; the mean over layers, so that its weight is of any number of them."""
    generator = np.random.default_rng(0)
    own, theirs = (generator.normal(size=(3, 5, 7)) for _ in range(2))
    total = 0.0
    for row in range(3):
        for layer in range(5):
            h, g = own[row, layer], theirs[row, layer]
            total += np.square(h / np.linalg.norm(h) - g / np.linalg.norm(g)).sum()
    found = patience(torch.from_numpy(own), torch.from_numpy(theirs))
    assert found.item() == pytest.approx(total / 15, rel=1e-12)


@pytest.mark.parametrize(
    ("how", "layers", "of_teacher", "expected"),
    [
        ("skip", 6, 12, [2, 4, 6, 8, 10]),  # these four as the paper's BERT_6 and BERT_3
        ("last", 6, 12, [7, 8, 9, 10, 11]),
        ("skip", 3, 12, [4, 8]),
        ("last", 3, 12, [10, 11]),
        ("skip", 5, 12, [2, 4, 6, 8]),
        ("last", 12, 12, [*range(1, 12)]),
        ("skip", 2, 3, [1]),
    ],
)
def test_layers_are_matched_as_the_paper_has_them(how, layers, of_teacher, expected):
    assert [one + 1 for one in matched(how, layers, of_teacher)] == expected


@pytest.mark.parametrize(("layers", "of_teacher"), [(1, 12), (13, 12)])
def test_layers_that_cannot_be_matched(layers, of_teacher):
    with pytest.raises(UserError, match=rf"{layers} layers and the task teacher {of_teacher}; take"):
        matched("skip", layers, of_teacher)


def test_the_first_tokens_states_of_each_layer():
    states = {1: torch.arange(10.0).reshape(5, 2), 0: -torch.arange(10.0).reshape(5, 2)}
    found = first_states(states, torch.tensor([0, 3]))
    assert found.tolist() == [[[-0.0, -1.0], [0.0, 1.0]], [[-6.0, -7.0], [6.0, 7.0]]]


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
