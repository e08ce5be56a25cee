import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist
from scipy.special import softmax
from scipy.stats import entropy
from small_batches import batch, context, vectors
from torch.autograd import gradcheck

from pipeline.params.losses import RelationalLoss
from pipeline.train.losses.relational import build

FORMS = ("mse", "mae", "kl")


def loss_of(form: str, student, target, temperature: float = 0.2):
    params = RelationalLoss.model_validate({"kind": "relational", "form": form, "temperature": temperature})
    return build(params, context())(batch(student, target))


def cosines(side: torch.Tensor) -> np.ndarray:
    """(n, n)."""
    return 1 - cdist(side.numpy(), side.numpy(), "cosine")


@pytest.mark.parametrize(("form", "power"), [("mse", 2), ("mae", 1)])
@pytest.mark.parametrize("target_dim", [7, 3])
def test_mse_and_mae_on_pair_cosines_in_float64(target_dim, form, power):
    student, target = vectors(5, 7), vectors(5, target_dim, seed=1)
    own, theirs = cosines(student), cosines(target)
    costs = [abs(own[i, j] - theirs[i, j]) ** power for i in range(5) for j in range(5) if i != j]
    assert loss_of(form, student, target).item() == pytest.approx(np.mean(costs), rel=1e-12)


@pytest.mark.parametrize("temperature", [0.05, 1.0])
@pytest.mark.parametrize("target_dim", [7, 3])
def test_kl_in_float64(target_dim, temperature):
    student, target = vectors(5, 7), vectors(5, target_dim, seed=1)
    costs = []
    for i in range(5):
        others = [j for j in range(5) if j != i]
        own, theirs = (softmax(cosines(side)[i, others] / temperature) for side in (student, target))
        costs.append(entropy(theirs, own))
    found = loss_of("kl", student, target, temperature).item()
    assert found == pytest.approx(np.mean(costs), rel=1e-10)


def test_squared_differences_are_the_default():
    params = RelationalLoss(kind="relational")
    assert (params.form, params.temperature) == ("mse", 0.05)


@pytest.mark.parametrize("form", FORMS)
def test_gradients(form):
    inputs = vectors(4, 3).requires_grad_(), vectors(4, 5, seed=1)
    assert gradcheck(lambda *given: loss_of(form, *given), inputs)


@pytest.mark.parametrize("form", FORMS)
def test_equal_rotated_and_longer_vectors_cost_nothing(form):
    student = vectors(5, 4)
    rotation = torch.linalg.qr(vectors(6, 4, seed=1)).Q.T  # (4, 6), of orthogonal rows
    lengths = 1 + vectors(5, 1, seed=2).abs()
    for target in (student, student @ rotation, lengths * student):
        assert loss_of(form, student, target).item() == pytest.approx(0, abs=1e-14)


@pytest.mark.parametrize("form", FORMS)
def test_steps_along_the_gradient_bring_the_similarities_together(form):
    student, target = vectors(6, 4).requires_grad_(), vectors(6, 9, seed=1)
    before = np.abs(cosines(student.detach()) - cosines(target)).max()
    optimizer = torch.optim.Adam([student], lr=0.02)
    for _ in range(200):
        optimizer.zero_grad()
        loss_of(form, student, target).backward()
        optimizer.step()
    assert np.abs(cosines(student.detach()) - cosines(target)).max() < before / 3


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("case", ["one", "two", "equal", "one zero", "all zero"])
def test_degenerate_batches_have_finite_values_and_gradients(form, case):
    rows = vectors({"one": 1, "two": 2}.get(case, 4), 3).float()
    if case == "equal":
        rows[:] = rows[0]
    rows[: {"one zero": 1, "all zero": 4}.get(case, 0)] = 0
    student = rows.clone().requires_grad_()
    loss = loss_of(form, student, vectors(len(rows), 3, seed=1).float())
    loss.backward()
    assert loss.isfinite()
    assert student.grad.isfinite().all()
    assert (loss.item() == pytest.approx(0, abs=1e-7)) == (case == "one" or (form, case) == ("kl", "two"))


def test_it_needs_the_whole_batch():
    params = RelationalLoss(kind="relational")
    loss = build(params, context())
    assert (loss.over, loss.of_vectors, list(loss.parameters())) == ("batch", True, [])
