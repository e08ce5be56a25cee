"""Rows of numbers in a file that outlives a kill: the next run makes what is missing."""

import hashlib
import time
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from pipeline.core import json_text, resumable, seal
from pipeline.core.atomic import disk_errors, write_text
from pipeline.core.progress import progress, say

READ_AT_A_TIME = 1 << 20
DTYPES = ("float32", "uint8")

Block = TypeVar("Block")


def made(
    label: str,
    unit: str,
    file: Path,
    count: int,
    blocks: Iterable[Block],
    make: Callable[[Block], NDArray],
    how: str,
    seconds: float,
) -> np.memmap:
    """Rows (count, d) that are made some at a time into a file, and read as they are asked for.

    Beside it a file of the same name in JSON says how much has been made. A run that finds both goes on from
    there.

    Args:
        label: what the rows are, for the progress.
        unit: what they are of, in the plural.
        file: where they lie; its folder is there.
        count: how many there are, 1 at least.
        blocks: what they are made of; every run cuts it alike.
        make: the rows (n, d) of a block, of one of `DTYPES`.
        how: they are made, as the precision; what was made otherwise is made again.
        seconds: how often the other file is written: a kill costs as much, and a block.

    Raises:
        UserError: the disk is full.
    """
    with disk_errors(file):
        whole = _Whole(file, how)
        if whole.rows == count:
            resumable.gone_on_from(file.parent)
        else:
            resumable.made_anew()
        with file.open("ab") as out, progress(label, count, unit, done=whole.rows) as advance:
            written = time.monotonic()
            for block in islice(blocks, whole.blocks, None):
                rows = np.ascontiguousarray(make(block))
                out.write(rows.data)  # tofile does not notice a full disk
                whole.add(rows)
                advance(len(rows))
                if time.monotonic() - written > seconds:
                    out.flush()
                    whole.write()
                    written = time.monotonic()
        fits = file.stat().st_size == count * whole.row_bytes
        if whole.rows != count or not fits:  # blocks that are cut otherwise, or another process that writes
            whole.drop()
            raise RuntimeError(f"{file} has {whole.rows} rows of {count}")
        whole.write()
    return np.memmap(file, whole.dtype, "r", shape=(count, whole.dim))


class _Whole:
    """How much of a file of rows is as it was made; what lies behind that is cut off.

    Args:
        file: which need not be there.
        how: its rows are to be made.
    """

    def __init__(self, file: Path, how: str) -> None:
        self._file, self._record, self._how = file, file.with_suffix(".json"), how
        self.blocks = self.rows = self.dim = 0
        self.dtype = DTYPES[0]
        self._digest = hashlib.sha256()
        if not self._go_on():
            self.drop()

    def _go_on(self) -> bool:
        """Whether the file has what the record says; it has no more then."""
        if not (self._record.exists() and self._file.exists()):
            return False
        if self._take():
            return True
        say(f"{self._file} is damaged, or was made otherwise: it is made again")
        self._digest = hashlib.sha256()
        return False

    def _take(self) -> bool:
        if seal.fault(self._record):
            return False
        keys = ("blocks", "rows", "dim", "dtype", "sha256", "how")
        try:
            told = json_text.parse(self._record.read_text(encoding="utf-8"))
            blocks, rows, dim, dtype, digest, how = (told[key] for key in keys)
            size = int(rows) * int(dim) * np.dtype(dtype).itemsize
        except (LookupError, TypeError, ValueError):  # a cut file has no seal
            return False
        with self._file.open("r+b") as file:
            for start in range(0, size, READ_AT_A_TIME):
                self._digest.update(file.read(min(READ_AT_A_TIME, size - start)))
            if self._digest.hexdigest() != digest or how != self._how:
                return False
            file.truncate(size)
        self.blocks, self.rows, self.dim, self.dtype = blocks, rows, dim, dtype
        return True

    def add(self, rows: NDArray) -> None:
        """Count a block's rows (n, d), which are in the file now."""
        self._digest.update(rows.data)
        self.blocks += 1
        self.rows += len(rows)
        self.dim, self.dtype = rows.shape[1], rows.dtype.name

    @property
    def row_bytes(self) -> int:
        """Of a row."""
        return self.dim * np.dtype(self.dtype).itemsize

    def drop(self) -> None:
        """Remove both files."""
        self._record.unlink(missing_ok=True)
        self._file.unlink(missing_ok=True)

    def write(self) -> None:
        """Say it in the record."""
        told = {"blocks": self.blocks, "rows": self.rows, "dim": self.dim, "dtype": self.dtype}
        digest = self._digest.hexdigest()
        write_text(self._record, seal.to_json({**told, "how": self._how, "sha256": digest}))
