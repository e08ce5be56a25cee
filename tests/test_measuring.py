"""The table of a benchmark: on the screen its ratios stand beside those of the committed file."""

import importlib
import json
import subprocess

import pytest

FIRST = [
    {"engine": "ours", "texts/s": 10.0, "faster by": 1.0},
    {"engine": "peer", "texts/s": 4.0, "faster by": 2.5},
]
SECOND = [
    {"engine": "ours", "texts/s": 20.0, "faster by": 1.0},
    {"engine": "another", "texts/s": 9.0, "faster by": 2.0},
    {"engine": "peer", "texts/s": 4.0, "faster by": 5.0},
]


@pytest.fixture
def measuring(repository, monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(repository / "benchmarks")
    found = importlib.import_module("measuring")
    monkeypatch.setattr(found, "RESULTS", tmp_path / "benchmarks" / "results")
    found.RESULTS.parent.mkdir()
    return found


def git(folder, *words):
    who = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    return subprocess.run(
        ["git", "-C", folder, *who, *words], check=True, capture_output=True, text=True
    ).stdout.strip()


def test_ratios_stand_beside_those_of_the_revision_before(measuring, tmp_path, capsys):
    git(tmp_path, "init", "-q")
    measuring.report("speed", FIRST, "made", ratios=["faster by"])
    assert "before" not in capsys.readouterr().out  # nothing is committed yet
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "measured")
    revision = git(tmp_path, "rev-parse", "--short", "HEAD")

    measuring.report("speed", SECOND, "made", ratios=["faster by"])
    header, ours, another, peer, last = capsys.readouterr().out.splitlines()
    assert header.split("  ")[-1] == "faster by, before"
    assert ours.split() == ["ours", "20", "1", "1"]
    assert another.split() == ["another", "9", "2"]
    assert peer.split() == ["peer", "4", "5", "2.5"]
    assert last == f"before: benchmarks/results/speed.json of revision {revision}"
    written = json.loads((measuring.RESULTS / "speed.json").read_text())
    assert written["rows"] == SECOND

    measuring.report("speed", SECOND, "made")
    assert "before" not in capsys.readouterr().out


def test_of_a_folder_of_a_repository_the_last_file_that_was_there_counts(measuring, tmp_path, monkeypatch):
    monkeypatch.setattr(measuring, "RESULTS", tmp_path / "inner" / "benchmarks" / "results")
    measuring.RESULTS.parent.mkdir(parents=True)
    git(tmp_path, "init", "-q")
    measuring.report("speed", FIRST, "made")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "measured")
    revision = git(tmp_path, "rev-parse", "--short", "HEAD")
    git(tmp_path, "rm", "-q", measuring.RESULTS / "speed.json")
    git(tmp_path, "commit", "-qm", "removed")
    (tmp_path / "inner" / "benchmarks").mkdir(parents=True, exist_ok=True)
    assert measuring.committed("speed") == (revision, FIRST)


def test_outside_a_repository_there_is_no_revision(measuring, capsys):
    measuring.report("speed", FIRST, "made", ratios=["faster by"])
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["engine", "ours", "peer"]


def test_every_benchmark_that_compares_shows_its_ratios_beside_those_of_before(repository):
    for script in (repository / "benchmarks").glob("bench_*.py"):
        source = script.read_text()
        assert ("speedup(" in source or "np.divide(" in source) == ("ratios=[" in source), script.name


def test_a_column_that_the_first_row_lacks_is_shown(measuring, capsys):
    measuring.report("speed", [{"engine": "ours"}, {"engine": "peer", "100,000 texts": 3.0}], "made")
    header, ours, peer = capsys.readouterr().out.splitlines()
    assert header.split("  ")[-1] == "100,000 texts"
    assert (ours.split(), peer.split()) == (["ours"], ["peer", "3"])
