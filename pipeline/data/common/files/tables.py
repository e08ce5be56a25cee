"""Parquet tables with an explicit schema."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.core import memory, seal
from pipeline.core.atomic import atomic_file, disk_errors
from pipeline.core.errors import UserError

Schema = Mapping[str, type[pl.DataType] | pl.DataType]
ROW_GROUP_ROWS = 16_384
"""Four shards of vectors, by default: what reads a shard's texts reads few others."""


RANGE_ROWS = 1 << 17
"""Texts of a range, about: ids are hashes, so that equal ranges hold equally many."""
SPOOL_ROW_GROUP = 4096
ID_BITS = 64
Range = tuple[int, int]
"""The first id of a range, and the last."""


def read_table(path: Path, schema: Schema, stage: str, *, exact: bool = True) -> pl.DataFrame:
    """Read the columns of `schema`, checked as by `check_table`."""
    check_table(path, schema, stage, exact=exact)
    with readable(path, stage):
        return pl.read_parquet(path, columns=list(schema))


def check_table(path: Path, schema: Schema, stage: str, *, exact: bool = True) -> None:
    """Fail unless a file has the columns of `schema`.

    Args:
        path: the Parquet file.
        schema: names and types of the columns.
        stage: the stage that writes the file, for messages.
        exact: whether further columns are an error.

    Raises:
        UserError: the file is missing, damaged, unreadable or has another schema.
    """
    if not path.exists():
        raise UserError(f"{path} does not exist; run `dvc repro {stage}`")
    seal.check(path, f"run `dvc repro -f {stage}`")
    with readable(path, stage):
        found = pl.read_parquet_schema(path)
    wrong = [
        f"{name}: {found.get(name)} for {kind}" for name, kind in schema.items() if found.get(name) != kind
    ]
    surplus = [name for name in found if name not in schema] if exact else []
    if wrong or surplus:
        faults = ", ".join([*wrong, *(f"{name} is surplus" for name in surplus)])
        raise UserError(f"{path} has another schema ({faults}); run `dvc repro -f {stage}`")


@contextmanager
def readable(path: Path, stage: str) -> Iterator[None]:
    """Turn what a damaged Parquet file raises into a `UserError` that names it."""
    with readable_or(path, f"run `dvc repro -f {stage}`"):
        yield


@contextmanager
def readable_or(path: Path, fix: str) -> Iterator[None]:
    """Turn what a damaged Parquet file raises into a `UserError` that names it and the fix.

    Polars panics at some damages, which is no `Exception`; a text that is not UTF-8 may show when it is used.
    """
    try:
        yield
    except UserError:
        raise
    except (
        pl.exceptions.PolarsError,
        pl.exceptions.PanicException,
        pa.ArrowException,
        OSError,
        UnicodeDecodeError,
    ) as error:
        raise UserError(f"{path} is not a readable Parquet file ({error}); {fix}") from None


def write_table(table: pl.DataFrame, schema: Schema, path: Path) -> None:
    """Write `table` with exactly the columns and types of `schema`; equal rows give equal bytes."""
    with table_writer(schema, path) as write:
        write(table)


@contextmanager
def table_writer(schema: Schema, path: Path) -> Iterator[Callable[[pl.DataFrame], None]]:
    """Yield what takes a table's rows, some at a time; the file appears as the block ends.

    Equal rows give equal bytes, however many are given at a time: a row group has ROW_GROUP_ROWS. A column of
    texts most of which are there twice, as those of the first row group tell, goes through a dictionary.
    """
    columns = [pl.col(name).cast(kind) for name, kind in schema.items()]
    waiting = pl.DataFrame(schema=dict(schema))
    with atomic_file(path) as temporary, ExitStack() as stack:
        opened: list[pq.ParquetWriter] = []

        def put(rows: pl.DataFrame) -> None:
            # Parquet's pages end where chunks do.
            arrow = rows.rechunk().to_arrow(compat_level=pl.CompatLevel.oldest())
            if not opened:
                opened.append(stack.enter_context(_parquet_writer(rows, arrow.schema, temporary)))
            opened[0].write_table(arrow, row_group_size=ROW_GROUP_ROWS)

        def write(table: pl.DataFrame) -> None:
            nonlocal waiting
            waiting = pl.concat([waiting, table.select(columns)])
            if whole := len(waiting) // ROW_GROUP_ROWS * ROW_GROUP_ROWS:
                put(waiting[:whole])
                waiting = waiting[whole:]

        yield write
        if len(waiting) or not opened:
            put(waiting)
        stack.close()
        seal.fill(temporary)


def _parquet_writer(rows: pl.DataFrame, schema: pa.Schema, path: Path) -> pq.ParquetWriter:
    """A writer of a file that begins with these rows."""
    first = rows[:ROW_GROUP_ROWS]
    texts = first.select(pl.col(pl.String)).iter_columns()
    repeated = [column.name for column in texts if 2 * column.n_unique() < len(first)]
    sealed = schema.with_metadata({seal.KEY: seal.BLANK})
    return pq.ParquetWriter(path, sealed, compression="zstd", compression_level=3, use_dictionary=repeated)


def ranges(rows: int) -> list[Range]:
    """The ranges, ascending, by which so many texts are looked at; a smaller bound of memory cuts each up."""
    count = max(1, -(-rows // RANGE_ROWS)) * cuts()
    edges = [(number << ID_BITS) // count for number in range(count + 1)]
    return [(low, high - 1) for low, high in pairwise(edges)]


def cuts() -> int:
    """Of how many successive ranges one is made at the default bound of memory."""
    return RANGE_ROWS // memory.at_a_time(RANGE_ROWS)


class Spool:
    """Tables of one schema, with a column `text_id`, on the disk, in a folder of their own.

    They are read again by ranges of their ids, so that no more than a range is in memory.
    """

    def __init__(self, folder: Path, schema: Schema) -> None:
        self._folder, self.schema = folder, schema
        self._files: list[Path] = []
        self.rows = 0

    def add(self, table: pl.DataFrame) -> None:
        """Put rows after those that are there.

        Raises:
            UserError: the disk is full.
        """
        if table.is_empty():
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / f"{len(self._files)}.parquet"
        with disk_errors(path):
            table.sort("text_id", maintain_order=True).write_parquet(
                path, compression="lz4", statistics=True, row_group_size=SPOOL_ROW_GROUP
            )
        self._files.append(path)
        self.rows += len(table)

    def within(self, among: Range, *columns: str) -> pl.DataFrame:
        """The rows of a range by rising id, those of one id in the order in which they came."""
        if not self._files:
            return pl.DataFrame(schema=dict(self.schema)).select(*columns or self.schema)
        found = pl.scan_parquet(self._files, glob=False).filter(lies(among)).select(*columns or self.schema)
        return found.collect().sort("text_id", maintain_order=True)

    def all(self, *columns: str) -> pl.DataFrame:
        """All rows, in the order in which they came, but for that of `add`."""
        return pl.concat(
            [pl.DataFrame(schema=dict(self.schema)).select(*columns or self.schema), *self.parts(*columns)]
        )

    def parts(self, *columns: str) -> Iterator[pl.DataFrame]:
        """What was added each time, by rising id."""
        for path in self._files:
            yield pl.read_parquet(path, columns=list(columns) or None)

    def remove(self) -> None:
        """Give the disk back."""
        for path in self._files:
            path.unlink()
        self._files.clear()


def lies(among: Range) -> pl.Expr:
    """Whether a row's text_id is in a range."""
    low, high = (pl.lit(np.uint64(edge), pl.UInt64) for edge in among)
    return pl.col("text_id").is_between(low, high)
