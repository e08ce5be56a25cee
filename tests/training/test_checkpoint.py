from pathlib import Path

import pytest
import torch
from torch import nn

from pipeline.training.checkpoint import Checkpoint, restore_optimizer

CACHE = Path("cache")
IDENTITY = {"block": {"lr": 0.1, "dim": 8}, "train": "abc"}


def trained() -> tuple[nn.Linear, torch.optim.AdamW]:
    module = nn.Linear(2, 3)
    optimizer = torch.optim.AdamW(module.parameters())
    module(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    return module, optimizer


def test_equal_identities_are_one_file():
    reordered = {"train": "abc", "block": {"dim": 8, "lr": 0.1}}
    path = Checkpoint.of(CACHE, "distill-tiny", **IDENTITY).path
    assert path == Checkpoint.of(CACHE, "distill-tiny", **reordered).path
    assert path.parent == CACHE / "training"
    assert path.name.startswith("distill-tiny-")


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("distill-other", {}),
        ("distill-tiny", {"block": {"lr": 0.2, "dim": 8}}),
        ("distill-tiny", {"train": "abd"}),
        ("distill-tiny", {"teacher": "x"}),
    ],
)
def test_another_identity_is_another_file(name, changes):
    other = Checkpoint.of(CACHE, name, **{**IDENTITY, **changes})
    assert other.path != Checkpoint.of(CACHE, "distill-tiny", **IDENTITY).path


def test_what_is_saved_is_loaded(tmp_path):
    module, optimizer = trained()
    checkpoint = Checkpoint(tmp_path / "deep" / "state.safetensors")
    best = {"weight": torch.zeros(4, 3).T, "bias": torch.arange(3)}
    state = {"step": 3, "best": float("inf"), "rate": 0.1}
    checkpoint.save(module.state_dict(), best, optimizer.state_dict(), state)
    groups, loaded = checkpoint.load()
    assert loaded == state
    torch.testing.assert_close(groups["weights"], dict(module.state_dict()), rtol=0, atol=0)
    torch.testing.assert_close(groups["best"], best, rtol=0, atol=0)
    fresh = torch.optim.AdamW(nn.Linear(2, 3).parameters())
    restore_optimizer(fresh, groups["optimizer"])
    expected = optimizer.state_dict()["state"]
    torch.testing.assert_close(fresh.state_dict()["state"], expected, rtol=0, atol=0)


def test_saved_tensors_do_not_follow_the_training(tmp_path):
    module, optimizer = trained()
    checkpoint = Checkpoint(tmp_path / "state.safetensors")
    before = module.weight.detach().clone()
    checkpoint.save(module.state_dict(), module.state_dict(), optimizer.state_dict(), {})
    with torch.no_grad():
        module.weight.zero_()
    groups, _ = checkpoint.load()
    torch.testing.assert_close(groups["weights"]["weight"], before, rtol=0, atol=0)


def test_no_file_is_no_state_and_clearing_twice_is_fine(tmp_path):
    module, optimizer = trained()
    checkpoint = Checkpoint(tmp_path / "state.safetensors")
    assert checkpoint.load() is None
    checkpoint.save(module.state_dict(), {}, optimizer.state_dict(), {})
    checkpoint.clear()
    checkpoint.clear()
    assert list(tmp_path.iterdir()) == []
