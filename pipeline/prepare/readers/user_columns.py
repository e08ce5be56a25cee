"""Columns of a user's file as numbers, flags, labels and texts; faults name file and row."""

import math
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import polars as pl

from pipeline.core.errors import UserError

VISIBLE = r"[^\s\x00-\x1F\x7F-\x9F\u00AD\u200B\uFEFF]"
"""A character that `corpus.cleaning.normalise` leaves: no blank, no control and no invisible one.
For `re` and polars alike."""
WHOLE = re.compile(r"(-?)(0|[1-9][0-9]*)(?:\.0+)?")
"""A whole number. With zeros before it, as 01, or a plus it may be a code."""
Numbers = Callable[[pl.Series, Path], pl.Series]
"""Reads a column of texts as numbers; the path is for messages."""
HIGHEST_GRADE = 1000
"""Above it a grade is a mistake; scoring takes memory for every whole number up to the highest."""


def numbers(column: pl.Series, path: Path, between: tuple[float, float] | None = None) -> pl.Series:
    """The numbers that a column of texts holds.

    Args:
        column: as `read_columns` gives it.
        path: for messages.
        between: the smallest and the largest that may be.

    Raises:
        UserError: a cell is empty, is no finite number or is out of bounds.
    """
    values = column.str.strip_chars().cast(pl.Float64, strict=False)
    wrong = (values.is_null() | ~values.fill_null(math.nan).is_finite()).arg_true()
    if len(wrong):
        raise _wrong(column, int(wrong[0]), path, "not a number")
    if between and len(wrong := (~values.is_between(*between)).arg_true()):
        raise _wrong(column, int(wrong[0]), path, f"not between {between[0]:g} and {between[1]:g}")
    return values


def grades(column: pl.Series, path: Path) -> pl.Series:
    """How relevant documents are, from a column of texts; 0 and below: not at all.

    nDCG wants whole numbers. A single fraction, such as 0.5 for all that is relevant, is as good as 1.

    Raises:
        UserError: see `numbers`; a grade is above HIGHEST_GRADE, or several are above 0 and one is not whole.
    """
    values = numbers(column, path)
    if len(wrong := (values > HIGHEST_GRADE).arg_true()):
        fix = "correct it, or divide all grades and round them"
        raise _wrong(column, int(wrong[0]), path, f"above {HIGHEST_GRADE:,}", fix)
    broken = (values > 0) & (values != values.floor())
    if broken.any() and values.filter(values > 0).n_unique() > 1:
        why, fix = "not whole, as grades of several values have to be", "multiply all of them by 10, say"
        raise _wrong(column, int(broken.arg_true()[0]), path, why, fix)
    return values


def flags(column: pl.Series, path: Path) -> pl.Series:
    """A column of texts that are 0 or 1, or false or true, as booleans.

    Raises:
        UserError: naming the first row with another cell.
    """
    known = truth(column).replace({"false": "0", "true": "1"})
    values = known.str.strip_chars().cast(pl.Float64, strict=False)
    wrong = (~values.is_in([0.0, 1.0])).fill_null(True).arg_true()
    if len(wrong):
        raise _wrong(column, int(wrong[0]), path, "not 0 or 1")
    return values == 1


def truth(column: pl.Series) -> pl.Series:
    """A column of texts with `true` and `false` in small letters: pandas writes `True` into csv."""
    folded = column.str.strip_chars().str.to_lowercase()
    return column.zip_with(~folded.is_in(["false", "true"]).fill_null(False), folded)


def whole_numbers(labels: Iterable[str | None]) -> dict[str, str]:
    """How the labels of a task are spelled anew, so that one number is one label: 1.0 is 1, and -0.0 is 0.

    pandas writes whole numbers as floats where one is missing, and JSON may hold both. Nothing is spelled
    anew where a label is no finite number: 1.0 may then be a name.

    Args:
        labels: of all parts and files, without blanks around them.
    """
    known = pl.Series(list({label for label in labels if label is not None}), dtype=pl.String)
    if not known.cast(pl.Float64, strict=False).is_finite().fill_null(False).all():
        return {}
    found = ((label, WHOLE.fullmatch(label)) for label in known)
    spelled = {label: match[2] if match[2] == "0" else match[1] + match[2] for label, match in found if match}
    return {label: new for label, new in spelled.items() if new != label}


def is_filled(column: pl.Series) -> pl.Series:
    """Whether a cell holds something that can be seen."""
    return column.str.contains(VISIBLE).fill_null(False)


def one_of(column: pl.Series, allowed: Sequence[str], path: Path) -> pl.Series:
    """A column of texts, without blanks around them, if each is one of those allowed.

    Raises:
        UserError: naming the first row with another cell.
    """
    values = column.str.strip_chars()
    wrong = (~values.is_in(list(allowed))).fill_null(True).arg_true()
    if len(wrong):
        raise _wrong(column, int(wrong[0]), path, f"not one of {', '.join(allowed)}")
    return values


def filled(column: pl.Series, path: Path) -> pl.Series:
    """The column, if no cell is empty.

    Raises:
        UserError: naming the first row with an empty cell.
    """
    empty = (~is_filled(column)).arg_true()
    if len(empty):
        raise UserError(f"{path}, row {int(empty[0]) + 1} of the data: {column.name} is empty; fill it")
    return column


def _wrong(column: pl.Series, row: int, path: Path, why: str, fix: str = "correct it") -> UserError:
    where = f"{path}, row {row + 1} of the data"
    return UserError(f"{where}: {column.name} is {column[row] or ''!r}, {why}; {fix}")
