import stat
from pathlib import Path

import pytest

from pipeline.core.atomic import atomic_file, atomic_folder, write_text

STOPS = [ValueError, KeyboardInterrupt, SystemExit]


def names(folder) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def stop_in_a_file(path: Path, stop: type[BaseException]) -> None:
    with atomic_file(path) as temporary:
        temporary.write_text("half")
        raise stop


def stop_in_a_folder(path: Path, stop: type[BaseException]) -> None:
    with atomic_folder(path) as temporary:
        (temporary / "half").write_text("half")
        raise stop


def test_a_file_appears_whole_in_a_new_folder(tmp_path):
    path = tmp_path / "deep" / "file.txt"
    with atomic_file(path) as temporary:
        temporary.write_text("part")
        assert not path.exists()
        assert (temporary.parent, temporary.suffix) == (path.parent, ".txt")
    assert path.read_text() == "part"
    assert names(tmp_path) == ["deep", "deep/file.txt"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


@pytest.mark.parametrize("stop", STOPS)
def test_a_stopped_file_leaves_nothing_behind_and_the_old_content(tmp_path, stop):
    old = tmp_path / "old"
    old.write_text("old")
    for path in (old, tmp_path / "new"):
        with pytest.raises(stop):
            stop_in_a_file(path, stop)
    assert names(tmp_path) == ["old"]
    assert old.read_text() == "old"


def test_shorter_text_replaces_the_old_whole(tmp_path):
    write_text(tmp_path / "file", "a long old text")
    write_text(tmp_path / "file", "ü")
    assert (tmp_path / "file").read_bytes() == "ü".encode()


def test_a_folder_replaces_the_old_whole(tmp_path):
    old = tmp_path / "out"
    (old / "deep").mkdir(parents=True)
    (old / "deep" / "stale").write_text("old")
    with atomic_folder(old) as temporary:
        (temporary / "fresh").write_text("new")
        assert names(old) == ["deep", "deep/stale"]
    assert names(tmp_path) == ["out", "out/fresh"]
    assert stat.S_IMODE(old.stat().st_mode) == 0o755


@pytest.mark.parametrize("stop", STOPS)
def test_a_stopped_folder_leaves_nothing_behind_and_the_old_content(tmp_path, stop):
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "file").write_text("old")
    for path in (tmp_path / "old", tmp_path / "deep" / "new"):
        with pytest.raises(stop):
            stop_in_a_folder(path, stop)
    assert names(tmp_path) == ["deep", "old", "old/file"]
