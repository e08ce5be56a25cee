"""A model's vectors in a file that outlives a kill: the next run encodes what is missing."""

import hashlib
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipeline.core import json_text, seal
from pipeline.core.atomic import disk_errors, write_text
from pipeline.core.progress import progress, say
from pipeline.params.teacher import Similarity
from pipeline.tasks.embeddings import Embeddings, Ids

READ_AT_A_TIME = 1 << 20

Encode = Callable[[Sequence[str]], NDArray[np.floating]]
"""Texts to vectors (n, dim)."""


def encoded(
    label: str,
    file: Path,
    ids: Ids,
    blocks: Iterable[Sequence[str]],
    encode: Encode,
    precision: str,
    similarity: Similarity,
    seconds: float,
) -> Embeddings:
    """Embeddings of texts that are encoded into a file, as float32, and read as they are asked for.

    Beside it a file of the same name in JSON says how much has been encoded. A run that finds both goes on
    from there.

    Args:
        label: whose vectors these are, for the progress.
        file: where they lie.
        ids: (n,), of the texts, ascending, n >= 1.
        blocks: the texts, some at a time; every run cuts them alike.
        encode: what makes vectors of a block.
        precision: in which it does so; what was made in another one is made again.
        similarity: how the model compares them.
        seconds: how often the other file is written: a kill costs as much, and a block.

    Raises:
        UserError: the disk is full.
    """
    with disk_errors(file):
        whole = _Whole(file, precision)
        with file.open("ab") as out, progress(label, len(ids), "texts", done=whole.rows) as advance:
            written = time.monotonic()
            for block in islice(blocks, whole.blocks, None):
                vectors = np.ascontiguousarray(encode(block), np.float32)
                out.write(vectors.data)  # tofile does not notice a full disk
                whole.add(vectors)
                advance(len(vectors))
                if time.monotonic() - written > seconds:
                    out.flush()
                    whole.write()
                    written = time.monotonic()
        whole.write()
    assert whole.rows == len(ids), f"{file} has {whole.rows} vectors of {len(ids)} texts"
    return Embeddings(ids, np.memmap(file, np.float32, "r", shape=(len(ids), whole.dim)), similarity)


class _Whole:
    """How much of a file of vectors is as it was encoded; what lies behind that is cut off.

    Args:
        file: which need not be there.
        precision: in which it is to be encoded.
    """

    def __init__(self, file: Path, precision: str) -> None:
        self._file, self._record, self._precision = file, file.with_suffix(".json"), precision
        self.blocks = self.rows = self.dim = 0
        self._digest = hashlib.sha256()
        if not self._go_on():
            self._record.unlink(missing_ok=True)
            file.unlink(missing_ok=True)

    def _go_on(self) -> bool:
        """Whether the file has what the record says; it has no more then."""
        if not (self._record.exists() and self._file.exists()):
            return False
        if self._take():
            return True
        say(f"{self._file} is damaged, or of another precision: its texts are encoded again")
        self._digest = hashlib.sha256()
        return False

    def _take(self) -> bool:
        if seal.fault(self._record):
            return False
        try:
            told = json_text.parse(self._record.read_text(encoding="utf-8"))
            blocks, rows, dim, digest, precision = (
                told[key] for key in ("blocks", "rows", "dim", "sha256", "precision")
            )
        except (LookupError, TypeError, ValueError):  # a cut file has no seal
            return False
        size = rows * dim * np.dtype(np.float32).itemsize
        with self._file.open("r+b") as file:
            for start in range(0, size, READ_AT_A_TIME):
                self._digest.update(file.read(min(READ_AT_A_TIME, size - start)))
            if self._digest.hexdigest() != digest or precision != self._precision:
                return False
            file.truncate(size)
        self.blocks, self.rows, self.dim = blocks, rows, dim
        return True

    def add(self, vectors: NDArray[np.float32]) -> None:
        """Count a block's vectors (n, d), which are in the file now."""
        self._digest.update(vectors.data)
        self.blocks += 1
        self.rows += len(vectors)
        self.dim = vectors.shape[1]

    def write(self) -> None:
        """Say it in the record."""
        told = {"blocks": self.blocks, "rows": self.rows, "dim": self.dim, "precision": self._precision}
        write_text(self._record, seal.to_json({**told, "sha256": self._digest.hexdigest()}))
