"""The rows of delimited files. A row ends at LF or CRLF, and nowhere else."""

import csv
from collections.abc import Iterator
from pathlib import Path

from pipeline.data.utf8 import lines_of

MAX_CELL = 1 << 24
LONE = "\udc0d"
"""Stands for a carriage return within a line, at which csv would end the row. No UTF-8 file holds it."""


class MisquotedError(Exception):
    """A quotation mark is out of place."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line = line


def lines(path: Path) -> Iterator[str]:
    """The lines of a file, without their ends."""
    return (line.removesuffix("\r") for line in lines_of(path))


def tabbed_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The cells between the tabs of each line, with its number from 1; [] for an empty line."""
    for number, line in enumerate(lines(path), start=1):
        yield number, line.split("\t") if line else []


def quoted_rows(path: Path, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """The rows of a file whose cells are quoted where they need it, [] for an empty line.

    Each comes with the number of the line on which it ends.

    Raises:
        MisquotedError: a quotation mark is out of place.
    """
    csv.field_size_limit(MAX_CELL)
    reader = csv.reader(map(_with_end, lines_of(path)), delimiter=delimiter, strict=True)
    try:
        for row in reader:
            yield reader.line_num, [cell.replace(LONE, "\r") for cell in row]
    except csv.Error as error:
        raise MisquotedError(reader.line_num, str(error)) from None


def _with_end(line: str) -> str:
    if "\r" not in line:
        return f"{line}\n"
    inner, end = (line[:-1], "\r\n") if line.endswith("\r") else (line, "\n")
    return inner.replace("\r", LONE) + end
