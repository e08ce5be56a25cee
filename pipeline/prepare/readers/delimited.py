"""Comma- and tab-separated files of the user's, and tables of texts in bounded memory."""

import difflib
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TypeVar

import polars as pl

from pipeline.core import memory
from pipeline.core.errors import UserError
from pipeline.prepare.readers.quoting import is_quoted
from pipeline.prepare.readers.rows import MisquotedError, lines, quoted_rows, tabbed_rows

LINES_AT_A_TIME = 100_000
Row = TypeVar("Row")


def commas(path: Path, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
    """Columns of a comma-separated file with a header, as text, in parts; an empty cell is null.

    Raises:
        UserError: see `user_files.read_columns`.
    """
    return _delimited(path, columns, comma_rows(path))


def tabs(path: Path, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
    """Columns of a user's tab-separated file with a header, quoted or not, in parts; an empty cell is null.

    Raises:
        UserError: see `user_files.read_columns` and `quoting.is_quoted`.
    """
    return _delimited(path, columns, tab_rows(path))


def read_tabbed(path: Path, columns: Sequence[str]) -> pl.DataFrame:
    """Columns of a published tab-separated file with a header, whatever its name; an empty cell is null.

    Quotation marks are part of the texts.

    Raises:
        UserError: see `user_files.read_columns`.
    """
    return pl.concat(_delimited(path, columns, tabbed_rows(path)))


def read_cells(path: Path, names: Sequence[str], *, surplus: bool = False) -> pl.DataFrame:
    """The tab-separated cells of a file without a header, as text; an empty cell is null.

    Args:
        path: any name.
        names: of the columns.
        surplus: whether a line may have more cells, which are left out.

    Raises:
        UserError: the file is missing or empty, or a line has another number of cells.
    """
    return table_of(cell_rows(path, names, surplus=surplus), names, path)


def cell_rows(path: Path, names: Sequence[str], *, surplus: bool = False) -> Iterator[list[str]]:
    """The same cells a line at a time, an empty one as ""; the file is not held in memory."""
    for number, line in enumerate(lines(path), start=1):
        row = line.split("\t")
        if len(row) < len(names) or (len(row) > len(names) and not surplus):
            raise UserError(
                f"{path}, line {number}: {len(row)} cells, not {', '.join(names)}, separated by tabs; "
                "correct the line"
            )
        yield row[: len(names)]


def read_lines(path: Path) -> list[str]:
    """The lines of a file, blank ones too.

    Raises:
        UserError: the file is missing or empty.
    """
    found = [*lines(path)]
    if not found or found == [""]:
        raise empty(path)
    return found


def table_of(rows: Iterator[Sequence[str | None]], columns: Sequence[str], path: Path) -> pl.DataFrame:
    """The rows of a file as a table of texts, in which an empty cell is null.

    Raises:
        UserError: there is no row.
    """
    return pl.concat(tables_of(rows, columns, path))


def tables_of(
    rows: Iterator[Sequence[str | None]], columns: Sequence[str], path: Path
) -> Iterator[pl.DataFrame]:
    """The same table in parts, for Python's own strings take several times the memory.

    Raises:
        UserError: there is no row.
    """
    schema, is_empty = dict.fromkeys(columns, pl.String), True
    for part in in_parts(rows):
        cells = {name: [row[place] or None for row in part] for place, name in enumerate(columns)}
        is_empty = False
        yield pl.DataFrame(cells, schema=schema)
    if is_empty:
        raise empty(path, "has no row")


def in_parts(rows: Iterator[Row]) -> Iterator[list[Row]]:
    """So many rows at a time that Python's objects take little memory."""
    while part := list(islice(rows, memory.at_a_time(LINES_AT_A_TIME))):
        yield part


def missing_column(path: Path | str, column: str, found: Iterable[str]) -> UserError:
    """The error for a column that a file lacks, with the likeliest of those that it has."""
    names = list(found)
    close = difflib.get_close_matches(column, names, n=1)
    hint = f"did you mean {close[0]!r}?" if close else "rename one of them, or name it in params.yaml"
    return UserError(f"{path} has no column {column!r}; it has {', '.join(names) or 'none'}; {hint}")


def empty(path: Path | str, what: str = "is empty") -> UserError:
    """The error for a file without content."""
    return UserError(f"{path} {what}; delete it, remove it from params.yaml or fill it")


def places(path: Path, header: Sequence[str], columns: Sequence[str]) -> list[int]:
    """Where each column stands in a file's header.

    Raises:
        UserError: one is missing, or is there twice.
    """
    for column in columns:
        if column not in header:
            raise missing_column(path, column, header)
        if header.count(column) > 1:
            raise UserError(
                f"{path} has {header.count(column)} columns {column!r}; rename or remove the others"
            )
    return [header.index(column) for column in columns]


def comma_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The rows of a comma-separated file, [] for an empty line, with the line on which each ends.

    Raises:
        UserError: a quotation mark is out of place.
    """
    return _csv_rows(path, ",")


def tab_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Likewise of a tab-separated file, quoted or not.

    Raises:
        UserError: see `quoting.is_quoted`.
    """
    return _csv_rows(path, "\t") if is_quoted(path) else tabbed_rows(path)


def _csv_rows(path: Path, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    try:
        yield from quoted_rows(path, delimiter)
    except MisquotedError as error:
        raise UserError(f"{path}, line {error.line}: {error}; correct the quotation marks") from None


def _delimited(
    path: Path, columns: Sequence[str], rows: Iterator[tuple[int, list[str]]]
) -> Iterator[pl.DataFrame]:
    header = next((row for _, row in rows if row), [])
    if not header:
        raise empty(path)
    if any("\r" in name for name in header):
        raise UserError(f"{path}: its lines end in CR alone; save it with LF or CRLF")
    names = list(dict.fromkeys(columns))
    of_columns = places(path, header, names)

    def cells() -> Iterator[list[str]]:
        for line, found in rows:
            if not found and len(header) > 1:
                continue  # of a single column an empty line is an empty cell
            row = found or [""]
            if len(row) != len(header):
                raise UserError(
                    f"{path}, line {line}: {len(row)} cells for {len(header)} columns; correct the line"
                )
            yield [row[place] for place in of_columns]

    yield from tables_of(cells(), names, path)
