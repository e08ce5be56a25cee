"""Which students the page recommends, and what it says of those that no test tells apart."""

from itertools import combinations, permutations

import pytest
from sample_report import sample_report

from pipeline.report import recommend
from pipeline.report.differences import caveats
from pipeline.report.inputs import Comparison, Significance
from pipeline.report.leaderboard import Leaderboard, Row


@pytest.fixture(scope="module")
def sample():
    return sample_report().board


def student(sample, name, average, megabytes=10.0, parameters=1_000_000, latency=1.0):
    known = sample.teacher.size
    size = known.model_copy(
        update={"megabytes": megabytes, "parameters": parameters, "latency_ms_p50": latency}
    )
    return Row(name, "shipped", 8, (average,), average, 0.9, size)


def board(sample, *students):
    return Leaderboard(sample.tasks, (sample.teacher, *students))


def paired_tests(rows, margin=0.05, left_out=()):
    """A paired test of each two models, whose difference is real beyond the margin."""
    paired = [
        Comparison(
            student=one.model,
            other=other.model,
            task="average",
            difference=one.average - other.average,
            low=one.average - other.average - margin,
            high=one.average - other.average + margin,
            p=0.5,
        )
        for one, other in combinations(rows, 2)
        if {one.model, other.model} not in left_out
    ]
    return Significance(samples=9, confidence=0.95, intervals={}, metrics={}, paired=tuple(paired))


def picks(shown, **options):
    return [(p.row.model, p.reasons) for p in recommend.picks(shown, paired_tests(shown.shipped, **options))]


def test_without_ties_the_best_the_fastest_and_the_smallest_are_named(sample):
    best = student(sample, "best", 0.9, 50, latency=5.0)
    fast = student(sample, "fast", 0.6, 30, latency=0.1)
    small = student(sample, "small", 0.5, 2, latency=1.0)
    expected = [("best", ("best quality",)), ("fast", ("fastest",)), ("small", ("smallest",))]
    for order in permutations([best, fast, small]):
        assert picks(board(sample, *order)) == expected


@pytest.mark.parametrize("small_is_better", [True, False])
def test_of_two_equals_the_smaller_is_recommended_in_either_order(sample, small_is_better):
    small = student(sample, "small", 0.51 if small_is_better else 0.50, 38, latency=4.0)
    large = student(sample, "large", 0.50 if small_is_better else 0.51, 71, latency=3.9)
    for order in permutations([small, large]):
        assert picks(board(sample, *order))[0] == ("small", ("best quality", "smallest"))


def test_a_smaller_student_that_is_significantly_worse_is_not_recommended_for_quality(sample):
    rows = [
        student(sample, "large", 0.51, 71),
        student(sample, "middle", 0.50, 38),
        student(sample, "worse", 0.45, 8, latency=0.1),
    ]
    for order in permutations(rows):
        assert picks(board(sample, *order)) == [
            ("middle", ("best quality",)),
            ("worse", ("fastest", "smallest")),
        ]


def test_an_interval_that_ends_at_zero_tells_nothing_apart(sample):
    shown = board(sample, student(sample, "large", 0.75, 71), student(sample, "small", 0.5, 38))
    assert picks(shown, margin=0.25)[0][0] == "small"
    assert picks(shown, margin=0.2499)[0][0] == "large"


@pytest.mark.parametrize(
    ("cheaper", "dearer"),
    [
        ({"megabytes": 9.0, "parameters": 2, "latency": 2.0}, {"parameters": 1}),
        ({"parameters": 1, "latency": 2.0}, {"parameters": 2}),
        ({"latency": 1.0}, {"latency": 1.5}),
    ],
)
def test_cheapest_is_by_size_then_parameters_then_speed(sample, cheaper, dearer):
    rows = [student(sample, "cheaper", 0.50, **cheaper), student(sample, "dearer", 0.51, **dearer)]
    for order in permutations(rows):
        assert picks(board(sample, *order))[0][0] == "cheaper"


def test_a_single_student_is_recommended_for_everything(sample):
    shown = board(sample, student(sample, "only", 0.4))
    assert picks(shown) == [("only", ("best quality", "fastest", "smallest"))]
    assert caveats(shown, paired_tests(shown.shipped)) == []


def test_a_student_that_no_test_compares_with_the_best_does_not_count_as_equal(sample):
    shown = board(sample, student(sample, "large", 0.51, 71), student(sample, "small", 0.50, 38))
    left_out = [{"large", "small"}]
    assert picks(shown, left_out=left_out)[0][0] == "large"
    assert caveats(shown, paired_tests(shown.shipped, left_out=left_out)) == [
        "No test compares large with small."
    ]


def test_of_equal_averages_the_best_is_the_one_that_is_tested_against_most(sample):
    rows = [
        student(sample, "one", 0.51, 71),
        student(sample, "two", 0.51, 70),
        student(sample, "three", 0.50, 38),
    ]
    left_out = [{"one", "three"}]
    for order in permutations(rows):
        shown = board(sample, *order)
        assert recommend.best(shown, paired_tests(order, left_out=left_out)).model == "two"
        assert picks(shown, left_out=left_out)[0][0] == "three"


def test_a_tie_in_speed_or_size_goes_to_the_higher_average(sample):
    rows = [
        student(sample, "best", 0.95, 9, latency=9.0),
        student(sample, "fast", 0.80, 3, latency=1.0),
        student(sample, "faster", 0.85, 3, latency=1.0),
    ]
    for order in permutations(rows):
        assert picks(board(sample, *order)) == [
            ("best", ("best quality",)),
            ("faster", ("fastest", "smallest")),
        ]


def test_the_front_leaves_out_a_student_that_another_beats_in_everything(sample):
    rows = [
        student(sample, "good", 0.9, 50, latency=2.0),
        student(sample, "worse", 0.9, 50, latency=3.0),
        student(sample, "poor", 0.8, 50, latency=2.0),
        student(sample, "small", 0.5, 1, latency=9.0),
        student(sample, "better", 0.6, 1, latency=9.0),
    ]
    assert [row.model for row in recommend.front(rows)] == ["good", "better"]


def test_equal_students_do_not_beat_each_other(sample):
    assert len(recommend.front([student(sample, "a", 0.5), student(sample, "b", 0.5)])) == 2


def test_what_no_test_tells_apart_is_said(sample):
    large, small = student(sample, "large", 0.51, 71), student(sample, "small", 0.50, 38)
    shown = board(sample, large, small)
    for margin, said in ((0.05, [("large", "small")]), (0.001, [])):
        found = caveats(shown, paired_tests([large, small], margin))
        assert [tuple(name for name in ("large", "small") if name in line) for line in found] == said


@pytest.mark.parametrize(("margin", "said"), [(0.05, True), (0.001, False)])
def test_a_student_that_no_test_tells_from_the_teacher_is_said(sample, margin, said):
    only = student(sample, "only", sample.teacher.average - 0.01)
    shown = board(sample, only)
    found = caveats(shown, paired_tests([only, sample.teacher], margin))
    assert ["teacher" in line and "only" in line for line in found] == [True] * said
