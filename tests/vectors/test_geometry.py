from itertools import combinations

import numpy as np
import pytest
from scipy.spatial.distance import cosine
from scipy.stats import spearmanr

from pipeline.vectors.space.geometry import (
    AGREEMENT_ROWS,
    agreement,
    cosines,
    effective_rank,
    mean_pairwise_cosine,
    normalised,
)

RNG = np.random.default_rng(0)
VECTORS = (RNG.normal(size=(40, 6)) * [5, 3, 1, 1, 0.5, 0.1] + [1, 0, 2, 0, 0, 0]).astype(np.float32)


def test_rows_are_brought_to_length_1_and_a_zero_row_stays():
    rows = normalised(np.float16([[3, 4], [0, 0], [-2, 0]]))
    assert rows.dtype == np.float64
    np.testing.assert_allclose(rows, [[0.6, 0.8], [0, 0], [-1, 0]])


def test_cosines_are_scipys_row_by_row():
    left, right = VECTORS[:20], VECTORS[20:]
    expected = [1 - cosine(a.astype(float), b.astype(float)) for a, b in zip(left, right, strict=True)]
    np.testing.assert_allclose(cosines(left, right), expected, atol=1e-12)


@pytest.mark.parametrize("with_zero_rows", [False, True])
def test_mean_pairwise_cosine_is_the_mean_over_all_pairs_of_different_rows(with_zero_rows):
    vectors = VECTORS.copy()
    if with_zero_rows:
        vectors[[3, 9]] = 0
    pairs = []
    for i, a in enumerate(vectors.astype(np.float64)):
        for j, b in enumerate(vectors.astype(np.float64)):
            if i != j:
                pairs.append(a @ b / max(np.linalg.norm(a) * np.linalg.norm(b), 1e-300))
    assert mean_pairwise_cosine(vectors) == pytest.approx(np.mean(pairs), abs=1e-12)


def test_collapsed_and_opposite_vectors():
    assert mean_pairwise_cosine(np.tile(VECTORS[:1], (50, 1))) == pytest.approx(1)
    assert mean_pairwise_cosine(np.array([[1.0, 0], [-3, 0]])) == pytest.approx(-1)


def test_effective_rank_is_the_exponential_of_the_singular_values_entropy():
    centred = VECTORS.astype(np.float64) - VECTORS.astype(np.float64).mean(axis=0)
    singular = np.sqrt(np.linalg.eigvalsh(centred.T @ centred))
    shares = singular / singular.sum()
    assert effective_rank(VECTORS) == pytest.approx(np.prod(shares**-shares), rel=1e-9)


@pytest.mark.parametrize("rank", [1, 2, 5])
def test_equal_variance_in_r_directions_has_effective_rank_r(rank):
    axes = 3 * np.eye(8)[:rank] @ np.linalg.qr(RNG.normal(size=(8, 8)))[0]
    assert effective_rank(np.concatenate([axes, -axes]) + 10) == pytest.approx(rank)


def test_effective_rank_knows_neither_scale_nor_place():
    assert effective_rank(VECTORS * 100.0 - 7.0) == pytest.approx(effective_rank(VECTORS), rel=1e-5)


@pytest.mark.parametrize("rows", [2, 50])
@pytest.mark.parametrize("kind", [np.float16, np.float32])
def test_equal_rows_have_effective_rank_0(rows, kind):
    assert effective_rank(np.tile(VECTORS[:1], (rows, 1)).astype(kind)) == 0


def test_many_equal_rows_in_float64_have_effective_rank_0():
    row = np.random.default_rng(1).normal(size=32)
    assert effective_rank(np.tile(row, (1000, 1))) == 0


def agreement_by_hand(vectors, teacher):
    """Over all pairs, one at a time."""
    pairs = list(combinations(range(len(vectors)), 2))
    sides = [
        [1 - cosine(side[i].astype(float), side[j].astype(float)) for i, j in pairs]
        for side in (vectors, teacher)
    ]
    return spearmanr(*sides).statistic


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_agreement_is_scipys_rank_correlation_over_all_pairs(kind):
    random = np.random.default_rng(1)
    noisy = (VECTORS @ random.normal(size=(6, 9)) + 3 * random.normal(size=(40, 9))).astype(kind)
    expected = agreement_by_hand(noisy, VECTORS)
    assert 0.2 < expected < 0.95
    assert agreement(noisy, VECTORS) == pytest.approx(expected, abs=1e-9)


def test_agreement_of_ties_is_scipys():
    signs = np.sign(VECTORS[:, :3])
    assert agreement(signs, VECTORS) == pytest.approx(agreement_by_hand(signs, VECTORS), abs=1e-9)


def test_agreement_knows_neither_scale_nor_rotation_nor_dimension():
    rotation = np.linalg.qr(RNG.normal(size=(6, 6)))[0]
    assert agreement(3 * VECTORS @ rotation, VECTORS) == pytest.approx(1, abs=1e-6)
    assert agreement(np.pad(VECTORS, ((0, 0), (0, 2))), VECTORS) == pytest.approx(1)


def test_opposite_orders_agree_by_minus_1():
    angles = np.radians([0, 10, 70])
    right = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    assert agreement(right, right[[0, 2, 1]]) == pytest.approx(-1)


@pytest.mark.parametrize("flat", ["student", "teacher", "both"])
def test_where_all_cosines_are_equal_there_is_no_agreement(flat):
    one = np.tile([1.0, 0.0], (5, 1))
    student = one if flat in ("student", "both") else VECTORS[:5]
    teacher = one if flat in ("teacher", "both") else VECTORS[:5]
    assert agreement(student, teacher) == 0


def test_two_rows_are_one_pair_and_have_no_order():
    assert agreement(VECTORS[:2], VECTORS[2:4]) == 0


def test_agreement_is_of_the_first_rows():
    own, theirs = RNG.normal(size=(2, AGREEMENT_ROWS + 20, 3))
    kept = slice(AGREEMENT_ROWS)
    assert agreement(own, theirs) == agreement(own[kept], theirs[kept])
    shorter = agreement(own[: AGREEMENT_ROWS - 1], theirs[: AGREEMENT_ROWS - 1])
    assert agreement(own, theirs) != shorter
