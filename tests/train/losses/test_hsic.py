import numpy as np
import pytest
import torch
from small_batches import batch, context, vectors
from torch.autograd import gradcheck
from torch.nn.functional import normalize

from pipeline.params.losses import HsicLoss
from pipeline.train.losses.shared.hsic import CODE_GAMMA_FINETUNING, Hsic, build, squared_distances

KERNELS = ("rbf", "imq", "linear")
VARIANTS = ("fixed", "paper", "code")
DEFAULT_GAMMA = {"paper": 0.5, "code": 1.0}


def loss_of(kernel: str = "rbf", variant: str = "fixed", gamma: float | None = None) -> Hsic:
    params = {"kind": "hsic", "kernel": kernel, "variant": variant, "gamma": gamma}
    return build(HsicLoss.model_validate(params), context())


def value(loss: Hsic, inputs, student):
    return loss(batch(student, inputs=inputs))


def lower_median_gamma(rows: np.ndarray) -> float:
    pairs = [(rows[i] - rows[j]) @ (rows[i] - rows[j]) for i in range(len(rows)) for j in range(i)]
    return 1 / (2 * sorted(pairs)[(len(pairs) - 1) // 2])


def kernel_by_hand(side: np.ndarray, kernel: str, variant: str, gamma: float | None) -> np.ndarray:
    if variant == "fixed" or (variant, kernel) == ("code", "linear"):
        side = side / np.linalg.norm(side, axis=1)[:, None]
    gamma = gamma or DEFAULT_GAMMA.get(variant) or lower_median_gamma(side)

    def k(a, b):
        square = np.sum((a - b) ** 2)
        if kernel == "imq":
            return 1 / np.sqrt(gamma + square) if variant == "code" else 1 / np.sqrt(1 + gamma * square)
        return np.exp(-gamma * square) if kernel == "rbf" else a @ b

    return np.array([[k(a, b) for b in side] for a in side])


def hsic_by_hand(inputs, student, kernel, variant, gammas) -> float:
    rows = len(inputs)
    h = np.eye(rows) - np.ones((rows, rows)) / rows
    k_x, k_s = (
        kernel_by_hand(side, kernel, variant, g) for side, g in zip((inputs, student), gammas, strict=True)
    )
    return np.trace(k_x @ h @ k_s @ h) / (rows - 1 if variant == "code" else rows) ** 2


@pytest.mark.parametrize("gamma", [None, 0.3])
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_the_equation_in_float64(kernel, variant, gamma):
    inputs, student = vectors(6, 5), vectors(6, 3, seed=1)
    expected = hsic_by_hand(inputs.numpy(), student.numpy(), kernel, variant, (gamma, gamma))
    found = value(loss_of(kernel, variant, gamma), inputs, student).item()
    assert found == pytest.approx(expected, rel=1e-9)


def test_rbf_and_fixed_are_the_defaults():
    params = HsicLoss(kind="hsic")
    assert (params.kernel, params.variant, params.gamma) == ("rbf", "fixed", None)


def test_fine_tuning_has_the_codes_other_gamma():
    inputs, student = vectors(6, 5), vectors(6, 3, seed=1)
    params = HsicLoss(kind="hsic", variant="code")
    found = Hsic(params, CODE_GAMMA_FINETUNING).of(inputs, student).item()
    expected = hsic_by_hand(inputs.numpy(), student.numpy(), "rbf", "code", (0.1, 0.1))
    assert found == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(("variant", "gamma"), [("fixed", 0.3), ("paper", None), ("code", None)])
def test_gradients_of_both_sides(kernel, variant, gamma):
    given = vectors(4, 3).requires_grad_(), vectors(4, 2, seed=1).requires_grad_()
    assert gradcheck(lambda *sides: value(loss_of(kernel, variant, gamma), *sides), given)


def test_no_gradient_goes_through_the_medians_gamma():
    inputs, student = vectors(5, 3), vectors(5, 2, seed=1).requires_grad_()
    value(loss_of(), inputs, student).backward()
    at, step = student.detach().numpy(), 1e-5
    gammas = [
        lower_median_gamma(side / np.linalg.norm(side, axis=1)[:, None]) for side in (inputs.numpy(), at)
    ]
    for row, column in np.ndindex(at.shape):
        moved = np.zeros_like(at)
        moved[row, column] = step
        up, down = (
            hsic_by_hand(inputs.numpy(), at + side * moved, "rbf", "fixed", gammas) for side in (1, -1)
        )
        assert student.grad[row, column].item() == pytest.approx((up - down) / (2 * step), abs=1e-9)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("case", ["one", "equal", "nearly equal", "mostly equal", "one zero", "all zero"])
def test_degenerate_batches_have_finite_values_and_gradients(case, kernel, variant):
    rows = vectors(1 if case == "one" else 6, 4).float()
    if case in ("equal", "nearly equal"):
        rows = rows[:1] + (case == "nearly equal") * 1e-7 * rows
    if case == "mostly equal":
        rows[1:] = rows[1]
    rows[: {"one zero": 1, "all zero": 6}.get(case, 0)] = 0
    inputs, student = rows.clone().requires_grad_(), rows.clone().requires_grad_()
    loss = value(loss_of(kernel, variant), inputs, student)
    loss.backward()
    assert inputs.grad.isfinite().all()
    assert student.grad.isfinite().all()
    assert loss.item() == pytest.approx(0, abs=1e-9) or case in ("one zero", "mostly equal")


@pytest.mark.parametrize("kernel", ["rbf", "imq"])
def test_measures_are_the_mean_kernels_of_different_sentences(kernel):
    inputs, student = vectors(6, 5), vectors(6, 3, seed=1)
    loss = loss_of(kernel)
    assert loss.measures() == {}
    value(loss, inputs, student)
    value(loss, inputs[:1], student[:1])
    for name, side in (("kernel_inputs", inputs), ("kernel_vectors", student)):
        k = kernel_by_hand(side.numpy(), kernel, "fixed", None)
        assert loss.measures()[name] == pytest.approx(np.mean(k[~np.eye(6, dtype=bool)]), rel=1e-9)


def test_a_kernel_that_is_more_than_one_of_equal_sentences_is_no_saturated_one():
    inputs = 0.5 * normalize(vectors(64, 16), dim=1)
    loss = Hsic(HsicLoss(kind="hsic", kernel="imq", variant="code"), CODE_GAMMA_FINETUNING)
    value(loss, inputs, inputs)
    k = kernel_by_hand(inputs.numpy(), "imq", "code", CODE_GAMMA_FINETUNING)
    different = np.mean(k[~np.eye(64, dtype=bool)])
    assert loss.measures()["kernel_inputs"] == pytest.approx(different / k[0, 0], rel=1e-9)
    assert loss.measures()["kernel_inputs"] < 0.9


def test_a_linear_kernel_cannot_saturate_and_raises_no_alarm():
    value(loss := loss_of("linear"), vectors(6, 5), vectors(6, 3, seed=1))
    assert loss.measures() == {}


def test_a_dead_regulariser_shows_and_fixed_is_none():
    """What the variants' gammas are on vectors of usual length."""
    inputs, student = 3 * vectors(16, 64), 3 * vectors(16, 32, seed=1)
    for variant in ("paper", "code"):
        value(loss := loss_of("rbf", variant), inputs, student)
        assert max(loss.measures().values()) < 0.01
    value(loss := loss_of(), inputs, student)
    assert all(0.3 < mean < 0.9 for mean in loss.measures().values())


def test_vectors_that_lie_close_together_keep_their_differences_in_float32():
    inputs, student = (100 + vectors(8, 5, seed=seed) for seed in (0, 1))
    exact = value(loss_of("rbf", "paper"), inputs, student).item()
    inputs, student = inputs.float(), student.float()
    assert value(loss_of("rbf", "paper"), inputs, student).item() == pytest.approx(exact, rel=1e-4)


def test_no_squared_distance_is_negative_where_rounding_would_make_it():
    rows = vectors(50, 30).float()
    distances = squared_distances(torch.cat([rows, rows * (1 + 1e-7)]))
    assert distances.min() == 0
    assert distances.diagonal().max() == 0


def test_it_needs_the_whole_batch_and_the_inputs():
    assert (loss_of().over, loss_of().needs_inputs, loss_of().needs_embedded) == ("batch", True, False)
