import numpy as np
import pytest
import torch
from small_batches import batch, context, vectors
from torch.autograd import gradcheck

from pipeline.params.losses import MseLoss
from pipeline.train.losses.mse import build

VARIANTS = ("fixed", "paper", "code")


def loss_of(variant: str, student, target):
    loss = build(MseLoss.model_validate({"kind": "mse", "variant": variant}), context())
    return loss(batch(student, target))


@pytest.mark.parametrize(("variant", "divisor"), [("fixed", 1), ("paper", 1), ("code", 7)])
def test_the_equation_in_float64(variant, divisor):
    student, target = vectors(5, 7), vectors(5, 7, seed=1)
    by_hand = np.mean(
        [np.linalg.norm(s - t) ** 2 for s, t in zip(student.numpy(), target.numpy(), strict=True)]
    )
    assert loss_of(variant, student, target).item() == pytest.approx(by_hand / divisor, rel=1e-12)


def test_fixed_is_the_default():
    assert MseLoss(kind="mse").variant == "fixed"


@pytest.mark.parametrize("variant", VARIANTS)
def test_gradients(variant):
    inputs = vectors(3, 4).requires_grad_(), vectors(3, 4, seed=1)
    assert gradcheck(lambda *given: loss_of(variant, *given), inputs)


@pytest.mark.parametrize("variant", VARIANTS)
def test_equal_vectors_cost_nothing_and_pull_nowhere(variant):
    student = vectors(3, 4).requires_grad_()
    loss = loss_of(variant, student, student.detach())
    loss.backward()
    assert loss.item() == 0
    assert student.grad.abs().max() == 0


def test_one_sentence_and_a_zero_vector():
    assert loss_of("paper", torch.zeros(1, 2), torch.tensor([[3.0, 4.0]])).item() == 25
    assert loss_of("code", torch.zeros(1, 2), torch.tensor([[3.0, 4.0]])).item() == 12.5
