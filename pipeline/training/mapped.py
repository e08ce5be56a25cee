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
    if not isinstance(array, np.memmap):
        return array[positions(starts, lengths)]
    found = np.empty((int(lengths.sum()), *array.shape[1:]), array.dtype)
    content, at, row_bytes = found.reshape(-1).view(np.uint8).data, 0, array.strides[0]
    with Path(str(array.filename)).open("rb", buffering=0) as file:
        for start, length in zip(starts.tolist(), (lengths * row_bytes).tolist(), strict=True):
            if os.preadv(file.fileno(), [content[at : at + length]], start * row_bytes) < length:
                raise OSError(f"{array.filename} ends before row {start}")
            at += length
    return found
