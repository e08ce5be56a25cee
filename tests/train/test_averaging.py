"""Averages of weights, over the steps or with the start, against themselves written out in float64."""

from contextlib import suppress

import numpy as np
import pytest
import torch
from small_distillation import DEV, block_of, distillation_of, run, targets
from small_students import own_vectors
from small_training import Projected, Table, settings
from torch import nn

from pipeline.train.loop.averaging import Interpolation, MovingAverage


def flat(module: nn.Module) -> np.ndarray:
    """All numbers of a module, float64."""
    return np.concatenate([tensor.double().flatten().numpy() for tensor in module.state_dict().values()])


def averages(weights: list[np.ndarray], decay: float) -> list[np.ndarray]:
    """Before the first step and after each."""
    found = [weights[0]]
    for step, new in enumerate(weights[1:], start=1):
        kept = min(decay, (1 + step) / (10 + step))
        found.append(kept * found[-1] + (1 - kept) * new)
    return found


def recorded(made, tmp_path, **changes):
    """The weights before every step, what the dev value saw, and what is kept."""
    trained, seen, whole = made(), [], []
    loss_of, dev_value = trained.loss_of, trained.dev_value
    trained.loss_of = lambda rows: whole.append(flat(trained.module)) or loss_of(rows)
    trained.dev_value = lambda: seen.append(flat(trained.module)) or dev_value()
    trained.fit(settings(evaluations=9, **changes), tmp_path)
    return whole, seen, flat(trained.module)


@pytest.mark.parametrize("decay", [0.999, 0.3])
@pytest.mark.parametrize(("made", "changes"), [(Projected, {}), (Table, {"sparse": True})])
def test_dev_values_are_of_the_average_of_the_weights_of_plain_training(made, changes, decay, tmp_path):
    plain, _, _ = recorded(made, tmp_path / "plain", **changes)
    own, seen, kept = recorded(made, tmp_path / "averaged", average=decay, **changes)
    np.testing.assert_array_equal(own, plain)  # what is trained goes on from its own weights
    np.testing.assert_allclose(seen[:9], averages(plain, decay), rtol=1e-5, atol=1e-6)
    assert any(np.array_equal(kept, one) for one in seen)


@pytest.mark.parametrize("share", [{"average": 0.9}, {"interpolation": 0.9}])
def test_the_average_of_the_lowest_dev_value_is_kept(tmp_path, share):
    trained, seen, left = Projected(), [], iter([4.0, 3.0, 1.0, 2.0])
    trained.dev_value = lambda: seen.append(flat(trained.module)) or next(left)
    trained.fit(settings(evaluations=3, **share), tmp_path)
    np.testing.assert_array_equal(flat(trained.module), seen[2])


def test_what_a_loss_trains_along_is_averaged_with_the_module(tmp_path):
    trained, seen = Projected(), []
    trained.dev_value = lambda: seen.append(trained.losses.weight.detach().numpy().copy()) or 1.0
    trained.fit(settings(evaluations=9, average=0.9), tmp_path)
    assert not np.array_equal(seen[-1], trained.losses.weight.detach().numpy())


def test_frozen_weights_and_buffers_are_left_alone():
    module = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    module[1].weight.requires_grad_(False)
    average = MovingAverage(module, 0.9)
    assert set(average.tensors) == {"0.weight", "0.bias", "1.bias"}
    module[1].running_mean.fill_(3)
    with average.shown():
        assert module[1].running_mean.tolist() == [3, 3]


@pytest.mark.parametrize("kind", [MovingAverage, Interpolation])
def test_an_interrupted_evaluation_gives_the_weights_back(kind):
    module = nn.Linear(2, 2)
    average = kind(module, 0.9)
    with torch.no_grad():
        module.weight += 1
    before = module.weight.detach().clone()
    with suppress(KeyboardInterrupt), average.shown():
        assert not torch.equal(module.weight, before)
        raise KeyboardInterrupt
    assert torch.equal(module.weight, before)


@pytest.mark.parametrize("kind", ["static", "transformer"])
def test_the_student_is_left_with_the_average_that_was_measured(parts, tmp_path, kind):
    block = block_of(kind, average={"decay": 0.8}, epochs=3)
    student, _, made = distillation_of(block, parts)
    values = [point.dev_value for point in run(made, tmp_path)]
    distance = np.square(own_vectors(student, DEV).astype(np.float64) - targets(DEV, block)).sum(axis=1)
    assert distance.mean() == pytest.approx(min(values), rel=1e-5)
    plain = distillation_of(block_of(kind, epochs=3), parts)[2]
    assert values[1:] != [point.dev_value for point in run(plain, tmp_path / "plain")][1:]


def test_no_average_is_the_default():
    assert block_of("static").train.average is None
    assert settings().average is None


@pytest.mark.parametrize(("made", "changes"), [(Projected, {}), (Table, {"sparse": True})])
def test_dev_values_are_of_weights_between_the_start_and_the_trained_ones(made, changes, tmp_path):
    plain, _, _ = recorded(made, tmp_path / "plain", **changes)
    own, seen, _ = recorded(made, tmp_path / "between", interpolation=0.3, **changes)
    np.testing.assert_array_equal(own, plain)  # what is trained goes on from its own weights
    np.testing.assert_allclose(seen[:9], [0.7 * plain[0] + 0.3 * new for new in plain], rtol=1e-5, atol=1e-6)


def test_a_distillation_keeps_weights_between_those_of_the_params(parts, tmp_path):
    block = block_of("transformer", epochs=1, evaluations=1, interpolation=0.9)
    whole = block_of("transformer", epochs=1, evaluations=1)
    found = []
    for number, one in enumerate((block, whole)):
        student, _, distillation = distillation_of(one, parts)
        start = flat(student.module)
        run(distillation, tmp_path / str(number))
        found.append((start, flat(student.module)))
    (start, kept), (_, trained) = found
    assert not np.allclose(start, trained, atol=1e-3)
    np.testing.assert_allclose(kept, 0.1 * start + 0.9 * trained, rtol=1e-5, atol=1e-6)
