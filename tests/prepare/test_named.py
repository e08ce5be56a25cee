"""Which files a path or a glob names."""

import os
import tempfile
from pathlib import Path

import pytest
from refusals import refuses

from pipeline.prepare import origins
from pipeline.prepare.prepare import _sees
from pipeline.prepare.readers.named import expand, named

NOBODY = 65534


def test_globs_are_sorted_and_reach_into_folders(tmp_path):
    (tmp_path / "sub").mkdir()
    for name in ("b.txt", "a.txt", "sub/c.txt"):
        (tmp_path / name).write_text("x")
    found = expand(str(tmp_path / "**" / "*.txt"), "corpus.sources.0.path")
    assert [path.name for path in found] == ["a.txt", "b.txt", "c.txt"]


def test_a_glob_passes_over_nothing_that_it_cannot_read(tmp_path):
    (tmp_path / "a.txt").write_text("x")
    (tmp_path / "b.txt").symlink_to(tmp_path / "unmounted" / "b.txt")
    with refuses("corpus.sources.0.path", tmp_path / "b.txt", "a link to nothing", "remove it"):
        expand(f"{tmp_path}/*.txt", "corpus.sources.0.path")
    (tmp_path / "b.txt").unlink()
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.txt")).write_text("x")
    with refuses("corpus.sources.0.path", "caf\\udce9.txt", "not UTF-8", "rename"):
        expand(f"{tmp_path}/*.txt", "corpus.sources.0.path")


@pytest.mark.parametrize("pattern", ["*.txt", "*/*.txt", "**/*.txt", "shut/*.txt", "shut/a.txt"])
def test_a_folder_that_may_not_be_read_is_not_empty(pattern):
    user = os.geteuid()
    with tempfile.TemporaryDirectory() as name:  # that of pytest is closed to others
        folder = Path(name)
        (folder / "shut").mkdir()
        (folder / "shut" / "a.txt").write_text("x")
        (folder / "b.txt").write_text("x")
        folder.chmod(0o755)
        (folder / "shut").chmod(0)
        try:
            if not user:
                os.seteuid(NOBODY)
            if pattern == "*.txt":
                assert expand(f"{folder}/{pattern}", "path") == [folder / "b.txt"]
                return
            with refuses("path", folder / "shut", "may not be read", "permissions"):
                expand(f"{folder}/{pattern}", "path")
        finally:
            os.seteuid(user)
            (folder / "shut").chmod(0o755)


@pytest.mark.parametrize(
    ("name", "fix"),
    [("none.txt", "correct the path"), ("*.csv", "correct the path"), ("", "*.txt")],
)
def test_a_path_without_a_file(tmp_path, name, fix):
    with refuses("corpus.sources.0.path", f"{tmp_path}/{name}", fix):
        expand(f"{tmp_path}/{name}", "corpus.sources.0.path")


BRACKETED = ["my texts [1].txt", "really?.txt"]


@pytest.mark.parametrize("name", BRACKETED)
def test_a_file_whose_name_looks_like_a_glob_is_meant_itself(folder, name):
    for one in (name, "my texts 1.txt", "reallyx.txt"):
        Path(one).write_text("x")
    assert expand(name, "path") == named(name) == [Path(name)]
    assert [file["name"] for file in origins._files([name])] == [name]
    assert _sees(folder, name)


@pytest.mark.parametrize("place", ["we [ird]", "a*b/c?"])
def test_a_root_is_no_part_of_the_glob(tmp_path, place):
    root = tmp_path / place
    (root / "raw [2]").mkdir(parents=True)
    for name in ("raw [2]/b.txt", "a.txt", "b.txt"):
        (root / name).write_text("x")
    assert expand("[ab].txt", "path", root) == [root / "a.txt", root / "b.txt"]
    assert expand("**/b.txt", "path", root) == [root / "b.txt", root / "raw [2]/b.txt"]
    assert expand("raw [2]/b.txt", "path", root) == [root / "raw [2]/b.txt"]
    assert expand(str(root / "raw [2]/b.txt"), "path", tmp_path) == [root / "raw [2]/b.txt"]
    with refuses("path", "c*.txt", "matches no file"):
        expand("c*.txt", "path", root)
