"""Modes, links and what was there before, of files and folders that are written whole or not at all."""

import errno
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from test_atomic import names

from pipeline.core.atomic import atomic_folder, remove_folder, write_text
from pipeline.core.errors import UserError

MODES = """
import os, sys
from pathlib import Path
os.umask(int(sys.argv[1], 8))
from pipeline.core.atomic import atomic_folder, write_text
write_text(Path("file"), "x")
with atomic_folder(Path("folder")) as folder:
    (folder / "part").write_text("x")
"""


@pytest.mark.parametrize(("umask", "file", "folder"), [("077", 0o600, 0o700), ("002", 0o664, 0o775)])
def test_those_may_read_whom_the_umask_lets(tmp_path, umask, file, folder):
    subprocess.run([sys.executable, "-c", MODES, umask], cwd=tmp_path, check=True)
    places = [tmp_path / place for place in ("file", "folder/part", "folder")]
    assert [stat.S_IMODE(place.stat().st_mode) for place in places] == [file, file, folder]


@pytest.mark.parametrize(("before", "after"), [(0o600, 0o600), (0o660, 0o660), (0o444, 0o644)])
def test_a_file_that_is_replaced_keeps_its_mode_unless_it_was_to_be_read_alone(tmp_path, before, after):
    path = tmp_path / "private.txt"
    path.write_text("old")
    path.chmod(before)
    write_text(path, "new")
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("new", after)


def test_a_link_to_a_folder_stays_one_until_it_is_removed(tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "disk/real").mkdir()
    (tmp_path / "disk/real/old").write_text("old")
    (tmp_path / "link").symlink_to("disk/real")
    with atomic_folder(tmp_path / "link", sealed=False) as folder:
        (folder / "new").write_text("new")
    assert (tmp_path / "link").is_symlink()
    assert names(tmp_path / "disk") == ["real", "real/new"]
    remove_folder(tmp_path / "link")
    assert names(tmp_path) == ["disk"]


@pytest.mark.parametrize(
    "stop", [OSError(errno.ENOSPC, "full"), OSError(errno.EIO, "bad"), KeyboardInterrupt()]
)
@pytest.mark.parametrize("there", [True, False])
def test_what_cannot_take_its_place_leaves_what_was_there(tmp_path, monkeypatch, stop, there):
    place, real = tmp_path / "precious", Path.replace
    if there:
        place.mkdir()
        (place / "file").write_text("old")

    def failing(path: Path, target: Path) -> Path:
        """The second of two renames: that of the new folder."""
        if target == place and (path / "new").exists():
            raise stop
        return real(path, target)

    monkeypatch.setattr(Path, "replace", failing)
    with pytest.raises((UserError, KeyboardInterrupt)), atomic_folder(place) as folder:
        (folder / "new").write_text("new")
    assert names(tmp_path) == (["precious", "precious/file"] if there else [])


@pytest.mark.parametrize(
    ("number", "told"), [(errno.EIO, True), (errno.EINVAL, False), (errno.ENOTSUP, False)]
)
def test_a_disk_that_does_not_write_is_told_and_one_that_cannot_wait_is_not(
    tmp_path, monkeypatch, number, told
):
    def failing(_descriptor):
        raise OSError(number, "fsync")

    monkeypatch.setattr("os.fsync", failing)
    if told:
        with pytest.raises(UserError, match="cannot be written"):
            write_text(tmp_path / "file", "x")
        assert names(tmp_path) == []
        return
    write_text(tmp_path / "file", "x")
    assert (tmp_path / "file").read_text() == "x"
