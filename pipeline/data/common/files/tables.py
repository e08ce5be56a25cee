"""Parquet tables with an explicit schema."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import polars as pl
import pyarrow as pa

from pipeline.core import seal
from pipeline.core.atomic import atomic_file
from pipeline.core.errors import UserError

Schema = Mapping[str, type[pl.DataType] | pl.DataType]


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
    with atomic_file(path) as temporary:
        table.select(pl.col(name).cast(kind) for name, kind in schema.items()).write_parquet(
            temporary, compression="zstd", statistics=True, metadata={seal.KEY: seal.BLANK}
        )
        seal.fill(temporary)
