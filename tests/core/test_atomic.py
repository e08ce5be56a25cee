import os
import signal
import stat
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from killed import killed_write
from refusals import refuses
from safetensors.numpy import save_file
from small_disk import disk_of
from tokenizers import Tokenizer
from tokenizers.models import WordLevel

from pipeline.core import atomic
from pipeline.core.atomic import (
    atomic_file,
    atomic_folder,
    is_abandoned,
    remove_abandoned,
    remove_folder,
    scratch_folder,
    write_text,
)

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


@pytest.mark.parametrize("stop", [None, *STOPS])
def test_a_scratch_folder_is_gone_with_its_block(tmp_path, stop):
    with pytest.raises(stop) if stop else nullcontext(), scratch_folder(tmp_path / "deep" / "out") as folder:
        assert folder.parent == tmp_path / "deep"
        (folder / "file").write_text("text")
        if stop:
            raise stop
    assert names(tmp_path) == ["deep"]


@pytest.mark.parametrize("stop", STOPS)
def test_a_stopped_file_leaves_nothing_behind_and_the_old_content(tmp_path, stop):
    old = tmp_path / "old"
    old.write_text("old")
    for path in (old, tmp_path / "new"):
        with pytest.raises(stop):
            stop_in_a_file(path, stop)
    assert names(tmp_path) == ["old"]
    assert old.read_text() == "old"


def save_tensors(path):
    save_file({"ones": np.ones(1000)}, path)


def save_table(path):
    pl.DataFrame({"row": range(10_000)}).write_parquet(path)


def save_tokenizer(path):
    Tokenizer(WordLevel({str(number): number for number in range(1000)}, unk_token="0")).save(str(path))


@pytest.mark.parametrize("save", [save_tensors, save_table, save_tokenizer])
def test_a_full_disk_is_told_whatever_the_library_that_writes_calls_it(tmp_path, save):
    with (
        disk_of(100),
        refuses(tmp_path / "file", "File too large"),
        atomic_file(tmp_path / "file") as temporary,
    ):
        save(temporary)
    assert list(tmp_path.iterdir()) == []


def test_a_fault_that_is_not_the_disks_stays_what_it_is(tmp_path):
    with pytest.raises(Exception, match=r"\(os error 2\)$"), atomic_file(tmp_path / "file"):
        Tokenizer.from_file(str(tmp_path / "nothing.json"))
    with pytest.raises(pl.exceptions.ColumnNotFoundError), atomic_file(tmp_path / "file") as temporary:
        pl.DataFrame({"row": [1]}).select("column").write_parquet(temporary)


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
    assert names(tmp_path) == ["out", "out/fresh", "out/seal.json"]
    assert stat.S_IMODE(old.stat().st_mode) == 0o755


WRITES = """
import sys
from pathlib import Path
from pipeline.core.atomic import atomic_folder
for _ in range(100):
    with atomic_folder(Path("out")) as folder:
        (folder / "file").write_text(sys.argv[1])
"""


def test_two_processes_that_write_one_folder_both_succeed(tmp_path):
    writers = [subprocess.Popen([sys.executable, "-c", WRITES, text], cwd=tmp_path) for text in "ab"]
    assert [writer.wait() for writer in writers] == [0, 0]
    assert names(tmp_path) == ["out", "out/file", "out/seal.json"]


@pytest.mark.parametrize("stop", STOPS)
def test_a_stopped_folder_leaves_nothing_behind_and_the_old_content(tmp_path, stop):
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "file").write_text("old")
    for path in (tmp_path / "old", tmp_path / "deep" / "new"):
        with pytest.raises(stop):
            stop_in_a_folder(path, stop)
    assert names(tmp_path) == ["deep", "old", "old/file"]


DAY = 24 * 3600


def age(path: Path, seconds: float) -> None:
    then = time.time() - seconds
    os.utime(path, (then, then))


@pytest.mark.parametrize("atomic", [atomic_file, atomic_folder])
def test_what_a_living_process_writes_is_not_abandoned_however_old_it_is(tmp_path, atomic):
    with atomic(tmp_path / "out") as temporary:
        age(temporary, 300 * DAY)
        assert not is_abandoned(temporary)
        (temporary / "file" if temporary.is_dir() else temporary).write_text("whole")


