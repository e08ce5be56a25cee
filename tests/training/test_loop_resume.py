import json
from pathlib import Path

import pytest
from safetensors import safe_open
from safetensors.torch import load_file
from small_training import Regression, settings

STEPS = 9
KINDS = {
    "linear": settings(),
    "cosine": settings(schedule="cosine", clip_norm=0.5, weight_decay=0.1),
    "plateau": settings(schedule="plateau", lr=0.7),
    "patience": settings(lr=1.0, patience=3, evaluations=9),
}


class Interrupted(Regression):
    """A run that is killed in the middle of its `at`-th step."""

    def __init__(self, at: int, start: int = 0) -> None:
        super().__init__(start)
        self.at = at

    def loss_of(self, rows):
        if len(self.batches) == self.at:
            raise KeyboardInterrupt
        return super().loss_of(rows)


def interrupt(at: int, kind: str, cache: Path, start: int = 0) -> Interrupted:
    run = Interrupted(at, start)
    with pytest.raises(KeyboardInterrupt):
        run.fit(KINDS[kind], cache, seconds=0)
    return run


@pytest.fixture(scope="module", params=KINDS)
def undisturbed(request, tmp_path_factory):
    run = Regression()
    curve = run.fit(KINDS[request.param], tmp_path_factory.mktemp("undisturbed"))
    return request.param, run, curve


def test_the_kinds_do_what_resuming_could_break(undisturbed):
    kind, run, curve = undisturbed
    if kind == "plateau":
        assert curve[-1].lr < KINDS[kind].lr
    if kind == "patience":
        assert 2 < len(run.batches) < STEPS


def test_a_run_killed_at_any_step_and_resumed_is_the_undisturbed_one(undisturbed, tmp_path):
    kind, run, curve = undisturbed
    for at in range(1, len(run.batches)):
        killed = interrupt(at, kind, tmp_path / str(at))
        resumed = Regression(start=99)
        assert repr(resumed.fit(KINDS[kind], tmp_path / str(at), seconds=0)) == repr(curve)
        assert resumed.weights() == run.weights(), at
        assert killed.batches + resumed.batches == run.batches


def test_a_run_killed_after_every_step_gets_to_the_same_end(undisturbed, tmp_path):
    kind, run, curve = undisturbed
    for start in range(len(run.batches) - 1):
        interrupt(1, kind, tmp_path, start)
    resumed = Regression(start=99)
    assert repr(resumed.fit(KINDS[kind], tmp_path, seconds=0)) == repr(curve)
    assert resumed.weights() == run.weights()
    assert len(resumed.batches) == 1


def test_a_finished_run_is_not_trained_again(tmp_path):
    first, again = Regression(), Regression(start=99)
    curve = first.fit(KINDS["linear"], tmp_path, seconds=0)
    assert repr(again.fit(KINDS["linear"], tmp_path, seconds=0)) == repr(curve)
    assert again.weights() == first.weights()
    assert again.batches == []


def test_the_state_is_written_only_as_often_as_asked(tmp_path):
    Regression().fit(KINDS["linear"], tmp_path, seconds=1e9)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("damage", ["empty", "truncated", "other bytes"])
def test_a_damaged_state_is_said_and_the_training_starts_again(tmp_path, capsys, damage):
    interrupt(5, "linear", tmp_path)
    [path] = tmp_path.iterdir()
    content = path.read_bytes()
    path.write_bytes({"empty": b"", "truncated": content[:-10], "other bytes": b"\x00x" * 500}[damage])
    run, undisturbed = Regression(), Regression()
    curve = run.fit(KINDS["linear"], tmp_path)
    assert repr(curve) == repr(undisturbed.fit(KINDS["linear"], tmp_path / "else"))
    assert run.weights() == undisturbed.weights()
    assert f"{path} is damaged" in (said := capsys.readouterr().err)
    assert "training starts again" in said
    assert not path.exists()


def test_the_state_is_one_safetensors_file_without_pickles(tmp_path):
    interrupt(5, "linear", tmp_path)
    [path] = tmp_path.iterdir()
    assert path.suffix == ".safetensors"
    groups = {name.split("/")[0] for name in load_file(path)}
    assert groups == {"weights", "best", "optimizer"}
    with safe_open(path, framework="pt") as file:
        assert json.loads(file.metadata()["state"])["progress"]["step"] == 5
