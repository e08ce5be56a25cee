"""A set of folded texts, which many others are looked for in."""

import numpy as np
import polars as pl

from pipeline.data.common.texts import fold

HASHED = {"folded": pl.UInt64}
"""A hash of the folded text, the same for the time of a process."""


def with_hash(table: pl.DataFrame) -> pl.DataFrame:
    """A table with a column `text`, and the column of HASHED."""
    return table.with_columns(fold(table["text"]).hash().alias("folded"))


class FoldedTexts:
    """The set; hashes are compared first, for hardly any text is in it."""

    def __init__(self, folded: pl.Series) -> None:
        hashes = folded.hash().to_numpy()
        order = np.argsort(hashes)
        self._hashes, self._texts = hashes[order], folded[order]

    def has(self, table: pl.DataFrame) -> pl.Series:
        """Whether each text of a table of `with_hash` is in the set but for case, accents and punctuation."""
        hashes = table["folded"].to_numpy()
        first, last = (np.searchsorted(self._hashes, hashes, side=side) for side in ("left", "right"))
        found = last > first
        if found.any():
            ends = zip(first[found], last[found], strict=True)
            likely = np.unique(np.concatenate([np.arange(*those) for those in ends]))
            alike = fold(table["text"].filter(pl.Series(found))).is_in(self._texts[likely].implode())
            found[found] = alike.to_numpy()
        return pl.Series(found, dtype=pl.Boolean)
