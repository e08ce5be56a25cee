import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from encode_runs import (
    OUT,
    SMALL_PIECE,
    encode,
    published,
    run_short_of_disk,
    stored,
    write_params,
    write_texts,
)
from refusals import refuses

from pipeline.teacher.encoding.store import filling

SMALL_DISK = """
set -e
mount -t tmpfs -o size=40k none .cache
"$0" -m pipeline.teacher.encoding.encode --texts corpus.parquet --out vectors/corpus 2>full && exit 1
test ! -e vectors/corpus; find .cache -name '.partial-*' >left; find .cache -name '*.parquet' | wc -l >kept
mount -o remount,size=8m .cache
"$0" -m pipeline.teacher.encoding.encode --texts corpus.parquet --out vectors/corpus 2>resumed
"""


@pytest.fixture
def files(folder, monkeypatch):
    """What is published where there is room; the store is empty again."""
    monkeypatch.setattr(filling, "PIECE_CHARACTERS", SMALL_PIECE)
    write_params(shard_rows=64)
    write_texts(f"text {i}" for i in range(500))
    files = encode()
    shutil.rmtree(OUT)
    Path(".cache").rename("roomy")
    return files


def largest(folder):
    return max(path.stat().st_size for path in Path(folder).rglob("*.parquet"))


@pytest.mark.parametrize("full", ["store", "set"])
def test_a_full_disk_is_one_line_and_leaves_nothing_half_written(folder, files, processes, full, capsys):
    room = {"store": largest("roomy") - 1, "set": largest("roomy")}[full]
    assert room < max(map(len, files.values()))
    process = processes.Process(target=run_short_of_disk, args=(folder, room))
    process.start()
    process.join()
    assert process.exitcode == 1
    message = Path("stderr").read_text().splitlines()[-1]
    where = {"store": r".cache/vectors/", "set": "vectors/corpus "}[full]
    assert message.startswith(f"error: {where}")
    assert "cannot be written (File too large); mend that and run the same command again" in message
    assert "Traceback" not in Path("stderr").read_text()
    assert not list(folder.rglob(".partial-*"))
    assert not OUT.exists()

    kept = len(stored())
    assert kept < len(list(Path("roomy").rglob("*.parquet"))) if full == "store" else kept
    assert encode() == files
    assert full == "store" or " 0 encoded, 500 taken" in capsys.readouterr().err


@pytest.mark.parametrize("workers", [1, 2])
def test_a_small_disk_fills_up_and_grows(folder, files, workers):
    write_params(shard_rows=64, workers=workers)
    Path(".cache").mkdir()
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", SMALL_DISK, sys.executable], capture_output=True, text=True
    )
    if not Path("full").exists():
        pytest.skip(f"no mount of one's own: {done.stderr}")
    assert done.returncode == 0, Path("resumed").read_text()
    said = Path("full").read_text()
    assert said.splitlines()[-1].startswith("error: .cache/vectors/")
    assert "cannot be written (No space left on device)" in said
    assert "Traceback" not in said
    assert Path("left").read_text() == ""
    assert 0 < int(Path("kept").read_text()) < 32
    assert " 0 taken from the store" not in Path("resumed").read_text()
    assert published() == files


def test_a_place_that_cannot_be_written_is_named(folder, files):
    Path("file").touch()
    write_params(cache="file/cache")
    with refuses("file/cache/vectors/", "Not a directory"):
        encode()
    write_params()
    Path("vectors").rmdir()
    Path("vectors").touch()
    with refuses("vectors/corpus ", "File exists"):
        encode()


def test_a_file_of_the_store_that_cannot_be_read_is_named(folder, files):
    encode()
    unreadable = stored()[0]
    unreadable.unlink()
    unreadable.mkdir()
    with refuses(unreadable, "Is a directory"):
        encode()
