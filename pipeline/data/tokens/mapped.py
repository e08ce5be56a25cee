"""Arrays in files that may be larger than memory, read so that few of their pages stay in this process."""

import mmap
import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]

PROBES = 16
"""Rows that are looked for in the system's cache: where all of these are, the others need no asking."""


def map_file(path: Path, dtype: type[np.generic], shape: tuple[int, ...]) -> NDArray:
    """A file as a read-only array; an empty one cannot be mapped."""
    return np.memmap(path, dtype, "r", shape=shape) if np.prod(shape) else np.empty(shape, dtype)


def positions(starts: Rows, lengths: Rows) -> Rows:
    """All of start, start + 1, ..., start + length - 1 of each start and length, end to end."""
    ends = np.cumsum(lengths)
    return np.repeat(starts - ends + lengths, lengths) + np.arange(lengths.sum())


def gather(array: NDArray, starts: Rows, lengths: Rows) -> NDArray:
    """Rows array[start : start + length] of each start and length, end to end.

    Those of a mapped file are read from it: the system maps half a megabyte around each row that is touched.

    Raises:
        OSError: the file has become shorter.
    """
    if not isinstance(array, np.memmap) or array.filename is None or not array.flags.c_contiguous:
        return array[positions(starts, lengths)]
    found = np.empty((int(lengths.sum()), *array.shape[1:]), array.dtype)
    content, first, row_bytes = found.reshape(-1).view(np.uint8).data, _place(array), array.strides[0]
    with Path(str(array.filename)).open("rb", buffering=0) as file:
        for start, length in zip(starts.tolist(), (lengths * row_bytes).tolist(), strict=True):
            part, content = content[:length], content[length:]
            at = first + start * row_bytes
            while part:
                read = os.preadv(file.fileno(), [part], at)  # may be less than is asked for
                if not read:
                    raise OSError(f"{array.filename} ends before row {start}")
                part, at = part[read:], at + read
    return found


def read_ahead(array: NDArray, starts: Rows, lengths: Rows) -> None:
    """Let the system read what `gather` will want of a mapped file, all of it at once, and do not wait.

    `gather` waits for the disk row by row. Of a file that the system seems to hold, nothing is asked.
    """
    if not isinstance(array, np.memmap) or array.filename is None or not array.flags.c_contiguous:
        return
    there = lengths > 0
    row_bytes, page = array.strides[0], mmap.PAGESIZE
    begins = _place(array) + starts[there] * row_bytes
    with Path(str(array.filename)).open("rb", buffering=0) as file:
        if _are_held(file.fileno(), begins[:: max(1, len(begins) // PROBES)].tolist()):
            return
        ends = (begins + lengths[there] * row_bytes - 1) // page + 1
        for first, last in _joined(begins // page, ends):
            _expect(file.fileno(), first * page, (last - first) * page)


def _are_held(file: int, places: list[int]) -> bool:
    """Whether the system has these bytes of a file in its cache; False where it does not say."""
    if not hasattr(os, "RWF_NOWAIT"):
        return False
    try:
        for place in places:
            os.preadv(file, [bytearray(1)], place, os.RWF_NOWAIT)
    except OSError:
        return False
    return True


def _joined(firsts: Rows, lasts: Rows) -> list[tuple[int, int]]:
    """Ranges [first, last) in order, those that touch as one."""
    if not len(firsts):
        return []
    order = np.argsort(firsts)
    firsts, reached = firsts[order], np.maximum.accumulate(lasts[order])
    apart = np.flatnonzero(firsts[1:] > reached[:-1]) + 1
    return list(
        zip(firsts[[0, *apart]].tolist(), reached[[*(apart - 1), len(reached) - 1]].tolist(), strict=True)
    )


def _expect(file: int, start: int, length: int) -> None:
    """Have a part of a file in the system's cache soon; macOS has to read it for that."""
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(file, start, length, os.POSIX_FADV_WILLNEED)
    else:
        os.pread(file, length, start)


def _place(array: np.memmap) -> int:
    """Where in its file a mapped array or a slice of one starts, in bytes: `offset` is the whole one's."""
    whole = array
    while isinstance(whole.base, np.memmap):
        whole = whole.base
    return int(whole.offset + array.ctypes.data - whole.ctypes.data)
