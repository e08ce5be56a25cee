"""Rows on stdout: a table on a terminal, tab-separated lines otherwise."""

import sys
from collections.abc import Container, Sequence

import typer

from pipeline.core.printable import printable


def on_terminal() -> bool:
    """Whether a person reads stdout."""
    return sys.stdout.isatty()


def lines(rows: Sequence[Sequence[str]]) -> None:
    """Print a line a row; within a cell a tab becomes a space, and a control character its spelling."""
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
    return printable(text.replace("\t", " "))
