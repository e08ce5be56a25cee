"""A stage that ended, and whose result DVC did not commit: killed just then, or the disk was full."""

import re

import pytest

STAGES = {
    "distill@hpd": ("data/distilled/hpd", r"train hpd: (\d+) of \1 steps in [0-9.]+ s, 0\.0/s"),
    "finetune@hpd": ("data/finetuned/hpd", r"finetune hpd: (\d+) of \1 steps in [0-9.]+ s, 0\.0/s"),
    "evaluate@hpd": ("reports/metrics", r"finetuned hpd: (\d+) of \1 texts in [0-9.]+ s, 0\.0/s"),
}
"""The folder of what a stage makes, and what it says that had done all of it before it began."""


@pytest.fixture(scope="module")
def edited(project):
    project.params["students"]["hpd"]["train"]["lr"] = 2e-3
    project.repro("look")
    return project


@pytest.mark.parametrize("stage", STAGES)
def test_it_does_again_what_takes_seconds(edited, stage):
    lock, timing = edited.root / "dvc.lock", edited.root / f"data/timings/{stage.replace('@', '_')}.json"
    made, at_once = STAGES[stage]
    before = lock.read_bytes()
    ran, said = edited.repro("--no-run-cache", stage)
    assert stage in ran
    assert not re.search(at_once, said)
    took, first = timing.read_bytes(), contents(edited.root / made)
    lock.write_bytes(before)
    ran, said = edited.repro("--no-run-cache", stage)
    assert ran == {stage}
    assert re.search(at_once, said), said
    assert contents(edited.root / made) == first
    assert timing.read_bytes() != took


def test_once_it_is_committed_it_begins_anew_when_it_is_forced(edited):
    said = edited.repro("--force", "--single-item", "evaluate@hpd")[1]
    assert "finetuned hpd: " in said
    assert not re.search(STAGES["evaluate@hpd"][1], said)


def test_the_report_is_the_last_to_remove_what_was_kept(edited):
    kept = edited.root / ".cache/training"
    assert [path.suffix for path in kept.iterdir()]
    edited.repro("report")
    assert list(kept.iterdir()) == []


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