def test_what_a_dead_process_of_this_machine_wrote_is_abandoned_at_once(tmp_path):
    left = killed_write(tmp_path / "file-1a.tar.gz")
    assert is_abandoned(left)
    remove_abandoned([left])
    assert names(tmp_path) == []


def elsewhere(path: Path) -> Path:
    """The same write by another machine, container or boot."""
    machine = atomic.WRITER.fullmatch(path.name)[1]
    return path.rename(path.with_name(path.name.replace(machine, machine[::-1])))


@pytest.mark.parametrize("name", [None, ".partial-1a2b.parquet", ".partial-seed-1-abc"])
def test_what_another_machine_wrote_is_abandoned_after_a_day_without_a_change(tmp_path, name):
    left = killed_write(tmp_path / "file")
    left = elsewhere(left) if name is None else left.rename(tmp_path / name)
    for seconds, abandoned in ((0, False), (DAY - 60, False), (-DAY, False), (DAY + 60, True)):
        age(left, seconds)
        assert is_abandoned(left) == abandoned


def test_a_folder_of_another_machine_is_as_young_as_its_youngest_file(tmp_path):
    folder = tmp_path / ".partial-seed-0123456789abcdef-1-xyz"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep/file").touch()
    for path in (folder, folder / "deep"):
        age(path, 2 * DAY)
    assert not is_abandoned(folder)
    age(folder / "deep/file", 2 * DAY)
    assert is_abandoned(folder)
    remove_abandoned([folder, folder])
    assert not is_abandoned(folder)
    assert names(tmp_path) == []


FOLDER = """
import os, signal, sys
from pathlib import Path
from pipeline.core.atomic import atomic_folder
with atomic_folder(Path(sys.argv[1])) as temporary:
    (temporary / "half").write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_folder_removes_what_killed_processes_left_of_it_alone(tmp_path):
    for name in ("out", "other", "out"):
        done = subprocess.run([sys.executable, "-c", FOLDER, tmp_path / name])
        assert done.returncode == -signal.SIGKILL
    assert len(list(tmp_path.iterdir())) == 2
    kept = elsewhere(next(tmp_path.glob(".partial-out-*")))
    with atomic_folder(tmp_path / "out"):
        pass
    left = {path.name for path in tmp_path.iterdir()} - {"out", kept.name}
    assert [name.startswith(".partial-other-") for name in left] == [True]


def test_a_file_removes_what_killed_processes_left_of_its_kind_alone(tmp_path):
    killed_write(tmp_path / "old.json")
    other, kept = killed_write(tmp_path / "old.tsv"), elsewhere(killed_write(tmp_path / "older.json"))
    foreign = tmp_path / ".partial-notes.json"
    foreign.touch()
    os.utime(foreign, (0, 0))
    with atomic_file(tmp_path / "one.json") as living, atomic_file(tmp_path / "two.json"):
        assert living.exists()
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {other.name, kept.name, foreign.name, "one.json", "two.json"}


REMOVE = """
import os, shutil, signal, sys
from pathlib import Path
from pipeline.core.atomic import remove_folder
shutil.rmtree = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
remove_folder(Path(sys.argv[1]))
"""


def test_a_folder_whose_removal_is_killed_is_gone_and_goes_from_the_disk_later(tmp_path):
    for name in ("out", "other"):
        with atomic_folder(tmp_path / name) as folder:
            (folder / "file").write_text("content")
    done = subprocess.run([sys.executable, "-c", REMOVE, tmp_path / "out"])
    assert done.returncode == -signal.SIGKILL
    [left] = tmp_path.glob(".partial-out-*")
    assert (left / "file").exists()
    assert not (tmp_path / "out").exists()
    remove_folder(tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["other"]


def test_all_may_read_a_folders_files_and_what_links_point_to_keeps_its_mode(tmp_path):
    other = tmp_path / "other"
    other.write_text("x")
    other.chmod(0o400)
    with atomic_folder(tmp_path / "made") as folder:
        (folder / "deep").mkdir(mode=0o700)
        (folder / "deep/own").write_text("x")
        (folder / "deep/own").chmod(0o600)
        (folder / "link").symlink_to(other)
    looked_at = (tmp_path / "made/deep", tmp_path / "made/deep/own", other)
    modes = [path.stat().st_mode & 0o777 for path in looked_at]
    assert modes == [0o755, 0o644, 0o400]
