import pytest

from pipeline.train.loop.schedule import schedule_factor


@pytest.mark.parametrize("kind", ["linear", "cosine", "plateau"])
def test_the_warm_up_rises_evenly_to_the_peak(kind):
    found = [schedule_factor(kind, step, 20, 4) for step in range(5)]
    assert found == [0.25, 0.5, 0.75, 1.0, 1.0]


@pytest.mark.parametrize(
    ("kind", "first", "middle", "last", "end"),
    [
        ("linear", 1.0, 0.5, 1 / 16, 0.0),
        ("cosine", 1.0, 0.5, 0.009607359798384785, 0.0),  # (1 + cos(15 pi / 16)) / 2
        ("plateau", 1.0, 1.0, 1.0, 1.0),
    ],
)
def test_the_decay_after_the_warm_up(kind, first, middle, last, end):
    found = [schedule_factor(kind, step, 20, 4) for step in (4, 12, 19, 20)]
    assert found == pytest.approx([first, middle, last, end], abs=1e-15)


@pytest.mark.parametrize("kind", ["linear", "cosine", "plateau"])
def test_without_a_warm_up_the_first_step_has_the_peak(kind):
    assert schedule_factor(kind, 0, 20, 0) == 1


@pytest.mark.parametrize("kind", ["linear", "cosine"])
def test_a_warm_up_of_all_steps_never_decays(kind):
    assert [schedule_factor(kind, step, 2, 2) for step in (0, 1)] == [0.5, 1.0]
    assert schedule_factor(kind, 2, 2, 2) == 1.0


@pytest.mark.parametrize("kind", ["linear", "cosine"])
def test_the_decay_never_rises(kind):
    found = [schedule_factor(kind, step, 50, 5) for step in range(5, 51)]
    assert found == sorted(found, reverse=True)
