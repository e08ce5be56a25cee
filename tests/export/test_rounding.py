import numpy as np
import pytest

from pipeline.export.rounding import PAIR, rounded


def correlated(tokens: int, width: int) -> np.ndarray:
    generator = np.random.default_rng(0)
    return generator.standard_normal((tokens, width)) @ generator.standard_normal((width, width)) / 4


def products(rows: np.ndarray) -> np.ndarray:
    return rows.T @ rows / len(rows)


def test_independent_channels_are_rounded_to_the_nearest_level():
    matrix = np.random.default_rng(1).standard_normal((6, 5)).astype(np.float32)
    levels, scales = rounded(matrix, np.diag([1.0, 5, 2, 3, 0.5, 4]))
    np.testing.assert_array_equal(levels, np.rint(matrix / scales))


def test_the_second_of_two_rows_takes_the_first_ones_error():
    """The exact minimum of (w - q)' H (w - q) over the second row, once the first is rounded; float64."""
    hessian = np.array([[4.0, 1.5], [1.5, 1.0]])
    matrix = np.random.default_rng(2).standard_normal((2, 40)).astype(np.float32)
    levels, scales = rounded(matrix, hessian)
    damped = hessian + np.eye(2) * 0.01 * np.diag(hessian).mean()
    off = matrix[0] - levels[0] * scales
    best = matrix[1].astype(np.float64) + damped[0, 1] / damped[1, 1] * off
    free = np.abs(levels.astype(int)).sum(axis=0) < PAIR
    assert free.sum() > 10
    np.testing.assert_array_equal(levels[0], np.rint(matrix[0] / scales))
    np.testing.assert_array_equal(levels[1][free], np.rint(best / scales)[free])


@pytest.mark.parametrize("width", [7, 96, 300])
def test_products_are_nearer_than_with_seven_bits_to_the_nearest(width):
    rows = correlated(2000, width)
    matrix = np.random.default_rng(3).standard_normal((width, 24)).astype(np.float32)
    levels, scales = rounded(matrix, products(rows[:1000]))
    sevenths = np.abs(matrix).max(axis=0) / 64
    nearest = np.rint(matrix / sevenths) * sevenths
    wanted, unseen = rows[1000:] @ matrix, rows[1000:]
    off = np.square(unseen @ (levels * scales) - wanted).mean()
    assert off < 0.4 * np.square(unseen @ nearest - wanted).mean()


@pytest.mark.parametrize("width", [7, 96])
def test_two_rows_of_one_sign_fit_16_bits_with_the_largest_activations(width):
    matrix = np.full((width, 3), 0.5, np.float32)
    matrix[:, 1] *= -1
    matrix[::3, 2] = 4
    levels, scales = rounded(matrix, products(correlated(50, width)))
    pairs = np.pad(levels.astype(int), ((0, width % 2), (0, 0))).reshape(-1, 2, 3)
    assert pairs.clip(min=0).sum(axis=1).max() <= PAIR
    assert pairs.clip(max=0).sum(axis=1).min() >= -PAIR
    np.testing.assert_allclose((levels * scales)[:, :2], matrix[:, :2], atol=0.03)


def test_channels_without_activations_and_columns_of_zeros_are_no_fault():
    matrix = np.random.default_rng(4).standard_normal((4, 3)).astype(np.float32)
    matrix[:, 1] = 0
    levels, scales = rounded(matrix, np.zeros((4, 4)))
    assert np.isfinite(scales).all()
    assert not levels[:, 1].any()
    np.testing.assert_allclose(levels * scales, matrix, atol=np.abs(matrix).max() / 100)


def test_onnxruntime_overflows_nowhere_on_this_processor():
    """The largest activations and pairs that are allowed; only without VNNI they could overflow."""
    from onnx import TensorProto, helper, numpy_helper
    from onnxruntime import InferenceSession

    levels = np.tile(np.array([[127, -127, 64], [1, -1, 64]], np.int8), (32, 1))
    rows = np.full((5, 64), 255, np.uint8)
    graph = helper.make_graph(
        [helper.make_node("MatMulInteger", ["rows", "levels"], ["sums"])],
        "pairs",
        [helper.make_tensor_value_info("rows", TensorProto.UINT8, [5, 64])],
        [helper.make_tensor_value_info("sums", TensorProto.INT32, [5, 3])],
        [numpy_helper.from_array(levels, "levels")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    session = InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    [found] = session.run(None, {"rows": rows})
    np.testing.assert_array_equal(found, rows.astype(int) @ levels.astype(int))
