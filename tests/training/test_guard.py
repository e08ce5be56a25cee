from itertools import combinations

import numpy as np
import pytest

from pipeline.core.errors import UserError
from pipeline.training.guard import SAMPLE_ROWS, check_collapse, check_loss, describe


def test_describe_by_hand():
    vectors = np.random.default_rng(0).standard_normal((6, 4))
    lengths = np.linalg.norm(vectors, axis=1)
    cosines = [vectors[i] @ vectors[j] / lengths[i] / lengths[j] for i, j in combinations(range(6), 2)]
    found = describe(vectors)
    assert found["norm"] == pytest.approx(lengths.mean())
    assert found["mean_cosine"] == pytest.approx(np.mean(cosines))
    assert 1 < found["effective_rank"] <= 4


def test_describe_looks_at_the_first_rows():
    first = np.random.default_rng(0).standard_normal((SAMPLE_ROWS, 2))
    assert describe(np.concatenate([first, np.full((3, 2), 1e6)])) == describe(first)


def test_collapsed_vectors_stop_the_run_and_the_fix_is_said():
    vectors = 5 + 0.01 * np.random.default_rng(0).standard_normal((20, 8))
    expected = (
        r"^the targets of tiny have collapsed: their mean pairwise cosine is 1\.000 \(limit 0\.99\), "
        r"effective rank \d\.\d; choose another view$"
    )
    with pytest.raises(UserError, match=expected):
        check_collapse(describe(vectors), "the targets of tiny", "choose another view")


def test_equal_vectors_are_a_collapse_too():
    with pytest.raises(UserError, match=r"effective rank 0\.0"):
        check_collapse(describe(np.ones((5, 3))), "they", "x")


def test_vectors_that_tell_sentences_apart_pass():
    check_collapse(describe(np.random.default_rng(0).standard_normal((20, 8))), "they", "x")


@pytest.mark.parametrize("loss", [float("nan"), float("inf"), float("-inf")])
def test_a_loss_that_is_not_finite_names_the_student_the_step_and_the_fix(loss):
    with pytest.raises(
        UserError, match=rf"the loss of tiny is {loss} at step 7; lower students\.tiny\.train\.lr"
    ):
        check_loss(loss, 7, "tiny")


def test_a_finite_loss_passes():
    check_loss(-3.0, 0, "tiny")
