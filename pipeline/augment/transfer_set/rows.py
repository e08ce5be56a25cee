"""augmented/transfer_rows.parquet: which texts of augmented/transfer.parquet are a row of which task."""

from pathlib import Path

import polars as pl

from pipeline.data.common.files.tables import Schema, read_table, write_table

SCHEMA: Schema = {"task": pl.String, "left_id": pl.UInt64, "right_id": pl.UInt64}
"""A text, or a pair of texts, as `pairs.PAIRS_SCHEMA` names it; without a label, which the task's teacher
gives. The task is one of `subtasks.one_by_one`; right_id is null for single texts."""


def read(path: Path) -> pl.DataFrame:
    """Read the rows that stage `transfer` wrote."""
    return read_table(path, SCHEMA, "transfer")


def write(rows: pl.DataFrame, path: Path) -> None:
    """Write rows, sorted by task and ids."""
    write_table(rows.sort(*SCHEMA, nulls_last=False), SCHEMA, path)
