"""Rows on stdout: a table on a terminal, tab-separated lines otherwise."""

import re
import sys
from collections.abc import Container, Sequence

import typer

from pipeline.core.printable import printable

BREAK = re.compile(r"[\t-\r\x1c-\x1e\x85\u2028\u2029]")
"""A tab, or what some reader takes for the end of a line, as `str.splitlines` does."""


def on_terminal() -> bool:
    """Whether a person reads stdout."""
    return sys.stdout.isatty()


def lines(rows: Sequence[Sequence[str]]) -> None:
    """Print a line a row; within a cell, spaces stand for line ends, spellings for control characters."""
    for row in rows:
        typer.echo("\t".join(map(cell, row)))


def table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], *, left: Container[str] = (), title: str = ""
) -> None:
    """Print a table; the columns `left` hold words and wrap, the others hold numbers."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    # Text: a user's texts may hold what rich takes for markup.
    shown = Table(
        box=None, pad_edge=False, title=Text(printable(title)) if title else None, title_justify="left"
    )
    for name in columns:
        is_left = name in left
        shown.add_column(Text(name), no_wrap=not is_left, justify="left" if is_left else "right")
    for row in rows:
        shown.add_row(*(Text(cell(text)) for text in row))
    Console().print(shown)


def cell(text: str) -> str:
    """A text that stays within its cell, whatever it holds."""
    return printable(BREAK.sub(" ", text))
