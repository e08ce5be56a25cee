import math
from itertools import chain, pairwise

import numpy as np
import pytest
import torch
from refusals import refuses
from small_training import ROWS, Projected, Regression, settings, weights

from pipeline.train.loop import loop
from pipeline.train.loop.checkpoint import Checkpoint
from pipeline.train.loop.loop import fit
from pipeline.train.loop.world import World


def scripted(values: list[float], tmp_path, **changes):
    """The curve and the weights at every evaluation of a training whose dev values are given."""
    run, seen, left = Regression(), [], iter(values)

    def dev_value() -> float:
        seen.append(run.weights())
        return next(left)

    chosen = settings(evaluations=len(values) - 1, **changes)
    curve = fit(run.module, run.backward, dev_value, chosen, Checkpoint(tmp_path / "state.safetensors"), 1e9)
    return curve, seen, run.weights()


def test_two_runs_give_the_same_bits(tmp_path):
    one, other = Regression(), Regression()
    curve = one.fit(settings(), tmp_path / "one")
    assert repr(other.fit(settings(), tmp_path / "other")) == repr(curve)
    assert one.weights() == other.weights()
    assert one.weights() != Regression().weights()


def test_another_seed_is_another_order(tmp_path):
    one, other = Regression(), Regression()
    one.fit(settings(), tmp_path / "one")
    other.fit(settings(seed=1), tmp_path / "other")
    assert sorted(map(len, one.batches)) == sorted(map(len, other.batches))
    assert one.batches != other.batches


def test_every_row_is_seen_once_an_epoch_in_a_new_order(tmp_path):
    run = Regression()
    run.fit(settings(), tmp_path)
    assert [len(batch) for batch in run.batches] == [4, 4, 2] * 3
    epochs = [list(chain(*run.batches[start : start + 3])) for start in (0, 3, 6)]
    assert all(sorted(epoch) == list(range(ROWS)) for epoch in epochs)
    assert all(one != other for one, other in pairwise(epochs))


def test_the_updates_are_those_of_plain_adamw(tmp_path):
    run, reference = Regression(), Regression()
    run.fit(settings(weight_decay=0.1, evaluations=1), tmp_path)
    warmup, steps = 2, 9
    adamw = torch.optim.AdamW(reference.module.parameters(), weight_decay=0.1)
    for step, batch in enumerate(run.batches):
        rising, falling = (step + 1) / warmup, 1 - (step - warmup) / (steps - warmup)
        adamw.param_groups[0]["lr"] = 0.1 * min(rising, falling)
        adamw.zero_grad()
        reference.loss_of(np.array(batch)).backward()
        adamw.step()
    assert run.dev_value() == pytest.approx(reference.dev_value(), rel=1e-4)


def test_the_curve_tells_steps_examples_and_mean_losses(tmp_path):
    curve, _, _ = scripted([5.0, 4.0, 3.0, 2.0], tmp_path, lr=1e-12, warmup=0.0)
    assert [(point.step, point.dev_value) for point in curve] == [(0, 5.0), (3, 4.0), (6, 3.0), (9, 2.0)]
    assert math.isnan(curve[0].train_loss)
    assert curve[-1].examples == 3 * ROWS
    assert [point.lr for point in curve] == pytest.approx([1e-12, 2e-12 / 3, 1e-12 / 3, 0])
    run = Regression()
    run.fit(settings(lr=1e-12), tmp_path / "else")
    losses = [run.loss_of(np.array(batch)).item() for batch in run.batches[:6]]
    assert curve[1].train_loss == pytest.approx(np.mean(losses[:3]), rel=1e-6)
    assert curve[2].train_loss == pytest.approx(np.mean(losses[3:]), rel=1e-6)


def test_the_curve_counts_the_examples_that_were_seen(tmp_path):
    curve, _, _ = scripted([5.0, 4.0, 3.0, 2.0], tmp_path)
    assert [point.examples for point in curve] == [0, 10, 20, 30]


def test_the_curve_tells_the_mean_measures_since_the_last_point(tmp_path):
    run = Regression()
    curve = run.fit(settings(evaluations=3), tmp_path)
    first_rows = np.array([batch[0] for batch in run.batches], float).reshape(3, 3)
    assert curve[0].measures == {}
    assert [point.measures["first_row"] for point in curve[1:]] == pytest.approx(first_rows.mean(axis=1))


