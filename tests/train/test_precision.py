"""The precision of a training is chosen once, and a resumed one keeps it."""

import numpy as np
import pytest
import torch
from small_distillation import block_of, distillation_of, run
from torch import nn

from pipeline.core import machine
from pipeline.train.loop.checkpoint import Checkpoint
from pipeline.train.loop.loop import Settings, fit
from pipeline.train.loop.mixture import Portion
from pipeline.train.loop.precision import takes_bfloat16
from pipeline.train.loop.world import World

KEY = "students.x.train.precision"


class StoppedError(Exception):
    """A kill."""


@pytest.mark.parametrize("chosen", [True, False])
def test_a_resumed_training_computes_as_the_interrupted_one(chosen, tmp_path, monkeypatch):
    module, state = nn.Linear(200, 200), Checkpoint(tmp_path / "state.safetensors")
    settings = Settings("x", (Portion(8),), 1, 2, 0.1, "linear", 0.0, 1, 0, bfloat16=chosen)

    def backward(rows):
        if state.path.exists():
            raise StoppedError
        module(torch.ones(200)).sum().backward()
        return {"loss": 1.0}

    with pytest.raises(StoppedError):
        fit(module, backward, lambda: 1.0, settings, state, 0)
    for gain in (3.0, 0.3):  # another measurement does not change it
        monkeypatch.setattr(machine, "gain", lambda *_, gain=gain: gain)
        assert takes_bfloat16("auto", module, World(), state, KEY) == chosen
    monkeypatch.setattr(machine, "gain", lambda *_: 0.0)  # resumed where torch has no bfloat16
    assert not takes_bfloat16("auto", module, World(), state, KEY)


@pytest.mark.parametrize(("gain", "taken"), [(3.0, True), (0.3, False)])
def test_a_new_training_takes_what_is_faster(gain, taken, tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "gain", lambda *_: gain)
    state = Checkpoint(tmp_path / "state.safetensors")
    assert takes_bfloat16("auto", nn.Linear(200, 200), World(), state, KEY) == taken
    state.path.write_bytes(b"damaged")
    assert takes_bfloat16("auto", nn.Linear(200, 200), World(), state, KEY) == taken


def test_the_leading_process_decides_for_all_and_no_other_measures(tmp_path, monkeypatch):
    monkeypatch.delattr(machine, "gain")
    monkeypatch.setattr(World, "of_the_leader", lambda *_: 1.0)
    state = Checkpoint(tmp_path / "state.safetensors")
    assert takes_bfloat16("auto", nn.Linear(200, 200), World(rank=1, size=2), state, KEY)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_the_curve_says_what_was_used(parts, tmp_path, precision):
    _, _, made = distillation_of(block_of("transformer", precision=precision), parts)
    curve = run(made, tmp_path)
    assert {point.precision for point in curve} == {precision}
    assert np.isfinite(curve[-1].dev_value)
