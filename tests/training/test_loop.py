import math
from itertools import chain, pairwise

import numpy as np
import pytest
import torch
from small_training import ROWS, Regression, settings

from pipeline.core.errors import UserError
from pipeline.training.checkpoint import Checkpoint
from pipeline.training.loop import fit


def scripted(values: list[float], tmp_path, **changes):
    """The curve and the weights at every evaluation of a training whose dev values are given."""
    run, seen, left = Regression(), [], iter(values)

    def dev_value() -> float:
        seen.append(run.weights())
        return next(left)

    chosen = settings(evaluations=len(values) - 1, **changes)
    curve = fit(run.module, run.loss_of, dev_value, chosen, Checkpoint(tmp_path / "state.safetensors"), 1e9)
    return curve, seen, run.weights()


def test_two_runs_give_the_same_bits(tmp_path):
    one, other = Regression(), Regression()
    assert repr(one.fit(settings(), tmp_path)) == repr(other.fit(settings(), tmp_path))
    assert one.weights() == other.weights()
    assert one.weights() != Regression().weights()


def test_another_seed_is_another_order(tmp_path):
    one, other = Regression(), Regression()
    one.fit(settings(), tmp_path)
    other.fit(settings(seed=1), tmp_path)
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


def test_the_curve_tells_steps_sentences_and_mean_losses(tmp_path):
    curve, _, _ = scripted([5.0, 4.0, 3.0, 2.0], tmp_path, lr=1e-12, warmup=0.0)
    assert [(point.step, point.dev_value) for point in curve] == [(0, 5.0), (3, 4.0), (6, 3.0), (9, 2.0)]
    assert math.isnan(curve[0].train_loss)
    assert curve[-1].sentences == 3 * ROWS
    assert [point.lr for point in curve] == pytest.approx([1e-12, 2e-12 / 3, 1e-12 / 3, 0])
    run = Regression()
    run.fit(settings(lr=1e-12), tmp_path)
    losses = [run.loss_of(np.array(batch)).item() for batch in run.batches[:6]]
    assert curve[1].train_loss == pytest.approx(np.mean(losses[:3]), rel=1e-6)
    assert curve[2].train_loss == pytest.approx(np.mean(losses[3:]), rel=1e-6)


def test_the_curve_counts_the_sentences_that_were_seen(tmp_path):
    curve, _, _ = scripted([5.0, 4.0, 3.0, 2.0], tmp_path)
    assert [point.sentences for point in curve] == [0, 10, 20, 30]


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
        run.fit(settings(clip_norm=clip_norm), tmp_path)
        norm = torch.cat([parameter.grad.flatten() for parameter in run.module.parameters()]).norm()
        assert (norm <= 0.0101) == fits


def test_bfloat16_is_of_the_passes_and_not_of_the_weights(tmp_path):
    run, seen = Regression(), []
    run.module.register_forward_hook(lambda _module, _inputs, output: seen.append(output.dtype))
    run.fit(settings(precision="bfloat16", evaluations=1, epochs=1), tmp_path)
    assert seen == [torch.float32, *[torch.bfloat16] * 3, torch.float32]
    assert {parameter.dtype for parameter in run.module.parameters()} == {torch.float32}


def test_more_evaluations_than_steps(tmp_path):
    curve = Regression().fit(settings(evaluations=50), tmp_path)
    assert [point.step for point in curve] == list(range(10))


@pytest.mark.parametrize("what", ["loss", "dev value"])
def test_nan_stops_the_run(tmp_path, what):
    run = Regression()
    (run.targets[:ROWS] if what == "loss" else run.targets[ROWS:]).fill_(float("nan"))
    with pytest.raises(UserError, match="the loss of tiny is nan at step 0; lower"):
        run.fit(settings(), tmp_path)
