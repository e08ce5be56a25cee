import math

import numpy as np
import pytest
import torch
from torch.autograd import gradcheck

from pipeline.losses.infonce import infonce


def vectors(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape))


NONE = torch.empty(0, 6, dtype=torch.float64)


@pytest.mark.parametrize("negatives", [NONE, vectors(3, 6, seed=2)], ids=["in_batch", "hard"])
@pytest.mark.parametrize("temperature", [0.05, 1.0])
def test_the_equation_in_float64(negatives, temperature):
    anchors, positives = vectors(4, 6), vectors(4, 6, seed=1)

    def similarity(one, other):
        return np.exp(one @ other / np.linalg.norm(one) / np.linalg.norm(other) / temperature)

    costs = []
    for anchor, positive in zip(anchors.numpy(), positives.numpy(), strict=True):
        candidates = [*positives.numpy(), *negatives.numpy()]
        everything = sum(similarity(anchor, candidate) for candidate in candidates)
        costs.append(-np.log(similarity(anchor, positive) / everything))
    found = infonce(anchors, positives, negatives, temperature).item()
    assert found == pytest.approx(np.mean(costs), rel=1e-12)


def test_gradients_of_anchors_positives_and_negatives():
    inputs = [vectors(rows, 6, seed=rows).requires_grad_() for rows in (4, 4, 3)]
    inputs[1] = vectors(4, 6, seed=9).requires_grad_()
    assert gradcheck(lambda *given: infonce(*given, 0.5), inputs)


def test_one_sentence_without_negatives_has_nothing_to_tell_apart():
    assert infonce(vectors(1, 6), vectors(1, 6, seed=1), NONE, 0.05).item() == 0


def test_equal_sentences_cost_the_logarithm_of_their_number():
    same = vectors(1, 6).expand(4, 6)
    assert infonce(same, same, NONE, 0.05).item() == pytest.approx(math.log(4))
    assert infonce(same, same, same[:3], 0.05).item() == pytest.approx(math.log(7))


def test_zero_vectors_are_like_everything_and_have_finite_gradients():
    anchors = torch.zeros(2, 6, dtype=torch.float64, requires_grad=True)
    loss = infonce(anchors, vectors(2, 6), vectors(3, 6, seed=1), 0.05)
    loss.backward()
    assert loss.item() == pytest.approx(math.log(5))
    assert anchors.grad.isfinite().all()
