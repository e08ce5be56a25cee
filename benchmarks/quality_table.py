"""Rows of results of `quality.py`: what each is of, and the tables that show them."""

from collections.abc import Iterable
from typing import Any

Row = dict[str, Any]
Key = tuple[str, str | None]
ABOUT = ("settings", "command", "precision")
"""What tells where a row comes from, and no table shows."""
FIRST = (
    "model",
    "million_parameters",
    *(f"kept_{kind}{when}" for kind in ("sts", "retrieval") for when in ("_before_finetuning", "")),
    *("minutes", "cpu", "threads", "steps", "seeds"),
)
"""What a table shows left of the scores."""


def key(row: Row) -> Key:
    """What has one row: a student, or the teacher on a processor, since its scores differ by rounding."""
    return row["model"], row.get("cpu") if row["model"] == "teacher" else None


def markdown(rows: list[Row]) -> str:
    """A table of them, standard deviations beside their means."""
    shown = [column for column in rows[0] if not column.endswith(" sd") and column not in ABOUT]
    columns = [*(c for c in FIRST if c in shown), *(c for c in shown if c not in FIRST)]
    lines = [[column.replace("_", " ") for column in columns], ["---"] + ["--:"] * (len(columns) - 1)]
    lines += [[cell(row, column) for column in columns] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def cell(row: Row, column: str) -> str:
    """A value as the table has it."""
    value, spread = row[column], row.get(f"{column} sd")
    if isinstance(value, str) or value is None:
        return (value or "").replace("(R)", "").removesuffix(" Processor")
    if column in ("steps", "seeds", "threads"):
        return f"{value:,.0f}"
    return f"{value:.1f}" + (
        f" ± {spread:.1f}" if spread is not None and column != "million_parameters" else ""
    )


def aligned(found: Iterable[Row]) -> list[Row]:
    """Rows that all have the columns of all."""
    found = list(found)
    columns = dict.fromkeys(column for row in found for column in row)
    return [{column: row.get(column) for column in columns} for row in found]
