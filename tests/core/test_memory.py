"""The bound of memory of a process."""

from ctypes import CDLL
from pathlib import Path

import mapped_pages
import numpy as np
import pytest

from pipeline.core import memory


@pytest.fixture(autouse=True)
def bound(monkeypatch):
    """The default one, also after the test."""
    monkeypatch.setattr(memory, "_bound", memory.DEFAULT)
    monkeypatch.setattr(memory, "_said", set())


@pytest.mark.parametrize(
    ("gigabytes", "rows"), [(64.0, 4096), (1.5, 4096), (1.4, 2048), (1.0, 2048), (0.8, 1024), (0.5, 1024)]
)
def test_blocks_are_halved_until_they_fit(gigabytes, rows):
    memory.keep_to(gigabytes)
    assert memory.at_a_time(4096) == rows
    assert memory.at_a_time(1) == 1


def test_what_is_larger_than_the_bound_is_said_once(capsys):
    for size in (0.9e9, 1.7e9, 1.7e9):
        memory.say_if_more("an index takes", size, "do without")
    memory.keep_to(4)
    memory.say_if_more("an index takes", 2e9, "do without")
    memory.say_if_more("a teacher takes", 1e9, "take a smaller one", gigabytes=1.0)
    assert capsys.readouterr().err.splitlines() == [
        "an index takes about 2.2 GB, more than runtime.memory, 1.5 GB; do without",
        "a teacher takes about 1.5 GB, more than runtime.memory, 1 GB; take a smaller one",
    ]


def test_a_stage_that_has_held_more_is_said(capsys):
    memory.say_if_held("pipeline.a.stage", 1.4e9)
    memory.say_if_held("pipeline.a.stage", 1.63e9)
    (said,) = capsys.readouterr().err.splitlines()
    assert said.startswith("pipeline.a.stage held 1.63 GB, more than runtime.memory, 1.5 GB; pages of mapped")


@pytest.mark.parametrize("gigabytes", [0.5, 0.7])
def test_nothing_is_said_of_what_is_little_beside_any_bound(gigabytes, capsys):
    memory.keep_to(gigabytes)
    memory.say_if_more("an index takes", 1e6 + (gigabytes - memory.LEAST) * 1e9, "do without")
    assert capsys.readouterr().err == ""
    memory.say_if_more("an index takes", 1e8 + (gigabytes - memory.LEAST) * 1e9, "do without")
    assert f"about {gigabytes + 0.1:.1f} GB, more than" in capsys.readouterr().err


def test_a_training_holds_its_weights_five_times(capsys):
    memory.say_of_training("small", 100_000_000)
    memory.say_of_training("large", 400_000_000)
    assert capsys.readouterr().err.startswith("training large takes about 2.5 GB, more than")


def test_what_was_freed_is_given_back():
    status = Path("/proc/self/status")
    if not status.exists() or not hasattr(CDLL(None), "malloc_trim"):
        pytest.skip("no glibc")

    def held():
        line = next(line for line in status.read_text().splitlines() if line.startswith("RssAnon"))
        return int(line.split()[1]) / 1024

    pieces = [bytearray(20_000) for _ in range(5000)]  # too small for pages of their own
    last, full = pieces[-1], held()
    pieces.clear()
    memory.give_back()
    assert len(last) == 20_000
    assert full - held() > 80


@pytest.mark.parametrize("rows", [1, 7, 20, 100])
@pytest.mark.parametrize("shape", [(20,), (20, 3)])
def test_parts_of_an_array_and_of_a_file_are_the_whole(tmp_path, rows, shape):
    whole = np.random.default_rng(0).integers(100, size=shape)
    whole.tofile(tmp_path / "array.bin")
    for array in (whole, np.memmap(tmp_path / "array.bin", whole.dtype, "r", shape=shape)):
        parts = [np.array(part) for part in memory.in_parts(array, rows)]
        assert all(len(part) == rows for part in parts[:-1])
        assert np.array_equal(np.concatenate(parts), whole)


@mapped_pages.told
def test_what_is_let_go_is_read_again_from_the_file(tmp_path):
    np.arange(99_999).tofile(tmp_path / "array.bin")
    array = np.memmap(tmp_path / "array.bin", np.int64, "r", shape=(99_999,))
    for part in (array, array[5:70_000]):
        assert part.sum() == sum(range(int(part[0]), int(part[-1]) + 1))
        assert mapped_pages.resident(tmp_path / "array.bin") > 0
        memory.let_go(part)
        assert mapped_pages.resident(tmp_path / "array.bin") == 0
    assert array[70_000] == 70_000
    memory.let_go(np.arange(3))  # of an array in memory, there is nothing to let go
