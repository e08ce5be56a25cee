import numpy as np
import pytest
import torch
from scipy.special import rel_entr, softmax
from small_batches import batch, context, vectors
from torch.autograd import gradcheck

from pipeline.params.losses import KlLoss
from pipeline.train.losses.kl import build


def loss_of(student, target, temperature: float = 1.0):
    return build(KlLoss(kind="kl", temperature=temperature), context())(batch(student, target))


@pytest.mark.parametrize("temperature", [0.05, 1.0, 3.0])
def test_the_equation_in_float64(temperature):
    student, target = vectors(5, 7), vectors(5, 7, seed=1)
    own, theirs = (softmax(side.numpy() / temperature, axis=1) for side in (student, target))
    expected = temperature**2 * rel_entr(theirs, own).sum() / 5
    assert loss_of(student, target, temperature).item() == pytest.approx(expected, rel=1e-10)


def test_the_temperature_is_1_unless_given():
    student, target = vectors(3, 4), vectors(3, 4, seed=1)
    left = build(KlLoss(kind="kl"), context())(batch(student, target))
    assert left.item() == loss_of(student, target, 1.0).item()


def test_unit_vectors_are_compared_nearly_as_mse_does_but_for_a_shift():
    student, target = (torch.nn.functional.normalize(vectors(9, 500, seed=seed), dim=1) for seed in (0, 1))
    differences = (student - target).numpy()
    squares = np.square(differences - differences.mean(axis=1, keepdims=True)).sum(axis=1)
    assert loss_of(student, target).item() == pytest.approx(squares.mean() / (2 * 500), rel=0.02)


def test_gradients():
    inputs = vectors(3, 4).requires_grad_(), vectors(3, 4, seed=1)
    assert gradcheck(lambda *given: loss_of(*given, 0.5), inputs)


def test_gradients_keep_their_size_as_the_temperature_rises():
    target = vectors(3, 4, seed=1)
    lengths = []
    for temperature in (100.0, 1000.0):
        student = vectors(3, 4).requires_grad_()
        loss_of(student, target, temperature).backward()
        lengths.append(student.grad.norm().item())
    assert lengths[0] == pytest.approx(lengths[1], rel=0.05)


def test_equal_and_shifted_vectors_cost_nothing_and_pull_nowhere():
    student = vectors(3, 4).requires_grad_()
    loss = loss_of(student, student.detach() + 0.7)
    loss.backward()
    assert loss.item() == pytest.approx(0, abs=1e-14)
    assert student.grad.abs().max() < 1e-14


@pytest.mark.parametrize("rows", [1, 3])
def test_zero_vectors_have_finite_values_and_gradients(rows):
    student = torch.zeros(rows, 2, requires_grad=True)
    loss = loss_of(student, torch.tensor([[0.0, 60.0]]).repeat(rows, 1), 0.05)
    loss.backward()
    assert loss.item() == pytest.approx(0.05**2 * np.log(2), rel=1e-5)
    assert student.grad.isfinite().all()


def test_parts_of_a_batch_add_up():
    loss = build(KlLoss(kind="kl"), context())
    assert (loss.over, loss.of_vectors, list(loss.parameters())) == ("sentences", True, [])
    student, target = vectors(6, 4), vectors(6, 4, seed=1)
    parts = [loss(batch(student[half], target[half])).item() for half in (slice(0, 2), slice(2, 6))]
    assert loss(batch(student, target)).item() == pytest.approx((2 * parts[0] + 4 * parts[1]) / 6)