def test_the_curve_tells_the_speed_of_training_without_that_of_the_dev_value(tmp_path, monkeypatch):
    run, clock = Regression(), Clock()
    monkeypatch.setattr(loop, "time", clock)
    whole = run.loss_of
    run.loss_of = lambda rows: clock.wait(2) or whole(rows)
    run.dev_value = lambda: clock.wait(100) or 0.0
    curve = run.fit(settings(evaluations=3), tmp_path)
    assert math.isnan(curve[0].examples_per_second)
    assert [point.examples_per_second for point in curve[1:]] == [ROWS / 6] * 3


class Clock:
    now = 0.0

    def wait(self, seconds: float) -> None:
        self.now += seconds

    def monotonic(self) -> float:
        return self.now


@pytest.mark.parametrize(("values", "best"), [([1, 2, 3, 4], 0), ([4, 2, 3, 3], 1), ([4, 3, 2, 1], 3)])
def test_the_weights_of_the_lowest_dev_value_are_kept_the_untrained_ones_included(tmp_path, values, best):
    _, seen, kept = scripted(values, tmp_path)
    assert len(set(seen)) == 4
    assert seen.index(kept) == best


def test_of_equal_dev_values_the_first_is_kept(tmp_path):
    _, seen, kept = scripted([2.0, 1.0, 1.0, 1.0], tmp_path)
    assert seen.index(kept) == 1


def test_patience_ends_the_run(tmp_path):
    curve, seen, kept = scripted([5, 4, 6, 6, 1, 0], tmp_path, patience=2)
    assert [point.dev_value for point in curve] == [5, 4, 6, 6]
    assert seen.index(kept) == 1


def test_a_better_value_renews_the_patience(tmp_path):
    curve, _, _ = scripted([5, 6, 4, 6, 3, 7], tmp_path, patience=2)
    assert len(curve) == 6


def test_plateau_halves_the_rate_where_the_dev_value_stands_still(tmp_path):
    changes = {"schedule": "plateau", "warmup": 0.0, "lr": 1.0}
    curve, _, _ = scripted([3, 2, 2, 2, 1, 0], tmp_path, **changes)
    assert [point.lr for point in curve] == [1, 1, 1, 0.5, 0.25, 0.25]


def test_long_gradients_are_clipped(tmp_path):
    for clip_norm, fits in ((None, False), (0.01, True)):
        run = Regression()
        run.fit(settings(clip_norm=clip_norm), tmp_path / str(clip_norm))
        norm = torch.cat([parameter.grad.flatten() for parameter in run.module.parameters()]).norm()
        assert (norm <= 0.0101) == fits


def test_losses_are_trained_along_by_the_same_updates(tmp_path):
    run, reference = Projected(), Projected()
    run.fit(settings(clip_norm=0.1, schedule="plateau", warmup=0.0, evaluations=1), tmp_path)
    trained = [*reference.module.parameters(), *reference.losses.parameters()]
    adamw = torch.optim.AdamW(trained, lr=0.1, weight_decay=0.0)
    for batch in run.batches:
        adamw.zero_grad()
        reference.loss_of(np.array(batch)).backward()
        assert torch.nn.utils.clip_grad_norm_(trained, 0.1) > 0.1
        adamw.step()
    for one, other in ((run.module, reference.module), (run.losses, reference.losses)):
        torch.testing.assert_close(one.state_dict(), other.state_dict(), rtol=1e-4, atol=1e-6)


def test_the_best_weights_are_the_modules_alone(tmp_path):
    run, left = Projected(), iter([1.0, 2.0, 3.0, 4.0])
    before = run.weights(), weights(run.losses)
    run.dev_value = lambda: next(left)
    run.fit(settings(evaluations=3), tmp_path)
    assert run.weights() == before[0]
    assert weights(run.losses) != before[1]


@pytest.mark.parametrize(("rank", "files"), [(0, 1), (1, 0)])
def test_one_process_of_those_that_train_together_writes(tmp_path, rank, files):
    run, world = Regression(), World(rank, size=2)
    checkpoint = Checkpoint(tmp_path / "state.safetensors")
    fit(run.module, run.backward, run.dev_value, settings(), checkpoint, 0, world=world)
    assert len(list(tmp_path.iterdir())) == files


def test_more_evaluations_than_steps(tmp_path):
    curve = Regression().fit(settings(evaluations=50), tmp_path)
    assert [point.step for point in curve] == list(range(10))


@pytest.mark.parametrize("what", ["loss", "dev value"])
def test_nan_stops_the_run(tmp_path, what):
    run = Regression()
    (run.targets[:ROWS] if what == "loss" else run.targets[ROWS:]).fill_(float("nan"))
    with refuses(what, " nan ", "step 0;", "lower train.lr"):
        run.fit(settings(), tmp_path)
