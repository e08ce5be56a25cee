"""Texts that nothing may be trained on, as a set that others are looked for in."""

from collections.abc import Iterable

import numpy as np
import polars as pl

from pipeline.data.common.texts import fold


class HeldOut:
    """The set, by hashes of 64 bits of the folded texts: two of a billion texts hardly ever have the same.

    Args:
        texts: the texts, some at a time. Of each, 8 bytes are kept.
    """

    def __init__(self, texts: Iterable[pl.Series]) -> None:
        hashes = [fold(part).hash().unique().to_numpy() for part in texts]
        self._hashes = np.unique(np.concatenate([np.empty(0, np.uint64), *hashes]))

    def has(self, texts: pl.Series) -> pl.Series:
        """Whether each text is in the set but for case, accents and punctuation."""
        hashes = fold(texts).hash().to_numpy()
        at = np.searchsorted(self._hashes, hashes)
        inside = at < len(self._hashes)
        inside[inside] = self._hashes[at[inside]] == hashes[inside]
        return pl.Series(inside, dtype=pl.Boolean)
