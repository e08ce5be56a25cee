"""What has its final name is on the disk: folders, files, and the names themselves."""

import os
from pathlib import Path

import pytest

from pipeline.core.atomic import atomic_folder, write_text


@pytest.fixture
def synced(monkeypatch) -> list[tuple[str, bool]]:
    """What was synced, by its name at that time, and whether the artifact `made` had its own name then."""
    found, sync = [], os.fsync

    def told(opened: int) -> None:
        sync(opened)
        path = Path(os.readlink(f"/proc/self/fd/{opened}"))
        found.append((path.name, any((folder / "made").exists() for folder in (path, *path.parents))))

    monkeypatch.setattr(os, "fsync", told)
    return found


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="only Linux tells what is open")
def test_a_folder_is_on_the_disk_with_all_it_holds_before_it_has_its_name(tmp_path, synced):
    (tmp_path / "deep/deeper").mkdir(parents=True)
    with atomic_folder(tmp_path / "deep/deeper/made") as folder:
        (folder / "inner").mkdir()
        (folder / "inner/file").write_text("x")
        (folder / "link").symlink_to(tmp_path)
        mine = folder.name
    before = {name for name, is_there in synced if not is_there}
    assert before == {"file", "inner", "seal.json", mine}
    assert synced[-1] == ("deeper", True)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="only Linux tells what is open")
def test_the_name_of_a_file_is_on_the_disk_too(tmp_path, synced):
    (tmp_path / "deep/deeper").mkdir(parents=True)
    write_text(tmp_path / "deep/deeper/made", "x")
    assert [is_there for _, is_there in synced] == [False, True]
    assert synced[-1][0] == "deeper"
