"""A task teacher that is killed while it tells what it says of rows, and what it keeps."""

from classify_runs import classify, pair_rows, write_inputs
from test_task_teacher import PKD, QUICK, STUDENT_STEPS, kd, weights_of
from test_trainings import StopError, steps_of

from pipeline.classifiers.training import joint
from pipeline.core import kept_rows, resumable
from pipeline.data.tokens import tokens


def test_what_it_has_told_is_told_no_more_after_a_kill(tmp_path, monkeypatch):
    for name in ("cut", "whole"):
        block = {"read": "together", "kd": kd(tmp_path, **PKD), "train": QUICK}
        write_inputs(tmp_path / name, "bert", pair_rows(), **block)
    monkeypatch.setattr(tokens, "PART", 10)  # rows that are asked of at a time
    asked, ask, made = [], joint.Joint.logits_and_states, kept_rows.made

    def noted(one, rows, layers):
        if len(rows) == 10:  # a training step takes 8
            asked.append(rows)
        if len(asked) == 4:
            raise StopError
        return ask(one, rows, layers)

    with monkeypatch.context() as patch:
        patch.setattr(joint.Joint, "logits_and_states", noted)
        patch.setattr(kept_rows, "made", lambda *given: made(*given[:-1], -1.0))  # its state after each part
        steps_of(tmp_path / "cut")
        asked[:] = [None] * 10
        patch.setattr(kept_rows, "made", made)
        assert steps_of(tmp_path / "cut") == STUDENT_STEPS
        assert len(asked) == 10 + 6
        classify(tmp_path / "whole")
        assert len(asked) == 10 + 6 + 9
    assert weights_of(tmp_path / "cut") == weights_of(tmp_path / "whole")
    assert not list((tmp_path / "cut/cache/training").iterdir())


def test_its_states_go_at_once_and_the_classifiers_when_dvc_has_committed_it(tmp_path, monkeypatch):
    monkeypatch.setenv("DVC_STAGE", "classify@one")
    monkeypatch.setattr(resumable, "_waiting", [])
    write_inputs(tmp_path, "bert", pair_rows(), read="together", kd=kd(tmp_path), train=QUICK)
    classify(tmp_path)
    kept = tmp_path / "cache/training"
    assert {path.name.partition("-")[0] for path in kept.iterdir()} == {"classify"}
    resumable.remove_waiting()
    assert list(kept.iterdir()) == []
