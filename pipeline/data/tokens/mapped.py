"""Arrays in files that may be larger than memory, read so that few of their pages stay in this process."""

import mmap
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]


def map_file(path: Path, dtype: type[np.generic], shape: tuple[int, ...]) -> NDArray:
    """A file as a read-only array; an empty one cannot be mapped."""
    return np.memmap(path, dtype, "r", shape=shape) if np.prod(shape) else np.empty(shape, dtype)


def in_parts(array: NDArray, rows: int) -> Iterator[NDArray]:
    """Slices of `rows` rows, in order; a mapped file's pages are given back after each."""
    for start in range(0, len(array), rows):
        yield array[start : start + rows]
        mapped = getattr(array, "_mmap", None)
        if mapped is not None and hasattr(mmap, "MADV_DONTNEED"):
            mapped.madvise(mmap.MADV_DONTNEED)


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


def _place(array: np.memmap) -> int:
    """Where in its file a mapped array or a slice of one starts, in bytes: `offset` is the whole one's."""
    whole = array
    while isinstance(whole.base, np.memmap):
        whole = whole.base
    return int(whole.offset + array.ctypes.data - whole.ctypes.data)
