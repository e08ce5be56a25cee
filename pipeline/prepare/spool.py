"""Texts on the disk, read again by ranges of their ids, so that no more than a range is in memory."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl

from pipeline.core.atomic import disk_errors
from pipeline.data.common.files.tables import Schema

ROWS_AT_A_TIME = 1 << 17
"""Texts of a range, about: ids are hashes, so that equal ranges hold equally many."""
ROW_GROUP_ROWS = 4096
ID_BITS = 64

Range = tuple[int, int]
"""The first id of a range, and the last."""


def ranges(rows: int) -> list[Range]:
    """The ranges, ascending, by which so many texts are looked at."""
    count = max(1, -(-rows // ROWS_AT_A_TIME))
    edges = [(number << ID_BITS) // count for number in range(count + 1)]
    return [(low, high - 1) for low, high in pairwise(edges)]


class Spool:
    """Tables of one schema, with a column `text_id`, in a folder of their own."""

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
                path, compression="lz4", statistics=True, row_group_size=ROW_GROUP_ROWS
            )
        self._files.append(path)
        self.rows += len(table)

    def within(self, among: Range, *columns: str) -> pl.DataFrame:
        """The rows of a range by rising id, those of one id in the order in which they came."""
        if not self._files:
            return pl.DataFrame(schema=dict(self.schema)).select(*columns or self.schema)
        found = pl.scan_parquet(self._files, glob=False).filter(_lies(among)).select(*columns or self.schema)
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


def _lies(among: Range) -> pl.Expr:
    low, high = (pl.lit(np.uint64(edge), pl.UInt64) for edge in among)
    return pl.col("text_id").is_between(low, high)
