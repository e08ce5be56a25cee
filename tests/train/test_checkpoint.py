import os
import resource
import signal
import threading
import time
from pathlib import Path

import pytest
import torch
from killed import killed_write
from refusals import refuses
from small_disk import disk_of
from torch import nn

from pipeline.core import took
from pipeline.core.atomic import atomic_folder
from pipeline.train.loop.checkpoint import Checkpoint
from pipeline.train.loop.optimizers import Optimizers

CACHE = Path("cache")
PROCESS = Path("/proc/self")
IDENTITY = {"block": {"lr": 0.1, "dim": 8}, "train": "abc"}


def trained() -> tuple[nn.Module, Optimizers]:
    module = nn.Linear(2, 3)
    optimizers = Optimizers(module, lr=0.1, weight_decay=0.0, sparse=False)
    module(torch.ones(1, 2)).sum().backward()
    optimizers.step()
    return module, optimizers


def leave(checkpoint: Checkpoint) -> Checkpoint:
    """A checkpoint of a training that was interrupted."""
    module, optimizers = trained()
    checkpoint.save(module.state_dict(), {}, optimizers.tensors(), {})
    checkpoint.inputs.mkdir()
    (checkpoint.inputs / "targets.bin").write_bytes(b"x")
    return checkpoint


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
    module, optimizers = trained()
    checkpoint = Checkpoint(tmp_path / "deep" / "state.safetensors")
    best = {"weight": torch.zeros(4, 3).T, "bias": torch.arange(3)}
    state = {"step": 3, "best": float("inf"), "rate": 0.1}
    checkpoint.save(module.state_dict(), best, optimizers.tensors(), state)
    groups, loaded = checkpoint.load()
    assert loaded == state
    exactly = {"rtol": 0, "atol": 0}
    torch.testing.assert_close(groups["weights"], dict(module.state_dict()), **exactly)
    torch.testing.assert_close(groups["best"], best, **exactly)
    torch.testing.assert_close(groups["optimizer"], optimizers.tensors(), **exactly)
    assert len(groups["optimizer"]) == 2 * 3


def test_saved_tensors_do_not_follow_the_training(tmp_path):
    module, optimizers = trained()
    checkpoint = Checkpoint(tmp_path / "state.safetensors")
    before = module.weight.detach().clone()
    checkpoint.save(module.state_dict(), module.state_dict(), optimizers.tensors(), {})
    with torch.no_grad():
        module.weight.zero_()
    groups, _ = checkpoint.load()
    torch.testing.assert_close(groups["weights"]["weight"], before, rtol=0, atol=0)


def peak_bytes() -> int:
    [line] = [line for line in (PROCESS / "status").read_text().splitlines() if line.startswith("VmHWM:")]
    return 1024 * int(line.split()[1])


@pytest.mark.skipif(not (PROCESS / "clear_refs").exists(), reason="only Linux starts a new peak")
def test_saving_takes_no_memory_for_tensors_that_share_none(tmp_path):
    weights = {"one": torch.ones(1 << 24), "two": torch.ones(1 << 24)}
    checkpoint = Checkpoint(tmp_path / "state.safetensors")
    checkpoint.save({}, {}, {}, {})
    (PROCESS / "clear_refs").write_text("5")
    before = peak_bytes()
    checkpoint.save(weights, {}, {}, {})
    assert peak_bytes() - before < weights["one"].nbytes / 2
    assert checkpoint.path.stat().st_size > 2 * weights["one"].nbytes


def test_tensors_that_share_memory_are_each_saved_whole(tmp_path):
    table = torch.arange(12.0).reshape(4, 3)
    weights = {"whole": table, "same": table, "rows": table[1:3], "turned": table.T, "none": table[:0]}
    checkpoint = Checkpoint(tmp_path / "state.safetensors")
    checkpoint.save(weights, {"last": table[3:]}, {}, {})
    groups, _ = checkpoint.load()
    torch.testing.assert_close(groups["weights"], weights, rtol=0, atol=0)
    torch.testing.assert_close(groups["best"], {"last": table[3:]}, rtol=0, atol=0)


def test_no_file_is_no_state_and_clearing_twice_is_fine(tmp_path):
    checkpoint = Checkpoint(tmp_path / "state.safetensors")
    assert checkpoint.load() is None
    leave(checkpoint)
    checkpoint.clear()
    checkpoint.clear()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("left", ["state and inputs", "state", "inputs", "state before"])
def test_what_a_training_of_the_same_name_left_that_may_be_anothers_is_removed_after_a_day(tmp_path, left):
    old = leave(Checkpoint.of(tmp_path, "distill-tiny", train="old"))
    if left == "state":
        (old.inputs / "targets.bin").unlink()
        old.inputs.rmdir()
    if left == "inputs":
        old.path.unlink()
    if left == "state before":
        old.path.replace(old.before)
    there = sorted((tmp_path / "training").rglob("*"))
    for changed in there:
        made_yesterday(*there)
        os.utime(changed)
        Checkpoint.of(tmp_path, "distill-tiny", train="new")
        assert sorted((tmp_path / "training").rglob("*")) == there
    made_yesterday(*there)
    Checkpoint.of(tmp_path, "distill-tiny", train="new")
    assert list((tmp_path / "training").iterdir()) == []


def made_yesterday(*paths):
    """As if they were last changed more than a day ago."""
    for path in paths:
        os.utime(path, (0, 0))


