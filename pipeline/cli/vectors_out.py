"""Texts and their vectors to stdout or to a file."""

import io
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pipeline.core.atomic import atomic_file
from pipeline.core.errors import UserError

Write = Callable[[Sequence[str], NDArray[np.float32]], None]

SUFFIXES = (".parquet", ".jsonl")
ROW_GROUP_BYTES = 1 << 26
"""Of vectors that are held until they are a row group: readers lose time on many small ones."""
C1 = re.compile(rb"\xc2[\x80-\x9f]|\x7f")
"""UTF-8 of the control characters that JSON leaves as they are, and that a terminal obeys."""


def check_out(out: Path | None) -> None:
    """Fail where a file of vectors cannot have this name; None is stdout."""
    if out is None:
        return
    if out.is_dir():
        raise UserError(f"--out {out} is a folder; name a file in it")
    if out.suffix not in SUFFIXES:
        raise UserError(f"--out {out}: the name has to end in {' or '.join(SUFFIXES)}")


@contextmanager
def writer(out: Path | None, dim: int) -> Iterator[Write]:
    """Yield `write(texts, vectors)`, to stdout or to a file that appears whole or not at all.

    A file is written beside the encoding of the next texts.
    """
    if out is None:
        yield _print
        return
    parquet = out.suffix == ".parquet"
    with (
        atomic_file(out) as temporary,
        _grouped(temporary, dim) if parquet else _lines(temporary) as write,
        ThreadPoolExecutor(1) as beside,  # innermost: what it writes ends before the file is closed
    ):
        waiting: list[Future[None]] = []

        def write_beside(texts: Sequence[str], vectors: NDArray[np.float32]) -> None:
            while waiting:
                waiting.pop().result()
            waiting.append(beside.submit(write, texts, vectors))

        yield write_beside
        while waiting:
            waiting.pop().result()


@contextmanager
def _lines(path: Path) -> Iterator[Write]:
    with path.open("wb") as file:
        yield partial(_write_lines, file)


@contextmanager
def _grouped(path: Path, dim: int) -> Iterator[Write]:
    """Parquet, whose row groups are of a size that readers like, however few texts come at a time."""
    vector = pa.list_(pa.field("item", pa.float32(), nullable=False), dim)
    schema = pa.schema({"text": pa.string(), "vector": vector})
    rows = max(1, ROW_GROUP_BYTES // (dim * np.dtype(np.float32).itemsize))
    held: list[pa.Table] = []

    def write(texts: Sequence[str], vectors: NDArray[np.float32]) -> None:
        column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), type=vector)
        held.append(pa.Table.from_arrays([pa.array(texts), column], schema=schema))
        if sum(map(len, held)) >= rows:
            write_group()

    def write_group() -> None:
        if held:
            file.write_table(pa.concat_tables(held))
            held.clear()

    # Vectors do not compress.
    compression = {"text": "zstd", "vector.list.element": "none"}
    with pq.ParquetWriter(path, schema, compression=compression, use_dictionary=False) as file:
        yield write
        write_group()


def _print(texts: Sequence[str], vectors: NDArray[np.float32]) -> None:
    """JSON lines on stdout."""
    lines = io.BytesIO()
    _write_lines(lines, texts, vectors)
    print_lines(lines)


def print_lines(lines: io.BytesIO) -> None:
    """JSON lines on stdout, without a character that a terminal obeys."""
    # Not by Polars: its error for a closed pipe has no errno, and typer ends quietly by that alone.
    sys.stdout.buffer.write(C1.sub(lambda found: b"\\u%04x" % found[0][-1], lines.getvalue()))
    sys.stdout.buffer.flush()


def _write_lines(file: IO[bytes], texts: Sequence[str], vectors: NDArray[np.float32]) -> None:
    import polars as pl

    pl.DataFrame({"text": texts, "vector": vectors}).write_ndjson(file)
