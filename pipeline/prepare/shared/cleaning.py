"""Texts made comparable: one clean form to keep, and a folded form to compare."""

import polars as pl
from numpy.typing import ArrayLike

from pipeline.core.errors import UserError
from pipeline.core.progress import say
from pipeline.data.common.texts import in_role, text_ids

INVISIBLE = r"[\u{00AD}\u{200B}\u{FEFF}]"
"""Soft hyphen, zero-width space, byte order mark."""
JOINED, LIMIT = "joined_to_another", "over_limit"
"""Reasons for dropping a text that are no loss: params ask for fewer rows."""


def normalise(texts: pl.Series) -> pl.Series:
    """NFC, without control and invisible characters, single blanks for all whitespace; null stays null."""
    return (
        texts.str.replace_all(INVISIBLE, "")
        .str.replace_all(r"[\s\p{Cc}]+", " ")
        .str.normalize("NFC")
        .str.strip_chars(" ")
    )


def ids(texts: pl.Series, roles: ArrayLike = "text") -> pl.Series:
    """The text_id of every text in its role, or in the role that all have."""
    return pl.Series("text_id", in_role(text_ids(texts), roles), dtype=pl.UInt64)


def say_loss(name: str, rows_in: int, dropped: dict[str, int]) -> None:
    """Say which reason, if any, has cost more than half of the rows of a source or of a method."""
    whole = rows_in - dropped.get(JOINED, 0)
    for reason, count in dropped.items():
        if count > whole / 2 and reason not in (JOINED, LIMIT):
            say(f"{name}: {count:,} of {whole:,} texts are dropped as {reason}")


def check_ids(texts: pl.DataFrame) -> None:
    """Check that no two different texts have one text_id.

    Raises:
        UserError: naming two that do.
    """
    clashes = (
        texts.unique(["text_id", "text"]).filter(pl.col("text_id").is_duplicated()).sort("text_id", "text")
    )
    if len(clashes):
        first, second = clashes["text"][:2]
        shared = clashes["text_id"][0]
        raise UserError(f"two texts have the text_id {shared}: {first!r} and {second!r}; remove one of them")
