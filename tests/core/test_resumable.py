"""What a run keeps until DVC has committed its result; tests/train/test_checkpoint.py has the rest."""

import json
import os
import subprocess
import sys
from hashlib import md5
from pathlib import Path

import pytest

STAGE = """
import sys
from pathlib import Path
from pipeline.core.resumable import Resumable

kept = Resumable.of(Path("cache"), sys.argv[1], seed=int(sys.argv[2]))
with kept.folder() as folder:
    done = folder / "done"
    print("goes on" if done.exists() else "begins")
    done.touch()
    if sys.argv[3:]:
        raise SystemExit(1)
"""
OF_DVC = {"DVC_STAGE": "train"}
OUT = Path("timings/train.json")
LOCK = Path("dvc.lock")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.py").write_text(STAGE)
    return tmp_path


@pytest.fixture
def run(repository):
    def run(*arguments, status=0, **environment):
        path = {"PYTHONPATH": str(repository), "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-m", "pipeline.core.timed", str(OUT), "tiny", *arguments]
        done = subprocess.run(
            command, env={**os.environ, **path, **environment}, capture_output=True, text=True
        )
        assert done.returncode == status, done.stderr
        return done.stdout.strip()

    return run


def commit() -> None:
    """As DVC does: the file's MD5 in dvc.lock."""
    LOCK.write_text(f"outs:\n- path: {OUT}\n  hash: md5\n  md5: {md5(OUT.read_bytes()).hexdigest()}\n")


def kept() -> set[str]:
    return {path.suffix or "folder" for path in Path("cache/training").iterdir()}


def test_a_run_that_dvc_did_not_commit_goes_on_from_its_end_and_tells_the_time_of_both(run):
    LOCK.write_text("outs:\n- path: other\n  md5: none\n")
    assert run("a", "1", **OF_DVC) == "begins"
    assert kept() == {"folder", ".lock", ".over"}
    [mark] = Path("cache/training").glob("*.over")
    told = json.loads(mark.read_text())
    assert told["md5"] == md5(OUT.read_bytes()).hexdigest()
    mark.write_text(json.dumps(told | {"seconds": 60 + told["seconds"]}))
    OUT.unlink()  # DVC, killed before it had committed, removes it as it starts the stage again
    assert run("a", "1", **OF_DVC) == "goes on"
    assert json.loads(OUT.read_text())["seconds"] > 60


@pytest.mark.parametrize("of", ["a", "another"])
def test_the_next_run_of_any_stage_removes_what_was_committed(run, of):
    run("a", "1", **OF_DVC)
    commit()
    assert run(of, "1", **OF_DVC) == "begins"
    assert {path.name[: -len("-0123456789abcdef")] for path in Path("cache/training").glob("*[!kr]")} == {of}


def test_another_run_of_the_stage_removes_it_uncommitted(run):
    run("a", "1", **OF_DVC)
    assert run("a", "2", **OF_DVC) == "begins"
    assert len(list(Path("cache/training").iterdir())) == 3


@pytest.mark.parametrize("environment", [{}, {**OF_DVC, "WORLD_SIZE": "2"}], ids=["by hand", "torchrun"])
def test_where_no_commit_is_seen_nothing_stays(run, environment):
    for _ in range(2):
        assert run("a", "1", **environment) == "begins"
        assert list(Path("cache/training").iterdir()) == []


def test_a_killed_run_has_no_mark(run):
    run("a", "1", "killed", status=1, **OF_DVC)
    assert kept() == {"folder", ".lock"}
    assert run("a", "1", **OF_DVC) == "goes on"


@pytest.mark.parametrize("damage", ["", "[]", '{"md5": 1}', "{"])
def test_a_damaged_mark_is_that_of_a_killed_run(run, damage):
    run("a", "1", **OF_DVC)
    commit()
    [mark] = Path("cache/training").glob("*.over")
    mark.write_text(damage)
    assert run("a", "1", **OF_DVC) == "goes on"


def test_what_another_checkout_keeps_in_a_shared_cache_stays(run, folder, monkeypatch):
    run("a", "1", **OF_DVC)
    commit()
    other = folder / "other"
    other.mkdir()
    for name in ("cache", "dvc.lock", "tiny.py"):
        (other / name).symlink_to(folder / name)
    monkeypatch.chdir(other)
    assert run("b", "1", **OF_DVC) == "begins"
    assert len(list(Path("cache/training").glob("a-*"))) == 3
