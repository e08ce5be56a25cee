"""GLUE's sets in the folders in which they are published, by GLUE and by SentEval."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import polars as pl

from pipeline.core.errors import UserError
from pipeline.prepare.readers.delimited import empty, places, read_cells, read_lines, read_tabbed
from pipeline.prepare.readers.user_columns import filled, one_of

GlueSet = Literal["sst2", "mrpc", "qqp", "mnli_matched", "mnli_mismatched"]
NO_YES = ("0", "1")
NLI = ("entailment", "neutral", "contradiction")


@dataclass(frozen=True)
class _Layout:
    """The files of a set, and the columns that they have."""

    train: str
    test: str
    """The rows that are scored: their labels are known."""
    columns: tuple[str, ...]
    """Of the text or of both, and of the label."""
    labels: tuple[str, ...]
    dev: str | None = None
    header: bool = True
    may_break: bool = False
    """Whether the published files have lines with other cells than the header."""


LAYOUTS: dict[GlueSet, tuple[_Layout, ...]] = {
    "sst2": (
        _Layout("train.tsv", "dev.tsv", ("sentence", "label"), NO_YES),
        _Layout(
            "sentiment-train",
            "sentiment-test",
            ("sentence", "label"),
            NO_YES,
            dev="sentiment-dev",
            header=False,
        ),
    ),
    "mrpc": (
        _Layout(
            "msr_paraphrase_train.txt",
            "msr_paraphrase_test.txt",
            ("#1 String", "#2 String", "Quality"),
            NO_YES,
        ),
        _Layout("train.tsv", "dev.tsv", ("#1 String", "#2 String", "Quality"), NO_YES),
    ),
    "qqp": (
        _Layout("train.tsv", "dev.tsv", ("question1", "question2", "is_duplicate"), NO_YES, may_break=True),
    ),
    "mnli_matched": (_Layout("train.tsv", "dev_matched.tsv", ("sentence1", "sentence2", "gold_label"), NLI),),
    "mnli_mismatched": (
        _Layout("train.tsv", "dev_mismatched.tsv", ("sentence1", "sentence2", "gold_label"), NLI),
    ),
}
"""The first whose files are there is read."""


@dataclass(frozen=True)
class GlueRows:
    """The rows of one file."""

    table: pl.DataFrame
    """left, right (null for single texts), label, and where: file and line or row, for messages."""
    broken: int
    """Lines that were left out, since they have other cells than the header."""


def read_glue(folder: Path, name: GlueSet) -> dict[str, GlueRows]:
    """Training rows and the rows to score, `train` and `test`, and `dev` where the layout has such.

    Raises:
        UserError: the folder has no layout of the set, a cell is empty, a label is none of the set's, or a
            line cannot be read (but for those of QQP, of which the published files have some).
    """
    layouts = LAYOUTS[name]
    for layout in layouts:
        files = {"train": layout.train, "test": layout.test, "dev": layout.dev}
        paths = {part: folder / file for part, file in files.items() if file}
        if all(path.is_file() for path in paths.values()):
            return {part: _read(path, layout) for part, path in paths.items()}
    wanted = "; or ".join(f"{layout.train} and {layout.test}" for layout in layouts)
    what = "lacks files" if folder.is_dir() else "is not a folder"
    raise UserError(f"{folder} {what}; {name.partition('_')[0]} is read from a folder with {wanted}")


def _read(path: Path, layout: _Layout) -> GlueRows:
    broken = 0
    if layout.may_break:
        table, where, broken = _unbroken(path, layout)
    else:
        table = (read_tabbed if layout.header else read_cells)(path, layout.columns)
        where = [f"{path}, row {row} of the data" for row in range(1, len(table) + 1)]
    *sides, label = layout.columns
    texts = [filled(table[side], path) for side in sides]
    columns = {
        "left": texts[0],
        "right": texts[1] if len(texts) == 2 else pl.repeat(None, len(table), dtype=pl.String, eager=True),
        "label": one_of(table[label], layout.labels, path),
        "where": pl.Series(where, dtype=pl.String),
    }
    return GlueRows(pl.DataFrame(columns), broken)


def _unbroken(path: Path, layout: _Layout) -> tuple[pl.DataFrame, list[str], int]:
    """The lines with as many cells as the header and none empty; where they are; how many others."""
    header, *lines = (line.split("\t") for line in read_lines(path))
    of_columns = places(path, header, layout.columns)
    rows, where = [], []
    for number, line in enumerate(lines, start=2):
        if len(line) != len(header) or not all(line[place].strip() for place in of_columns):
            continue
        row = [line[place] for place in of_columns]
        if row[-1].strip() not in layout.labels:
            said = f"{layout.columns[-1]} is {row[-1]!r}, not one of {', '.join(layout.labels)}"
            raise UserError(f"{path}, line {number}: {said}; correct it")
        rows.append(row)
        where.append(f"{path}, line {number}")
    if not rows:
        raise empty(path)
    table = pl.DataFrame(rows, schema=dict.fromkeys(layout.columns, pl.String), orient="row")
    return table, where, len(lines) - len(rows)
