"""What people do with DVC works here: experiments side by side, `dvc add`, another commit."""

import shutil

import pytest
from project import Project

COMMIT = "git add -A && git -c user.name=t -c user.email=t@t commit -qm"


@pytest.fixture(scope="module")
def tracked(first_run, tmp_path_factory) -> Project:
    """A project after its first run, committed, whose raw files are tracked."""
    root = tmp_path_factory.mktemp("habits")
    shutil.copytree(first_run[0], root, symlinks=True, dirs_exist_ok=True)
    made = Project(root)
    (root / "data/raw/nltk_data/file").touch()  # as little as DVC tracks
    made.shell("dvc add -q data/raw/*.txt data/raw/*.tsv data/raw/nltk_data")
    made.repro()
    made.shell(f"git config user.name t && git config user.email t@t && {COMMIT} run")
    return made


def test_what_is_added_lies_in_git_as_its_dvc_file(tracked):
    raw = set(tracked.shell("git ls-files data/raw").split())
    names = ("dev.tsv", "nltk_data", "test.tsv", "texts.txt", "triplets.tsv")
    assert raw == {f"data/raw/{name}.dvc" for name in names}
    assert tracked.shell("git status --short") == ""
    assert "up to date" in tracked.shell("dvc status")


def test_git_keeps_of_the_report_what_a_reader_compares(tracked):
    kept = tracked.shell("git ls-files reports").split()
    assert {path for path in kept if not path.startswith("reports/plots/")} == {
        "reports/leaderboard.md",
        "reports/summary.json",
    }
    assert {path.rpartition(".")[2] for path in kept if path.startswith("reports/plots/")} == {"svg", "png"}


def test_experiments_run_side_by_side(tracked):
    for samples in (150, 160):
        tracked.shell(f"dvc exp run --queue -S significance.samples={samples}")
    tracked.shell("timeout 240 dvc exp run --run-all --jobs 2")
    shown = tracked.shell("dvc exp show --csv --drop '.*avg|.*kept|.*mb|.*ms'")
    assert shown.count("Success") == 2, shown


def test_another_commit_is_a_checkout_away(tracked):
    page = (tracked.root / "reports/index.html").read_bytes()
    tracked.shell("git checkout -qb other")
    tracked.params["significance"]["samples"] = 170
    assert tracked.repro()[0] == {"significance", "report"}
    tracked.shell(f"{COMMIT} other")
    assert (tracked.root / "reports/index.html").read_bytes() != page
    tracked.shell("git checkout -q - && dvc checkout -q")
    assert "up to date" in tracked.shell("dvc status")
    assert (tracked.root / "reports/index.html").read_bytes() == page
