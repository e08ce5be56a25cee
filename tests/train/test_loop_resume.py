import json
from dataclasses import replace
from pathlib import Path

import pytest
from safetensors import safe_open
from safetensors.torch import load_file
from small_training import ROWS, Projected, Regression, Table, settings, weights

from pipeline.train.loop.checkpoint import Checkpoint
from pipeline.train.loop.mixture import Portion

STEPS = 9
KINDS = {
    "linear": (Regression, settings()),
    "cosine": (Regression, settings(schedule="cosine", clip_norm=0.5, weight_decay=0.1)),
    "plateau": (Regression, settings(schedule="plateau", lr=0.7)),
    "patience": (Regression, settings(lr=1.0, patience=3, evaluations=9)),
    "sparse": (Table, settings(sparse=True, clip_norm=0.5, weight_decay=0.1)),
    "losses": (Projected, settings(clip_norm=2.0)),
    "averaged": (Projected, settings(average=0.6)),
    "averaged, sparse": (Table, settings(sparse=True, average=0.3, schedule="plateau")),
    "interpolated": (Projected, settings(interpolation=0.6)),
    "mixture": (Regression, settings(portions=(Portion(7), Portion(6, 0.5)))),
}


def interrupt(at: int, kind: str, cache: Path, start: int = 0) -> Regression:
    """A run that is killed in the middle of its `at`-th step."""
    made, chosen = KINDS[kind]
    run = made(start)
    whole = run.loss_of

    def loss_of(rows):
        if len(run.batches) > at:
            run.batches.pop()
            raise KeyboardInterrupt
        return whole(rows)

    run.loss_of = loss_of
    with pytest.raises(KeyboardInterrupt):
        run.fit(chosen, cache, seconds=0)
    return run


def everything(run: Regression) -> bytes:
    """The weights, and those of the losses with their buffers."""
    return run.weights() + (weights(run.losses) if run.losses else b"")


@pytest.fixture(scope="module", params=KINDS)
def undisturbed(request, tmp_path_factory):
    made, chosen = KINDS[request.param]
    run = made()
    curve = run.fit(chosen, tmp_path_factory.mktemp("undisturbed"))
    return request.param, run, curve


def test_the_kinds_do_what_resuming_could_break(undisturbed, tmp_path):
    kind, run, curve = undisturbed
    made, chosen = KINDS[kind]
    if kind == "plateau":
        assert curve[-1].lr < chosen.lr
    if kind == "patience":
        assert 2 < len(run.batches) < STEPS
    if kind == "sparse":
        assert run.module[0].weight.grad.is_sparse
    if kind.startswith(("averaged", "interpolated")):
        plain = made()
        plain.fit(replace(chosen, average=None, interpolation=1.0), tmp_path)
        assert plain.weights() != run.weights()
    if kind == "losses":
        assert run.losses.seen.tolist() == [3] * ROWS
        assert weights(run.losses)[:36] != weights(made().losses)[:36]


def test_a_run_killed_at_any_step_and_resumed_is_the_undisturbed_one(undisturbed, tmp_path):
    kind, run, curve = undisturbed
    made, chosen = KINDS[kind]
    for at in range(1, len(run.batches)):
        killed = interrupt(at, kind, tmp_path / str(at))
        resumed = made(start=99)
        assert repr(resumed.fit(chosen, tmp_path / str(at), seconds=0)) == repr(curve)
        assert everything(resumed) == everything(run), at
        assert killed.batches + resumed.batches == run.batches


def test_a_run_killed_after_every_step_gets_to_the_same_end(undisturbed, tmp_path):
    kind, run, curve = undisturbed
    made, chosen = KINDS[kind]
    for start in range(len(run.batches) - 1):
        interrupt(1, kind, tmp_path, start)
    resumed = made(start=99)
    assert repr(resumed.fit(chosen, tmp_path, seconds=0)) == repr(curve)
    assert everything(resumed) == everything(run)
    assert len(resumed.batches) == 1


@pytest.mark.parametrize("made", [Regression, Projected])
def test_a_finished_run_is_not_trained_again(tmp_path, made):
    first, again = made(), made(start=99)
    curve = first.fit(settings(), tmp_path)
    assert repr(again.fit(settings(), tmp_path)) == repr(curve)
    assert again.weights() == first.weights()
    assert again.batches == []
    for one in (first, again):
        one.learned = weights(one.losses) if one.losses else b""
    assert again.learned == first.learned


def test_the_state_is_written_only_as_often_as_asked(tmp_path, monkeypatch):
    writes = []
    monkeypatch.setattr(Checkpoint, "save", lambda *_, **__: writes.append("state"))
    Regression().fit(settings(), tmp_path, seconds=1e9)
    assert writes == ["state"]  # that of the finished training


@pytest.mark.parametrize("damage", ["empty", "truncated", "other bytes"])
@pytest.mark.parametrize(("states", "said"), [(1, "goes on from the state before"), (2, "starts again")])
def test_a_damaged_state_is_said_and_costs_the_steps_since_the_one_before(
    tmp_path, capsys, damage, states, said
):
    interrupt(5, "linear", tmp_path)
    before, last = sorted(tmp_path.iterdir())
    for path in (last, before)[:states]:
        content = path.read_bytes()
        path.write_bytes({"empty": b"", "truncated": content[:-10], "other bytes": b"\x00x" * 500}[damage])
    run, undisturbed = Regression(), Regression()
    curve = run.fit(settings(), tmp_path)
    assert repr(curve) == repr(undisturbed.fit(settings(), tmp_path / "else"))
    assert run.weights() == undisturbed.weights()
    assert len(run.batches) == len(undisturbed.batches) - (4 if states == 1 else 0)
    told = capsys.readouterr().err
    assert f"{last} is damaged" in told
    assert f"training {said}" in told
    assert Checkpoint(last).state()["finished"]


@pytest.mark.parametrize("kind", ["linear", "sparse", "losses", "averaged", "interpolated"])
def test_the_last_two_states_are_safetensors_files_without_pickles(tmp_path, kind):
    interrupt(5, kind, tmp_path)
    before, last = sorted(tmp_path.iterdir())
    assert last.suffix == before.suffix == ".safetensors"
    averaging = {"averaging"} if kind in ("averaged", "interpolated") else set()
    for path, steps in ((before, 4), (last, 5)):
        assert {name.split("/")[0] for name in load_file(path)} == {
            "weights",
            "best",
            "optimizer",
        } | averaging
        with safe_open(path, framework="pt") as file:
            assert json.loads(file.metadata()["state"])["progress"]["step"] == steps
