import numpy as np
import pytest
from scipy.linalg import orthogonal_procrustes
from sklearn.linear_model import Ridge

from pipeline.train.students.shared.ridge import orthogonal, ridge


def data(rows: int = 40) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    inputs = random.standard_normal((rows, 6)) * random.uniform(0.1, 5, 6) + random.standard_normal(6)
    return inputs, inputs @ random.standard_normal((6, 3)) + random.standard_normal((rows, 3)) + 2


@pytest.mark.parametrize("penalty", [1e-3, 0.5, 10.0])
def test_equals_scikit_learn_with_the_penalty_scaled_by_rows_and_variance(penalty):
    inputs, targets = data()
    reference = Ridge(alpha=penalty * len(inputs) * inputs.var(axis=0).mean()).fit(inputs, targets)
    weights, bias = ridge(inputs, targets, penalty)
    np.testing.assert_allclose(weights, reference.coef_.T, rtol=1e-9)
    np.testing.assert_allclose(bias, reference.intercept_, rtol=1e-9)


@pytest.mark.parametrize("penalty", [1e-3, 0.5])
def test_without_a_bias_it_equals_scikit_learn_without_an_intercept(penalty):
    inputs, targets = data()
    alpha = penalty * np.square(inputs).sum(axis=0).mean()
    reference = Ridge(alpha=alpha, fit_intercept=False).fit(inputs, targets)
    weights, bias = ridge(inputs, targets, penalty, bias=False)
    np.testing.assert_allclose(weights, reference.coef_.T, rtol=1e-9)
    np.testing.assert_array_equal(bias, np.zeros(3))


def test_the_scale_of_the_inputs_does_not_change_the_predictions():
    inputs, targets = data()
    weights, bias = ridge(inputs, targets, 0.1)
    scaled_weights, scaled_bias = ridge(1000 * inputs, targets, 0.1)
    np.testing.assert_allclose(inputs @ weights + bias, 1000 * inputs @ scaled_weights + scaled_bias)


def test_float32_input_is_solved_in_float64():
    inputs, targets = (array.astype(np.float32) for array in data())
    weights, _ = ridge(inputs, targets, 1e-3)
    assert weights.dtype == np.float64
    np.testing.assert_array_equal(
        weights, ridge(inputs.astype(np.float64), targets.astype(np.float64), 1e-3)[0]
    )


def test_fewer_rows_than_dimensions_still_have_a_solution():
    inputs, targets = data(rows=3)
    weights, bias = ridge(inputs, targets, 1e-6)
    np.testing.assert_allclose(inputs @ weights + bias, targets, atol=1e-3)


def test_constant_inputs_predict_the_mean_target():
    targets = data()[1]
    weights, bias = ridge(np.ones((len(targets), 6)), targets, 1e-3)
    np.testing.assert_allclose(np.ones(6) @ weights + bias, targets.mean(axis=0))


def test_a_turn_between_equal_dimensions_is_scipys():
    inputs, _ = data()
    targets = data(rows=41)[0][:40]
    turn, _ = orthogonal_procrustes(inputs, targets)
    found = orthogonal(inputs, targets)
    np.testing.assert_allclose(found / np.linalg.norm(found, axis=1, keepdims=True), turn, atol=1e-9)
    factors = np.linspace(0.5, 2, 61) * np.linalg.norm(found[0])
    errors = [np.square(factor * inputs @ turn - targets).sum() for factor in factors]
    assert np.square(inputs @ found - targets).sum() <= min(errors) + 1e-9


def test_a_turn_to_more_dimensions_keeps_all_cosines_and_finds_one_that_was_made():
    inputs, _ = data()
    made = np.linalg.qr(np.random.default_rng(1).standard_normal((9, 6)))[0].T
    found = orthogonal(inputs, 3 * inputs @ made)
    np.testing.assert_allclose(found, 3 * made, atol=1e-9)
    noisy = orthogonal(inputs, inputs @ made + np.random.default_rng(2).standard_normal((40, 9)))
    np.testing.assert_allclose(noisy @ noisy.T, np.square(noisy[0]).sum() * np.eye(6), atol=1e-9)


def test_inputs_of_zeros_turn_to_zeros():
    assert np.isfinite(orthogonal(np.zeros((4, 2)), np.ones((4, 3)))).all()
