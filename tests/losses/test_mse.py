import numpy as np
import pytest
import torch
from torch.autograd import gradcheck

from pipeline.core.params.students import MseLoss
from pipeline.losses.mse import build

VARIANTS = ("fixed", "paper", "code")


def loss_of(variant: str):
    return build(MseLoss.model_validate({"kind": "mse", "variant": variant}))


def vectors(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape))


@pytest.mark.parametrize(("variant", "divisor"), [("fixed", 1), ("paper", 1), ("code", 7)])
def test_the_equation_in_float64(variant, divisor):
    student, target = vectors(5, 7), vectors(5, 7, seed=1)
    by_hand = np.mean(
        [np.linalg.norm(s - t) ** 2 for s, t in zip(student.numpy(), target.numpy(), strict=True)]
    )
    assert loss_of(variant)(student, target).item() == pytest.approx(by_hand / divisor, rel=1e-12)


def test_fixed_is_the_default():
    assert MseLoss(kind="mse").variant == "fixed"


@pytest.mark.parametrize("variant", VARIANTS)
def test_gradients(variant):
    assert gradcheck(loss_of(variant), (vectors(3, 4).requires_grad_(), vectors(3, 4, seed=1)))


@pytest.mark.parametrize("variant", VARIANTS)
def test_equal_vectors_cost_nothing_and_pull_nowhere(variant):
    student = vectors(3, 4).requires_grad_()
    loss = loss_of(variant)(student, student.detach())
    loss.backward()
    assert loss.item() == 0
    assert student.grad.abs().max() == 0


def test_one_sentence_and_a_zero_vector():
    assert loss_of("paper")(torch.zeros(1, 2), torch.tensor([[3.0, 4.0]])).item() == 25
    assert loss_of("code")(torch.zeros(1, 2), torch.tensor([[3.0, 4.0]])).item() == 12.5
