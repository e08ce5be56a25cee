"""Scored sentence pairs in the layouts in which they were published, told by a file's name.

- SemEval: `STS.input.NAME.txt`, two sentences a line, and `STS.gs.NAME.txt`, their score or nothing.
  Those of 2016 are `STS2016.input.NAME.txt` and `STS2016.gs.NAME.txt`.
- STS benchmark: `sts-train.csv`, `sts-dev.csv` and `sts-test.csv`, tab-separated without a header.
- SICK: `SICK*.txt`, tab-separated with a header.

GLUE's .tsv has a header, as any other: `user_files.read_columns` reads it.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from pipeline.core.errors import UserError
from pipeline.prepare.readers.delimited import empty, read_cells, read_lines, read_tabbed
from pipeline.prepare.readers.user_columns import filled, numbers

_INPUT = re.compile(r"STS(?:2016)?\.input\.(.+)\.txt")
BENCHMARK = ("sts-train.csv", "sts-dev.csv", "sts-test.csv")
BENCHMARK_CELLS = ("genre", "file", "year", "number", "score", "sentence1", "sentence2")
"""Some lines name their sources after them."""
SICK = ("sentence_A", "sentence_B", "relatedness_score")
RANGE, SICK_RANGE = (0.0, 5.0), (1.0, 5.0)


@dataclass(frozen=True)
class OfficialPairs:
    """The scored pairs of a file."""

    name: str
    """Of the subset: as in STS.input.NAME.txt, or the file's."""
    table: pl.DataFrame
    """left, right: texts; score."""
    unscored: int = 0
    """Pairs that were published without a score, and are left out."""


def input_files(folder: Path) -> list[Path]:
    """SemEval's files of sentences in a folder, sorted; none where there is no such folder."""
    return sorted(path for path in folder.glob("STS*.txt") if _INPUT.fullmatch(path.name))


def read_official(path: Path) -> OfficialPairs | None:
    """Read a file in one of the official layouts; None for any other.

    Raises:
        UserError: a file is missing or empty, a line cannot be read, or a score is out of the set's range
            (0 to 5; SICK: 1 to 5).
    """
    if semeval := _INPUT.fullmatch(path.name):
        return _semeval(path, semeval[1])
    # A file of this name with commas and a header is somebody's own.
    if path.name in BENCHMARK and "\t" in read_lines(path)[0]:
        table = read_cells(path, BENCHMARK_CELLS, surplus=True)
        return OfficialPairs(path.name, _checked(table, ("sentence1", "sentence2", "score"), path, RANGE))
    if path.name.startswith("SICK") and path.suffix == ".txt":
        return OfficialPairs(path.name, _checked(read_tabbed(path, SICK), SICK, path, SICK_RANGE))
    return None


def _semeval(path: Path, name: str) -> OfficialPairs:
    gold = path.with_name(path.name.replace(".input.", ".gs.", 1))
    table = read_cells(path, ("left", "right"), surplus=True)
    given = pl.Series("score", read_lines(gold)).str.strip_chars()
    if len(given) != len(table):
        raise UserError(
            f"{gold} has {len(given):,} lines and {path.name} {len(table):,}; they go line by "
            "line: get both again"
        )
    if not (scored := given != "").any():
        raise empty(gold)
    columns = [filled(table[side], path) for side in table.columns]
    table = pl.DataFrame([*columns, numbers(given.replace("", "0"), gold, RANGE)])
    return OfficialPairs(name, table.filter(scored), int((~scored).sum()))


def _checked(
    table: pl.DataFrame, columns: Sequence[str], path: Path, between: tuple[float, float]
) -> pl.DataFrame:
    """The columns of left, right and score, renamed so."""
    left, right, score = columns
    return pl.DataFrame(
        {
            "left": filled(table[left], path),
            "right": filled(table[right], path),
            "score": numbers(table[score], path, between),
        }
    )