def test_inputs_whose_removal_stops_half_way_are_not_there(tmp_path, monkeypatch):
    checkpoint = Checkpoint.of(tmp_path, "distill-tiny", train="x")
    with atomic_folder(checkpoint.inputs) as folder:
        (folder / "ids.bin").write_text("1")
    monkeypatch.setattr("shutil.rmtree", lambda *_, **__: None)
    checkpoint.clear()
    assert not checkpoint.inputs.exists()


def test_what_a_killed_training_left_half_written_is_removed(tmp_path):
    killed_write(tmp_path / "training" / "distill-tiny.safetensors")
    assert len(list((tmp_path / "training").iterdir())) == 1
    Checkpoint.of(tmp_path, "distill-other", train="x")
    assert list((tmp_path / "training").iterdir()) == []


def test_what_the_system_killed_while_it_saved_is_removed(tmp_path):
    """It may write no more than 100 bytes."""
    child = os.fork()
    if not child:
        try:
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
            leave(Checkpoint.of(tmp_path, "distill-tiny", train="x"))
        finally:
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGXFSZ
    assert list((tmp_path / "training").iterdir()) != []
    Checkpoint.of(tmp_path, "distill-other", train="x")
    assert list((tmp_path / "training").iterdir()) == []


def test_a_full_disk_is_told_and_costs_nothing_that_was_there(tmp_path):
    checkpoint = leave(Checkpoint.of(tmp_path, "distill-tiny", train="x"))
    there = sorted((tmp_path / "training").iterdir())
    with disk_of(100), refuses(tmp_path, ".safetensors", "File too large"):
        checkpoint.save({"table": torch.ones(100)}, {}, {}, {})
    assert checkpoint.load()[0]["weights"]["weight"].shape == (3, 2)
    assert sorted((tmp_path / "training").iterdir()) == there


def test_what_other_trainings_left_stays(tmp_path):
    names = ["distill-tiny", "distill-tiny-of-a-longer-name", "finetune-tiny"]
    kept = [leave(Checkpoint.of(tmp_path, name, train="x")) for name in names]
    Checkpoint.of(tmp_path, "distill-tiny", train="x")
    assert all(one.load() for one in kept)
    assert all((one.inputs / "targets.bin").exists() for one in kept)


def test_what_a_running_training_holds_stays(tmp_path):
    running = Checkpoint.of(tmp_path, "distill-tiny", train="x")
    running.hold()
    leave(running)
    Checkpoint.of(tmp_path, "distill-tiny", train="another")
    Checkpoint(running.path).clear()
    assert (Checkpoint(running.path).is_held(), running.is_held()) == (True, False)
    assert running.load()
    assert (running.inputs / "targets.bin").exists()
    running.clear()
    assert not Checkpoint(running.path).is_held()
    assert list((tmp_path / "training").iterdir()) == []


def test_a_second_run_of_the_same_training_waits_for_the_first(tmp_path, capsys):
    first, second = (Checkpoint.of(tmp_path, "distill-tiny", train="x") for _ in range(2))
    first.hold()
    waiting = threading.Thread(target=second.hold, daemon=True)
    waiting.start()
    waiting.join(0.2)
    assert waiting.is_alive()
    first.clear()
    waiting.join(30)
    assert not waiting.is_alive()
    assert "is at work in another process" in capsys.readouterr().err
    Checkpoint(first.path).clear()
    assert [path.suffix for path in (tmp_path / "training").iterdir()] == [".lock"]


def test_another_checkout_leaves_a_killed_training_alone_and_its_own_removes_it(tmp_path, monkeypatch):
    for checkout in ("one", "two"):
        (tmp_path / checkout).mkdir()
    monkeypatch.chdir(tmp_path / "one")
    killed = leave(Checkpoint.of(tmp_path, "distill-tiny", train="old"))
    killed.hold()
    os.close(killed._held)
    monkeypatch.chdir(tmp_path / "two")
    Checkpoint.of(tmp_path, "distill-tiny", train="new")
    assert Checkpoint(killed.path).load()
    monkeypatch.chdir(tmp_path / "one")
    Checkpoint.of(tmp_path, "distill-tiny", train="new")
    assert list((tmp_path / "training").iterdir()) == []


def test_the_lock_of_a_killed_training_is_none(tmp_path):
    child = os.fork()
    if not child:
        try:
            leave(Checkpoint.of(tmp_path, "distill-tiny", train="old")).hold()
        finally:
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    (state,) = (tmp_path / "training").glob("*.safetensors")
    assert not Checkpoint(state).is_held()
    assert len(list((tmp_path / "training").iterdir())) == 3
    Checkpoint.of(tmp_path, "distill-tiny", train="new")
    assert list((tmp_path / "training").iterdir()) == []


def test_a_cache_that_cannot_be_written_is_the_users_to_mend(tmp_path):
    (tmp_path / "training").write_text("no folder")
    with refuses(tmp_path / "training", "lock "):
        Checkpoint(tmp_path / "training" / "state.safetensors").hold()


def test_a_training_that_goes_on_counts_what_the_killed_ones_took(monkeypatch, tmp_path):
    checkpoint = Checkpoint.of(tmp_path, "distill-tiny", **IDENTITY)
    checkpoint.path.parent.mkdir(parents=True, exist_ok=True)
    for before, in_this_process in ((0, 100), (100, 30), (130, 1)):
        monkeypatch.setattr(took, "_before", [])
        monkeypatch.setattr(took, "STARTED", time.monotonic() - in_this_process)
        if before:
            _, state = checkpoint.load()
            assert state == {}
        assert took.seconds() == pytest.approx(before + in_this_process, abs=5)
        leave(checkpoint) if not before else checkpoint.save({}, {}, {}, {})
