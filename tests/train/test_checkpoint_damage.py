import pytest
import torch
from flipped import flip

from pipeline.train.loop.checkpoint import Checkpoint


@pytest.mark.parametrize("bit", [-3, 8 * 200, 8 * 3], ids=["weights", "header", "length of the header"])
def test_a_flipped_bit_drops_the_state_and_says_so(tmp_path, bit, capsys):
    checkpoint = Checkpoint(tmp_path / "state.safetensors")
    checkpoint.save({"table": torch.ones(100)}, {}, {}, {"step": 1, "note": "x" * 300})
    flip(checkpoint.path, bit)
    assert checkpoint.state() is None
    assert checkpoint.load() is None
    assert not checkpoint.path.exists()
    assert f"{checkpoint.path} is damaged" in capsys.readouterr().err


def test_after_a_damaged_state_training_goes_on_from_the_one_before(tmp_path, capsys):
    checkpoint = Checkpoint(tmp_path / "state.safetensors")
    for step in (1, 2, 3):
        checkpoint.save({"table": torch.full((100,), float(step))}, {}, {}, {"step": step})
    flip(checkpoint.path, -3)
    assert checkpoint.state() == {"step": 2}
    groups, state = checkpoint.load()
    assert state == {"step": 2}
    assert groups["weights"]["table"].unique().tolist() == [2]
    assert "goes on from the state before it" in capsys.readouterr().err
    checkpoint.save({"table": torch.full((100,), 4.0)}, {}, {}, {"step": 4})
    assert checkpoint.load()[1] == {"step": 4}


def test_two_damaged_states_are_none_and_cut_files_are_damaged_too(tmp_path, capsys):
    checkpoint = Checkpoint(tmp_path / "state.safetensors")
    for step in (1, 2):
        checkpoint.save({"table": torch.ones(100)}, {}, {}, {"step": step})
    flip(checkpoint.before, -3)
    checkpoint.path.write_bytes(checkpoint.path.read_bytes()[:-7])
    assert checkpoint.load() is None
    assert "training starts again" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_the_last_state_is_there_while_the_next_one_is_synced(tmp_path, monkeypatch):
    checkpoint = Checkpoint(tmp_path / "state.safetensors")
    checkpoint.save({"table": torch.ones(100)}, {}, {}, {"step": 1})
    monkeypatch.setattr("pipeline.core.parent.check", lambda *_: pytest.fail("the parent is gone"))
    with pytest.raises(pytest.fail.Exception):
        checkpoint.save({"table": torch.ones(100)}, {}, {}, {"step": 2})
    assert checkpoint.path.exists()
    assert checkpoint.state() == {"step": 1}
    checkpoint.clear()
    assert list(tmp_path.iterdir()) == []


def test_a_file_system_without_hard_links_keeps_a_copy(tmp_path, monkeypatch):
    def link(*_: object) -> None:
        raise PermissionError("no links here")

    monkeypatch.setattr("os.link", link)
    checkpoint = Checkpoint(tmp_path / "state.safetensors")
    for step in (1, 2):
        checkpoint.save({"table": torch.ones(100)}, {}, {}, {"step": step})
    flip(checkpoint.path, -3)
    assert checkpoint.state() == {"step": 1}
