import numpy as np
import pytest

from pipeline.score.significance import comparison

TEACHER = {"a": np.array([0.8, 0.7, 0.9, 0.8, 0.8]), "b": np.array([0.5, 0.4, 0.6, 0.5, 0.5])}
STUDENT = {"a": np.array([0.6, 0.5, 0.7, 0.5, 0.7]), "b": np.array([0.4, 0.2, 0.6, 0.5, 0.3])}
BOTH = ["a", "b"]


def test_the_average_and_what_is_kept_are_of_each_resample():
    np.testing.assert_allclose(comparison.average(STUDENT, BOTH), [0.5, 0.35, 0.65, 0.5, 0.5])
    expected = [(0.6 / 0.8 + 0.4 / 0.5) / 2, (5 / 7 + 0.5) / 2, (7 / 9 + 1) / 2]
    np.testing.assert_allclose(comparison.kept(STUDENT, TEACHER, BOTH)[:3], expected)
    np.testing.assert_allclose(comparison.kept(TEACHER, TEACHER, BOTH), 1)


def test_a_task_may_stay_out_of_the_average():
    np.testing.assert_allclose(comparison.average(STUDENT, ["b"]), STUDENT["b"])
    np.testing.assert_allclose(comparison.kept(STUDENT, TEACHER, ["b"]), STUDENT["b"] / TEACHER["b"])
    alone = comparison.intervals(STUDENT, TEACHER, ["b"], 0.5)
    assert alone["average"] == alone["b"] != alone["a"]


def test_intervals_are_the_middle_of_the_resamples():
    found = comparison.intervals(STUDENT, TEACHER, BOTH, 0.5)
    assert set(found) == {"a", "b", "average", "kept"}
    # A half in the middle of 0.5, 0.5, 0.7, 0.7, and of 0.2, 0.3, 0.5, 0.6.
    assert found["a"] == pytest.approx([0.5, 0.7])
    assert found["b"] == pytest.approx([0.275, 0.525])


@pytest.mark.parametrize("place", [0, 3])
def test_nothing_is_kept_of_a_teacher_that_scores_nothing_in_some_resample(place):
    teacher = {**TEACHER, "b": TEACHER["b"].copy()}
    teacher["b"][place] = 0
    assert comparison.kept(STUDENT, teacher, BOTH) is None
    assert comparison.intervals(STUDENT, teacher, BOTH, 0.5)["kept"] is None


def test_paired_differences_are_by_task_and_on_average():
    rows = comparison.paired("s", "teacher", (STUDENT, TEACHER), BOTH, 0.5)
    assert [row["task"] for row in rows] == ["a", "b", "average"]
    assert {row["student"] for row in rows} == {"s"}
    a = rows[0]
    assert (a["difference"], a["low"], a["high"]) == pytest.approx((-0.2, -0.225, -0.175))
    # Differences are negative in all four resamples: p = 2 (0 + 1) / (4 + 1).
    assert a["p"] == pytest.approx(0.4)
    assert rows[2]["difference"] == pytest.approx(-0.15)
    itself = comparison.paired("s", "s", (STUDENT, STUDENT), BOTH, 0.5)
    assert {(row["difference"], row["p"]) for row in itself} == {(0.0, 1.0)}


def test_the_best_meets_all_others_and_each_other_the_next_best():
    names = {"low": 0.3, "best": 0.9, "same": 0.5, "also": 0.5}
    students = {name: {"t": np.full(3, score)} for name, score in names.items()}
    assert comparison.opponents(students, ["t"]) == {
        "best": ["same", "also", "low"],
        "same": ["also"],
        "also": ["low"],
        "low": [],
    }
    assert comparison.opponents({"one": students["low"]}, ["t"]) == {"one": []}
