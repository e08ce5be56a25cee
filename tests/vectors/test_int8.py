import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from pipeline.vectors.sets import int8

VECTORS = (
    np.random.default_rng(0).normal(size=(500, 7)) * [1, 9, 0.02, 1e-6, 3, 0, 1] + [0, 2, 0, 0, -30, 0, 1]
).astype(np.float16)
VECTORS[3] = 0


@given(
    arrays(
        np.float16,
        array_shapes(min_dims=2, max_dims=2, min_side=0, max_side=6),
        elements=st.floats(width=16, allow_nan=False, allow_infinity=False),
    )
)
def test_a_value_is_off_by_half_a_step_of_its_vector_at_most(vectors):
    levels, scale = int8.quantise(vectors)
    assert (levels.dtype, levels.shape, scale.dtype, scale.shape) == (
        np.int8,
        vectors.shape,
        np.float32,
        vectors.shape[:1],
    )
    exact, steps = vectors.astype(np.float64), scale.astype(np.float64)[:, None]
    rounding = 1e-5 * steps  # of float32
    assert (np.abs(exact - levels * steps) <= steps / 2 + rounding).all()
    read = int8.dequantise(levels, scale)
    assert read.dtype == np.float16
    halves = np.spacing(np.maximum(np.abs(vectors), np.abs(read))).astype(np.float64)
    assert (np.abs(exact - read) <= steps / 2 + rounding + halves / 2).all()


def test_the_largest_magnitude_of_a_vector_is_127_steps_and_kept():
    levels, scale = int8.quantise(np.array([[65504, -1], [-1, 0.5], [6e-8, 0]], np.float16))
    np.testing.assert_allclose(scale, [65504 / 127, 1 / 127, 2**-24 / 127], rtol=1e-6)
    assert levels.tolist() == [[127, 0], [-127, 64], [127, 0]]
    assert int8.dequantise(levels, scale)[:, 0].tolist() == [65504, -1, 2**-24]


def test_zeros_stay_zeros_and_a_vector_of_them_has_scale_1():
    levels, scale = int8.quantise(VECTORS)
    read = int8.dequantise(levels, scale)
    assert scale[3] == 1
    assert not read[3].any()
    assert not read[:, 5].any()
    assert np.isfinite(read).all()


def test_a_vector_is_the_same_in_whatever_company_and_when_it_is_rounded_again(monkeypatch):
    whole, again = int8.pack(VECTORS), int8.pack(int8.pack(VECTORS).restored())
    monkeypatch.setattr(int8, "ROWS_AT_A_TIME", 33)
    alone = int8.empty(*VECTORS.shape)
    for row in range(len(VECTORS)):
        alone.put(np.array([row]), int8.pack(VECTORS[row : row + 1]))
    for name in ("levels", "scale", "cosine", "error"):
        assert getattr(alone, name).tobytes() == getattr(whole, name).tobytes()
        assert getattr(int8.pack(VECTORS), name).tobytes() == getattr(whole, name).tobytes()
    assert again.restored().tobytes() == whole.restored().tobytes()


def lost(vectors, read):
    """The definitions, row by row in float64."""
    cosines, errors, squares = [], 0.0, 0.0
    for one, other in zip(vectors.astype(np.float64), read.astype(np.float64), strict=True):
        length = np.linalg.norm(one) * np.linalg.norm(other)
        cosines.append(one @ other / length if length else float(not one.any()))
        errors += float(np.sum((one - other) ** 2))
        squares += float(np.sum(one**2))
    return {
        "mean_cosine": np.mean(cosines),
        "least_cosine": np.min(cosines),
        "relative_rmse": np.sqrt(errors / squares),
    }


def test_the_loss_of_several_parts_is_that_of_all_rows():
    packed = int8.pack(VECTORS)
    read = packed.restored()
    cuts = ((0, 2), (2, 2), (2, 300), (300, 500))
    parts = [int8.measure(packed[start:stop]) for start, stop in cuts]
    assert int8.loss(parts) == pytest.approx(lost(VECTORS, read), rel=1e-4)
    assert 1e-6 < 1 - int8.loss(parts)["mean_cosine"] < 1e-3
    assert int8.loss(parts) == int8.loss(parts[::-1])


def test_a_vector_that_becomes_zero_loses_its_direction_and_zero_loses_nothing():
    one = np.array([[1, 0], [0, 0], [0, 2]], np.float16)
    other = np.array([[0, 0], [0, 0], [0, 1]], np.float16)
    cosines, errors = int8.lost(one, other)
    assert (cosines.tolist(), errors.tolist()) == ([0, 1, 1], [1, 0, 1])


def test_nothing_is_lost_by_no_rows_and_by_zeros():
    nothing = {"mean_cosine": 1.0, "least_cosine": 1.0, "relative_rmse": 0.0}
    zeros = np.zeros((3, 2), np.float16)
    assert int8.loss([]) == int8.loss([int8.measure(int8.pack(zeros))]) == nothing


def test_metadata_bring_back_the_sums_to_the_bit():
    views = {"cls": int8.pack(-VECTORS[:, :3]), "sentence": int8.pack(VECTORS)}
    metadata = int8.metadata(views)
    for view, packed in views.items():
        assert int8.sums_of(metadata, view) == int8.measure(packed)
