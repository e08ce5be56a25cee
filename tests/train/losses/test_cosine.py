import numpy as np
import pytest
import torch
from small_batches import batch, context, vectors
from torch.autograd import gradcheck

from pipeline.params.losses import CosineLoss
from pipeline.train.losses.cosine import build


def loss_of(norm_penalty: float, student, target, scale: float = 1.0):
    params = CosineLoss(kind="cosine", scale=scale, norm_penalty=norm_penalty)
    return build(params, context())(batch(student, target))


@pytest.mark.parametrize("scale", [1.0, 0.5])
@pytest.mark.parametrize("norm_penalty", [0.0, 1.0, 0.3])
def test_the_equation_in_float64(norm_penalty, scale):
    student, target = vectors(5, 7), vectors(5, 7, seed=1)
    costs = []
    for s, t in zip(student.numpy(), target.numpy(), strict=True):
        cosine = (s @ t) / np.sqrt(s @ s) / np.sqrt(t @ t)
        costs.append(scale * (1 - cosine) + norm_penalty * (s @ s) / len(s))
    found = loss_of(norm_penalty, student, target, scale).item()
    assert found == pytest.approx(np.mean(costs), rel=1e-12)


def test_the_defaults_are_the_blog_posts():
    params = CosineLoss(kind="cosine")
    assert (params.scale, params.norm_penalty) == (1, 1)


def test_gradients():
    inputs = vectors(3, 4).requires_grad_(), vectors(3, 4, seed=1)
    assert gradcheck(lambda *given: loss_of(0.7, *given, scale=0.5), inputs)


@pytest.mark.parametrize(("factor", "cost"), [(1.0, 0.0), (5.0, 0.0), (-2.0, 2.0)])
def test_only_the_direction_counts_without_a_penalty(factor, cost):
    target = vectors(3, 4)
    assert loss_of(0.0, factor * target, target).item() == pytest.approx(cost, abs=1e-12)


def test_the_penalty_is_the_mean_square_of_the_student_alone():
    ones = torch.ones(1, 3)
    assert loss_of(2.0, 3 * ones, 10 * ones).item() == pytest.approx(2 * 9, rel=1e-6)


@pytest.mark.parametrize("zero", ["student", "target"])
def test_a_zero_vector_costs_as_much_as_an_orthogonal_one_and_has_a_finite_gradient(zero):
    student, target = vectors(1, 4), vectors(1, 4, seed=1)
    (student if zero == "student" else target).zero_()
    loss = loss_of(0.0, student.requires_grad_(), target)
    loss.backward()
    assert loss.item() == 1
    assert student.grad.isfinite().all()
