"""What a run keeps until DVC has committed its result; tests/train/test_checkpoint.py has the rest."""

import json
import subprocess
import sys
from dataclasses import replace
from hashlib import md5
from pathlib import Path
from textwrap import indent

import pytest

from pipeline.core.commits import Mark
from pipeline.core.resumable import committed

STAGE = """
import sys
from pathlib import Path
from textwrap import indent
from pipeline.core.errors import UserError, report_user_errors
from pipeline.core.errors import Refused
from pipeline.core.resumable import Resumable, gone_on_from, made_anew

def main():
    kept = Resumable.of(Path("cache"), sys.argv[1], seed=int(sys.argv[2]))
    with kept.folder(until_commit="of its own" not in sys.argv) as folder:
        done = folder / "done"
        print("goes on" if done.exists() else "begins")
        gone_on_from(folder) if done.exists() else made_anew()
        if "anew" in sys.argv:
            made_anew()
        done.touch()
        if "killed" in sys.argv:
            sys.exit(1)
        if "full" in sys.argv:
            raise Refused("the disk is full")
    if "mistake" in sys.argv:
        raise UserError("there is a mistake; mend it")
    if "full later" in sys.argv:
        raise Refused("the disk is full")

report_user_errors(main)()
"""
OF_DVC = {"DVC_STAGE": "train"}
OUT = Path("timings/train.json")
LOCK = Path("dvc.lock")


@pytest.fixture(autouse=True)
def folder(written):
    return written(STAGE)


@pytest.fixture
def run(environment):
    def run(*arguments, status=0, **more):
        command = [sys.executable, "-m", "pipeline.core.timed", str(OUT), "tiny", *arguments]
        done = subprocess.run(command, env=environment | more, capture_output=True, text=True)
        assert done.returncode == status, done.stderr
        return done.stdout.strip()

    return run


def commit() -> None:
    """As DVC does: the file's MD5 in dvc.lock."""
    digest = md5(OUT.read_bytes()).hexdigest()
    lock = f"- path: other\n  md5: none\n- path: {OUT}\n  hash: md5\n  md5: {digest}\n  size: 1\n"
    LOCK.write_text(f"stages:\n  a:\n    outs:\n{indent(lock, '    ')}")


def kept() -> set[str]:
    return {path.suffix or "folder" for path in Path("cache/training").iterdir()}


def test_a_run_that_dvc_did_not_commit_goes_on_from_its_end_and_tells_what_both_took(run):
    LOCK.write_text("outs:\n- path: other\n  md5: none\n")
    assert run("a", "1", **OF_DVC) == "begins"
    assert kept() == {"folder", ".lock", ".over"}
    [path] = Path("cache/training").glob("*.over")
    mark = Mark.read(path)
    assert mark.md5 == md5(OUT.read_bytes()).hexdigest()
    replace(mark, took={"seconds": mark.took["seconds"] + 60, "peak": 9e9}).write(path)
    OUT.unlink()  # DVC, killed before it had committed, removes it as it starts the stage again
    assert run("a", "1", **OF_DVC) == "goes on"
    told = json.loads(OUT.read_text())
    assert 60 < told["seconds"] < 100
    assert told["peak_megabytes"] == 9000
    assert run("a", "1", "anew", **OF_DVC) == "goes on"
    assert json.loads(OUT.read_text())["seconds"] < 60


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


@pytest.mark.parametrize("how", ["killed", "full", "full later"])
def test_what_the_machine_has_stopped_goes_on_and_has_no_mark(run, how):
    run("a", "1", how, status=1, **OF_DVC)
    assert kept() == {"folder", ".lock"}
    assert run("a", "1", **OF_DVC) == "goes on"


def test_a_mistake_that_comes_later_leaves_nothing(run):
    run("a", "1", "mistake", status=1, **OF_DVC)
    assert list(Path("cache/training").iterdir()) == []


def test_what_is_made_for_the_cache_itself_goes_at_once(run):
    run("a", "1", "of its own", **OF_DVC)
    assert list(Path("cache/training").iterdir()) == []


def test_it_goes_once_another_result_of_the_stage_is_committed_and_in_place(run):
    run("a", "1", **OF_DVC)
    uncommitted = OUT.read_bytes()
    OUT.write_text('{"seconds": 7}')  # by `dvc checkout`, of an earlier commit or of the run-cache
    commit()
    OUT.write_bytes(uncommitted)
    assert committed(Path("cache")) == []
    OUT.unlink()
    assert committed(Path("cache")) == []
    OUT.write_text('{"seconds": 7}')
    assert run("b", "1", **OF_DVC) == "begins"
    assert list(Path("cache/training").glob("a-*")) == []


@pytest.mark.parametrize("damage", ["", "[]", '{"md5": 1}', "{"])
def test_a_damaged_mark_is_that_of_a_killed_run(run, damage):
    run("a", "1", **OF_DVC)
    commit()
    [mark] = Path("cache/training").glob("*.over")
    mark.write_text(damage)
    assert run("a", "1", **OF_DVC) == "goes on"


@pytest.mark.parametrize("ours", [False, True], ids=["its result", "another result"])
def test_what_another_checkout_keeps_in_a_shared_cache_goes_when_its_result_is_committed(
    run, folder, monkeypatch, ours
):
    run("a", "1", **OF_DVC)
    other = folder / "other"
    (other / "timings").mkdir(parents=True)
    for name in ("cache", "tiny.py"):
        (other / name).symlink_to(folder / name)
    if not ours:
        commit()
        (other / LOCK).write_bytes(LOCK.read_bytes())
    monkeypatch.chdir(other)
    if ours:
        OUT.write_text('{"seconds": 7}')
        commit()
    run("b", "1", **OF_DVC)
    assert len(list(Path("cache/training").glob("a-*"))) == 3 * ours
