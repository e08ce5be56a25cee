from itertools import combinations

import numpy as np
import pytest
from refusals import refuses

from pipeline.train.loop.guard import check_finite, saturated_kernels
from pipeline.vectors.collapse import SAMPLE_ROWS, check_collapse, describe


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
    with refuses("the targets of tiny", " 1.0000 ", "0.99)", "effective rank", "choose another view"):
        check_collapse(describe(vectors), "the targets of tiny", "choose another view")


def test_equal_vectors_are_a_collapse_too():
    with refuses("they", "effective rank 0.0"):
        check_collapse(describe(np.ones((5, 3))), "they", "x")


def test_a_student_of_targets_that_lie_close_together_may_lie_ten_times_closer():
    noise = np.random.default_rng(0).standard_normal((200, 8))
    targets, student, collapsed = (describe(np.full(8, 3.0) + share * noise) for share in (0.35, 0.2, 0.05))
    assert 0.98 < targets["mean_cosine"] < 0.99 < student["mean_cosine"] < collapsed["mean_cosine"]
    check_collapse(student, "they", "x", targets)
    for description, beside in ((student, None), (collapsed, targets)):
        with refuses("they ", "cosine", "; x"):
            check_collapse(description, "they", "x", beside)


def test_vectors_that_tell_sentences_apart_pass():
    check_collapse(describe(np.random.default_rng(0).standard_normal((20, 8))), "they", "x")


@pytest.mark.parametrize("loss", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize(
    ("block", "fix"),
    [
        ("train", "lower train.lr, set its clip_norm, "),
        ("finetune", "lower finetune.lr, "),
    ],
)
def test_a_loss_that_is_not_finite_names_the_step_and_the_fix(loss, block, fix):
    with refuses("the loss", f" {loss} ", "step 7;", fix, "precision: float32"):
        check_finite(loss, "the loss", 7, block)


def test_a_finite_loss_passes():
    check_finite(-3.0, "the loss", 0, "train")


@pytest.mark.parametrize(
    ("value", "saturated"),
    [(0.0, True), (0.005, True), (0.02, False), (0.5, False), (0.98, False), (0.995, True), (1.0, True)],
)
def test_a_saturated_kernel_is_told_with_what_to_change(capsys, value, saturated):
    found = saturated_kernels({"kernel_vectors": value, "kernel_inputs": 0.4}, "tiny")
    said = capsys.readouterr().err
    assert found == (["kernel_vectors"] if saturated else [])
    assert ("kernel_vectors of tiny" in said) == saturated
    assert not saturated or "set students.tiny.loss to variant: fixed, or another gamma" in said
    assert "kernel_inputs" not in said


def test_every_saturated_kernel_is_told_and_nothing_else_is_one(capsys):
    measures = {"kernel_inputs": 0.0, "kernel_vectors": 1.0, "loss_mse": 0.0}
    assert saturated_kernels(measures, "tiny") == ["kernel_inputs", "kernel_vectors"]
    assert len(capsys.readouterr().err.splitlines()) == 2
    assert saturated_kernels({}, "tiny") == []
