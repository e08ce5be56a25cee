import os
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.data.tokens import mapped as module
from pipeline.data.tokens.mapped import gather, map_file, positions, read_ahead

SPANS = st.lists(st.tuples(st.integers(0, 15), st.integers(0, 5)), max_size=8)


@pytest.fixture(scope="module", params=[(20,), (20, 3)], ids=["flat", "rows"])
def both(request, tmp_path_factory):
    """An array in memory, and the same in a file."""
    array = np.random.default_rng(0).integers(100, size=request.param).astype(np.int32)
    path = tmp_path_factory.mktemp("mapped") / "array.bin"
    array.tofile(path)
    return array, map_file(path, np.int32, array.shape)


@given(spans=SPANS)
def test_gather_joins_slices_of_an_array_and_of_a_file(both, spans):
    starts, lengths = np.array(spans, np.int64).reshape(-1, 2).T
    for array in both:
        expected = np.concatenate([array[:0], *(array[start : start + length] for start, length in spans)])
        assert np.array_equal(gather(array, starts, lengths), expected)
    assert positions(starts, lengths).tolist() == [at for s, length in spans for at in range(s, s + length)]


@pytest.mark.parametrize(
    "part", [slice(5, None), slice(5, 12), slice(None, None, 2), slice(None, None, -1), slice(20, None)]
)
def test_gather_from_a_slice_of_a_file(both, part):
    array, mapped = both
    starts = np.array([0, 1] if len(array[part]) else [], np.int64)
    lengths = np.full(len(starts), 3)
    expected = np.concatenate([array[:0], *(array[part][start : start + 3] for start in starts)])
    assert np.array_equal(gather(mapped[part], starts, lengths), expected)
    assert np.array_equal(gather(mapped[part][:9][:7], starts, lengths), expected)
    assert np.array_equal(gather(mapped[part].copy(), starts, lengths), expected)


def test_gather_from_a_file_that_is_mapped_behind_its_head(tmp_path):
    array = np.arange(40, dtype=np.int32).reshape(20, 2)
    (tmp_path / "array.bin").write_bytes(bytes(12) + array.tobytes())
    mapped = np.memmap(tmp_path / "array.bin", np.int32, "r", offset=12, shape=(20, 2))
    assert gather(mapped[3:], np.array([4]), np.array([2])).tolist() == array[7:9].tolist()


def test_the_system_may_give_less_than_is_asked_for(both, monkeypatch):
    array, mapped = both
    whole = os.preadv
    monkeypatch.setattr(os, "preadv", lambda file, parts, at: whole(file, [parts[0][:3]], at))
    found = gather(mapped, np.array([2, 9]), np.array([4, 1]))
    assert np.array_equal(found, np.concatenate([array[2:6], array[9:10]]))


def test_a_file_that_has_become_shorter_is_told(tmp_path):
    path = tmp_path / "array.bin"
    np.arange(10).tofile(path)
    array = map_file(path, np.int64, (10,))
    np.arange(5).tofile(path)
    with pytest.raises(OSError, match=r"array\.bin.*row 7"):
        gather(array, np.array([2, 7]), np.array([1, 1]))


def test_an_empty_file(tmp_path):
    (tmp_path / "empty.bin").touch()
    assert map_file(tmp_path / "empty.bin", np.float32, (0, 3)).shape == (0, 3)


@pytest.fixture
def on_disk(tmp_path):
    """Rows of a page and a bit each, none of which the system holds."""
    path = tmp_path / "array.bin"
    with path.open("wb") as file:
        file.write(np.arange(400 * 1100, dtype=np.int32).tobytes())
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    if held(path, 50):
        pytest.skip("the system always holds this folder's files")
    return map_file(path, np.int32, (400, 1100))


def held(path, *rows):
    """Which rows the system has in its cache, by their first and last bytes; it may begin to read others."""

    def has(file, place):
        try:
            return os.preadv(file.fileno(), [bytearray(1)], place, os.RWF_NOWAIT) == 1
        except BlockingIOError:
            return False

    with path.open("rb", buffering=0) as file:
        return [row for row in rows if has(file, 4400 * row) and has(file, 4400 * row + 4399)]


LINUX = pytest.mark.skipif(not hasattr(os, "RWF_NOWAIT"), reason="the system does not tell what it holds")


@LINUX
@pytest.mark.parametrize("by", ["advice", "reading"])
def test_rows_that_are_read_ahead_are_in_memory_soon_and_no_others(on_disk, by, monkeypatch):
    if by == "reading":  # as on macOS
        monkeypatch.delattr(os, "posix_fadvise")
    wanted, others = [350, 7, 8, 390, 20], [0, 100, 200, 300, 330, 399]
    read_ahead(on_disk[5:], np.array([345, 2, 385, 15, 60]), np.array([1, 2, 1, 1, 0]))
    until = time.monotonic() + 20
    while held(on_disk.filename, *wanted) != wanted and time.monotonic() < until:
        time.sleep(0.01)
    assert held(on_disk.filename, *wanted, *others) == wanted


@LINUX
def test_the_system_is_asked_for_each_page_once_and_for_nothing_that_it_holds(on_disk, monkeypatch):
    asked = []
    monkeypatch.setattr(module, "_expect", lambda file, start, length: asked.append((start, length)))
    rows = np.array([9, 300, 8, 9])
    read_ahead(on_disk, rows, np.ones_like(rows))
    page = module.mmap.PAGESIZE
    bounds = [
        (start * 4400 // page * page, -(-end * 4400 // page) * page) for start, end in ((8, 10), (300, 301))
    ]
    assert asked == [(start, end - start) for start, end in bounds]
    asked.clear()
    gather(on_disk, rows, np.ones_like(rows))
    read_ahead(on_disk, rows, np.ones_like(rows))
    assert asked == []


def test_what_is_in_memory_is_not_read_ahead():
    read_ahead(np.arange(9), np.array([1, 5]), np.array([2, 99]))
