"""Which stages DVC would run."""

import os
from pathlib import Path

import pytest
from dvc.repo import Repo
from refusals import refuses

from pipeline.planning import sharing
from pipeline.planning.sharing import shares_bytes
from pipeline.planning.stale import out_of_date

STAGES = """
stages:
  first: {cmd: cp in.txt out.txt, deps: [in.txt], outs: [out.txt]}
  second: {cmd: cp out.txt end.txt, deps: [out.txt], outs: [end.txt]}
  apart: {cmd: cp other.txt else.txt, deps: [other.txt], outs: [else.txt]}
"""


@pytest.fixture
def checkout(folder: Path) -> Path:
    for name in ("in.txt", "other.txt"):
        Path(name).write_text("a")
    Path("dvc.yaml").write_text(STAGES)
    with Repo.init(no_scm=True) as repository:
        repository.reproduce()
    return folder


def test_a_stage_after_one_that_is_out_of_date_is_too(checkout):
    assert out_of_date(checkout) == frozenset()
    Path("in.txt").write_text("b")
    assert out_of_date(checkout) == {"first", "second"}
    Path("else.txt").unlink()
    assert out_of_date(checkout) == {"first", "second", "apart"}


def test_without_dvc_nobody_knows(folder):
    assert out_of_date(folder) is None
    assert not shares_bytes(folder)


def test_links_share_their_bytes(checkout):
    with Repo(str(checkout)).config.edit() as config:
        config["cache"]["type"] = ["copy"]
    assert not shares_bytes(checkout)
    with Repo(str(checkout)).config.edit() as config:
        config["cache"]["type"] = ["hardlink"]
    assert shares_bytes(checkout)


@pytest.mark.parametrize("lost", ["a link to nothing", b"caf\xe9.txt"])
def test_what_dvc_cannot_read_is_told_in_a_line(checkout, lost):
    Path("folder").mkdir()
    Path("folder/a.txt").write_text("a")
    Path("dvc.yaml").write_text(STAGES + "  of_a_folder: {cmd: ls folder > list.txt, deps: [folder]}\n")
    if isinstance(lost, bytes):
        Path(os.fsdecode(b"folder/" + lost)).write_text("a")
    else:
        Path("folder/b.txt").symlink_to("nowhere")
    with refuses("DVC cannot read", "mend or remove"):
        out_of_date(checkout)


@pytest.mark.parametrize(
    ("asked", "file", "content"),
    [
        (out_of_date, "dvc.lock", "<<<<<<< ours\n=======\n>>>>>>> theirs\n"),
        (out_of_date, "dvc.yaml", "stages: {a: [}\n"),
        (out_of_date, ".dvc/config", "[core\n"),
        (shares_bytes, ".dvc/config", "[core\n"),
    ],
)
def test_damaged_files_of_dvc_are_told_in_a_line(checkout, asked, file, content):
    Path(file).write_text(content)
    with refuses(file, "mend"):
        asked(checkout)


def test_another_command_of_dvcs_is_waited_for(checkout):
    with Repo(str(checkout)) as repository, repository.lock, refuses("another command of DVC's is at work"):
        out_of_date(checkout)


def test_where_nothing_can_be_written_nothing_is_shared():
    assert not sharing._reflinks(Path("/proc/self"))
