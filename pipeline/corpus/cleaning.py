"""Texts made comparable: one clean form to keep, and a folded form to compare."""

import polars as pl

from pipeline.artifacts.texts import text_id

INVISIBLE = r"[\u{00AD}\u{200B}\u{FEFF}]"
"""Soft hyphen, zero-width space, byte order mark."""


def normalise(texts: pl.Series) -> pl.Series:
    """NFC, without control and invisible characters, single blanks for all whitespace; null stays null."""
    return (
        texts.str.replace_all(INVISIBLE, "")
        .str.replace_all(r"[\s\p{Cc}]+", " ")
        .str.normalize("NFC")
        .str.strip_chars(" ")
    )


def fold(texts: pl.Series) -> pl.Series:
    """Normalised texts without case, accents and punctuation, for comparison.

    A text of nothing but punctuation is its own folded form, so that two such texts are not taken for equal.
    """
    folded = (
        # Upper case first, as one small letter can be two capitals: ß is SS.
        texts.str.to_uppercase()
        .str.to_lowercase()
        .str.normalize("NFKD")
        .str.replace_all(r"\p{Mn}+", "")
        .str.replace_all(r"[^\p{L}\p{N}\p{M}]+", " ")
        .str.strip_chars(" ")
    )
    return folded.zip_with(folded != "", texts)


def ids(texts: pl.Series) -> pl.Series:
    """The text_id of every text."""
    return pl.Series("text_id", [text_id(text) for text in texts], dtype=pl.UInt64)
