"""Whether a user's tab-separated file quotes its cells as csv does, or holds quotation marks as they are.

Both kinds are common: pandas and spreadsheets quote, GLUE and other published sets do not, and some of their
texts begin with a quotation mark.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pipeline.core.errors import UserError
from pipeline.core.progress import say
from pipeline.prepare.readers.rows import MisquotedError, quoted_rows, tabbed_rows

QUOTE = '"'
SHOWN = 40
"""Characters of a cell that a message shows."""


@dataclass
class _Column:
    """What its cells are, read as they are."""

    filled: int = 0
    quoted: int = 0
    """In quotation marks from end to end, those within doubled."""
    needed: int = 0
    """Of these, the ones that csv has to quote: they hold doubled marks, or nothing."""
    first: tuple[int, str] | None = None
    """The line and the cell that is quoted first."""


@dataclass
class _AsTheyAre:
    """The file read without quoting."""

    header: int = 0
    """The line of the header."""
    columns: list[_Column] = field(default_factory=list)
    rows: int = 0
    begins: tuple[int, str] | None = None
    """The first cell that begins with a quotation mark, and its line."""
    broken: int | None = None
    """The first line with another number of cells than the header."""
    stray: bool = False
    """Whether a cell holds a mark that csv would have quoted, and that ends no cell of several lines."""


def is_quoted(path: Path) -> bool:
    """Decide for a file, and say so where it matters.

    Only one reading gives every row the cells of the header, or else the file shows its way: csv quotes every
    cell that holds a quotation mark, and either all cells of a column or those that need it.

    Raises:
        UserError: both readings are possible and differ, or neither is.
    """
    plain = _as_they_are(path)
    if plain.begins is None:
        return False
    line, cell = plain.begins
    in_header = line == plain.header
    if plain.stray and plain.broken is None and not in_header:
        quoted = False
    else:
        rows, fault = _quoted(path, len(plain.columns))
        if plain.broken is not None and fault is not None:
            wanted = f"not {len(plain.columns)} cells, as in the header"
            raise UserError(
                f"{path}, line {plain.broken}: {wanted}; nor are they in line {fault} if quotation marks "
                "quote, as in csv; correct the lines"
            )
        sure = plain.broken is not None or in_header
        quoted = fault is None and (sure or _shows_quoting(plain, rows, path))
    what = "quote cells, as in csv" if quoted else "are part of the texts"
    say(f"{path}: quotation marks {what}; the first is in line {line}: {cell[:SHOWN]!r}")
    return quoted


def _shows_quoting(plain: _AsTheyAre, rows: int, path: Path) -> bool:
    """Of a file that can be read both ways.

    Marks that quote over several lines would have to leave each line with the cells of the header by chance.
    """
    if rows != plain.rows and len(plain.columns) > 1:
        return False
    unclear = next(
        (one.first for one in plain.columns if one.quoted not in (one.filled, one.needed, 0)), None
    )
    if rows == plain.rows and not unclear:
        return True
    line, cell = unclear or plain.begins or (0, "")
    raise UserError(
        f"{path}, line {line}: the quotation marks of {cell[:SHOWN]!r} may quote a cell or belong to a text; "
        "quote all cells of the column or none, or write the file as .jsonl"
    )


def _as_they_are(path: Path) -> _AsTheyAre:
    found = _AsTheyAre()
    for line, row in tabbed_rows(path):
        if not row:
            continue
        if not found.columns:
            found.header = line
            found.columns = [_Column() for _ in row]
            found.begins = next(((line, cell) for cell in row if cell.startswith(QUOTE)), None)
            continue
        found.rows += 1
        if len(row) != len(found.columns):
            found.broken = found.broken or line
        for column, cell in zip(found.columns, row, strict=False):
            _look(found, column, cell, line)
    return found


def _look(found: _AsTheyAre, column: _Column, cell: str, line: int) -> None:
    column.filled += bool(cell)
    if QUOTE not in cell:
        return
    if not cell.startswith(QUOTE):
        found.stray |= QUOTE in cell.removesuffix(QUOTE).replace(2 * QUOTE, "")
        return
    found.begins = found.begins or (line, cell)
    inner = cell[1:-1]
    if len(cell) < 2 or not cell.endswith(QUOTE) or QUOTE in inner.replace(2 * QUOTE, ""):
        return
    column.quoted += 1
    column.needed += not inner or QUOTE in inner
    column.first = column.first or (line, cell)


def _quoted(path: Path, width: int) -> tuple[int, int | None]:
    """Rows of the file read as csv, and the first line that cannot be or has another number of cells."""
    rows = -1
    try:
        for line, row in _filled(quoted_rows(path, "\t")):
            rows += 1
            if len(row) != width:
                return rows, line
    except MisquotedError as error:
        return rows, error.line
    return rows, None


def _filled(rows: Iterator[tuple[int, list[str]]]) -> Iterator[tuple[int, list[str]]]:
    return ((line, row) for line, row in rows if row)
