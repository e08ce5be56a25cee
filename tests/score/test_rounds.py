import pytest

from pipeline.core.rounds import spread


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        ([2.0, 2.0, 2.0], 0.0),
        ([1.0, 2.0, 3.0], 0.5),
        ([2.0, 2.1, 5.25], 1.5),
        ([1.0, 4.0], 0.6),
    ],
)
def test_the_spread_is_the_largest_distance_from_the_median(seconds, expected):
    assert spread(seconds) == pytest.approx(expected)
    assert spread([10 * one for one in seconds]) == pytest.approx(expected)


def test_a_single_round_has_none():
    assert spread([2.0]) is None
