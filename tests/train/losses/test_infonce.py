import math

import numpy as np
import pytest
import torch
from small_batches import batch, context, vectors
from torch.autograd import gradcheck

from pipeline.params.losses import InfonceLoss
from pipeline.train.losses.shared.infonce import build, infonce

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


def test_what_is_left_out_is_no_negative_of_that_anchor_alone():
    anchors, positives, negatives = vectors(4, 6), vectors(4, 6, seed=1), vectors(3, 6, seed=2)
    left_out = torch.zeros(4, 7, dtype=torch.bool)
    left_out[0, 2] = left_out[0, 5] = left_out[3, 0] = True
    everything = torch.cat([positives, negatives])
    costs = []
    for row in range(4):
        kept = [column for column in range(7) if not left_out[row, column]]
        cosines = everything[kept] @ anchors[row] / everything[kept].norm(dim=1) / anchors[row].norm()
        powers = np.exp(cosines.numpy() / 0.3)
        costs.append(-np.log(powers[kept.index(row)] / powers.sum()))
    found = infonce(anchors, positives, negatives, 0.3, left_out).item()
    assert found == pytest.approx(np.mean(costs), rel=1e-12)
    nothing = torch.zeros(4, 7, dtype=torch.bool)
    assert infonce(anchors, positives, negatives, 0.3, nothing) == infonce(anchors, positives, negatives, 0.3)


def test_a_negative_left_out_of_all_contrasts_has_no_gradient():
    inputs = [vectors(rows, 6, seed=rows).requires_grad_() for rows in (2, 2, 3)]
    left_out = torch.zeros(2, 5, dtype=torch.bool)
    left_out[:, 3] = True
    infonce(*inputs, 0.5, left_out).backward()
    assert inputs[2].grad.abs().amax(dim=1).gt(0).tolist() == [True, False, True]
    assert gradcheck(lambda *given: infonce(*given, 0.5, left_out), inputs)


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


def loss_of(projection: str, dim: int, seed: int = 0):
    params = InfonceLoss.model_validate({"kind": "infonce", "temperature": 0.2, "projection": projection})
    return build(params, context(dim, 6, seed=seed)).double()


def test_the_loss_contrasts_vectors_with_the_batchs_targets():
    student, targets = vectors(4, 6), vectors(4, 6, seed=1)
    loss = loss_of("none", 6)
    assert loss(batch(student, targets)).item() == infonce(student, targets, NONE, 0.2).item()
    assert list(loss.parameters()) == []


def test_a_learned_projection_maps_the_vectors_to_the_targets_dimension_and_is_trained():
    student, targets = vectors(4, 3), vectors(4, 6, seed=1)
    loss = loss_of("learned", 3)
    (weights,) = loss.parameters()
    found = loss(batch(student, targets))
    assert found.item() == pytest.approx(infonce(student @ weights.T, targets, NONE, 0.2).item(), rel=1e-12)
    found.backward()
    assert weights.grad.abs().min() > 0


def test_a_projection_between_equal_dimensions_starts_as_the_identity():
    (weights,) = loss_of("learned", 6).parameters()
    assert torch.equal(weights, torch.eye(6, dtype=torch.float64))


def test_the_projection_depends_on_the_seed_alone():
    torch.manual_seed(1)
    (one,), before = loss_of("learned", 3, seed=5).parameters(), torch.random.get_rng_state()
    torch.manual_seed(2)
    (same,), (other,) = loss_of("learned", 3, seed=5).parameters(), loss_of("learned", 3, seed=6).parameters()
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    torch.manual_seed(1)
    assert torch.equal(before, torch.random.get_rng_state())
