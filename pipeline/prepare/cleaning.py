"""Texts made comparable: one clean form to keep, and a folded form to compare."""

import polars as pl
from numpy.typing import ArrayLike

from pipeline.core.errors import UserError
from pipeline.core.progress import say
from pipeline.data.common.texts import in_role, text_ids

INVISIBLE = r"[\u{00AD}\u{200B}\u{FEFF}]"
"""Soft hyphen, zero-width space, byte order mark."""
UNSPACED = r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}&&\p{L}]"
"""A letter of a script that is written without spaces."""
WORD = rf"[^ \p{{L}}\p{{N}}]*{UNSPACED}[^ \p{{L}}\p{{N}}]*|[^ {UNSPACED}]+"
"""A word of a normalised text: such a letter with the marks and punctuation around it, or what else stands
between spaces."""
ACCENT = r"[\p{Inherited}\p{Greek}\p{Cyrillic}\p{Hebrew}\p{Arabic}&&\p{Mn}--[\u{3099}\u{309A}]]"
"""A mark that a letter may do without. Inherited are those of no one script, as the acute and the diaeresis;
U+3099 and U+309A voice kana."""
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


def fold(texts: pl.Series) -> pl.Series:
    """Normalised texts without case, accents and punctuation, for comparison.

    Accents are the marks of Latin, Greek and Cyrillic letters, and the vowel points of Hebrew and Arabic.
    Others make another letter and stay: those that voice kana, the vowel signs of Thai and Devanagari.
    A text of nothing but punctuation is its own folded form, so that two such texts are not taken for equal.
    """
    folded = (
        # Upper case first, as one small letter can be two capitals: ß is SS.
        texts.str.to_uppercase()
        .str.to_lowercase()
        .str.normalize("NFKD")
        .str.replace_all(f"{ACCENT}+", "")
        .str.replace_all(r"[^\p{L}\p{N}\p{M}]+", " ")
        .str.strip_chars(" ")
    )
    return folded.zip_with(folded != "", texts)


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
