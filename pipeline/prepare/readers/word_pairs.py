"""Scored pairs of words in the layouts in which they were published, seen in a file's first line.

- Without a header, between tabs, commas or blanks: two words and a score (MEN, RareWords, MTurk, Card-660,
  YP130, WordSim353's two parts, and the files of mfaruqui/eval-word-vectors).
- Likewise, with a part of speech before the score (SimVerb-3500).
- With a header that names two words and their score as one of `HEADERS` does.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

import polars as pl

from pipeline.core.errors import UserError
from pipeline.params.phrases import WordSet
from pipeline.prepare.readers.delimited import comma_rows, empty, read_lines, tab_rows
from pipeline.prepare.readers.delimited import places as column_places
from pipeline.prepare.readers.user_columns import filled, numbers

OFFICIAL: Mapping[WordSet, tuple[str, ...]] = {
    "bird": ("BiRD.txt", "bird.txt", "bird.tsv"),
    "card660": ("dataset.tsv", "card_660.txt"),
    "men": ("MEN_dataset_natural_form_full", "EN-MEN-TR-3k.txt", "MEN_dataset_lemma_form_full"),
    "mturk287": ("Mtruk.csv", "EN-MTurk-287.txt"),
    "mturk771": ("MTURK-771.csv", "EN-MTurk-771.txt"),
    "rareword": ("rw.txt", "EN-RW-STANFORD.txt"),
    "rel353": ("wordsim_relatedness_goldstandard.txt", "EN-WS-353-REL.txt"),
    "sim353": ("wordsim_similarity_goldstandard.txt", "EN-WS-353-SIM.txt"),
    "simlex": ("SimLex-999.txt", "EN-SIMLEX-999.txt"),
    "simverb": ("SimVerb-3500.txt", "EN-SimVerb-3500.txt"),
    "verb143": ("EN-VERB-143.txt",),
    "wordsim353": ("combined.csv", "combined.tab", "EN-WS-353-ALL.txt"),
    "yp130": ("EN-YP-130.txt",),
}
"""The published names of each set's file; the first that is there is read."""
HEADERS = (
    ("word1", "word2", "humanmean"),
    ("word1", "word2", "simlex999"),
    ("word1", "word2", "similarity"),
    ("word1", "word2", "score"),
    ("term1", "term2", "relatednessscore"),
)
"""Columns as published, but for case, blanks and signs: WordSim353, SimLex-999, others, BiRD."""
POS = frozenset("ANVR")
LEMMA = r"^.+-[nvja]$"
WITH_COLUMNS = (".parquet", ".jsonl", ".gz")
"""Formats in which no set is published so."""
_SIGNS = re.compile(r"[\W_]+")
_QUOTED = re.compile(r'^"(.*)"$')


def official_file(folder: Path, name: WordSet, key: str) -> Path:
    """The file of a set, in a folder or below.

    Args:
        folder: where it lies.
        name: the set.
        key: where params.yaml names the folder, for messages.

    Raises:
        UserError: there is none, or several of one name.
    """
    if not folder.is_dir():
        raise UserError(f"{key}: {folder} is no folder; name the one that holds the files of {name}")
    for wanted in OFFICIAL[name]:
        found = sorted(folder.rglob(wanted))
        if len(found) > 1:
            raise UserError(
                f"{key}: {found[0]} and {found[1]} may both be the set {name}; name one of them as the path "
                "of a task of kind word_similarity, without `set`"
            )
        if found:
            return found[0]
    raise UserError(
        f"{key}: {folder} has no file {' or '.join(OFFICIAL[name])}, as the set {name} is published; put it "
        "there, or leave the set out"
    )


def read_word_pairs(path: Path, columns: Sequence[str]) -> pl.DataFrame | None:
    """Read a file in a published layout: left, right, score. None for any other.

    Args:
        path: the file.
        columns: those that the task names; a file whose header has them is the user's own.

    Raises:
        UserError: the file is missing or empty, or a row lacks a cell, a word or a number.
    """
    if path.suffix in WITH_COLUMNS:
        return None
    first = next((line for line in read_lines(path) if line.strip()), None)
    if first is None:
        raise empty(path, "has only blank lines")
    rows = _rows(path, first)
    head = next(rows, None)
    if head is None:
        raise empty(path, "has only blank lines")
    if set(columns) <= {*head[1]}:
        return None
    if places := _header(path, head[1]):
        names, most = [head[1][place] for place in places], len(head[1])
    elif places := _headerless(head[1]):
        names, rows = ["left", "right", "score"], chain([head], rows)
        most = None  # judges' own scores may follow
    else:
        return None
    cells = [_cells(path, line, row, places, most) for line, row in rows]
    table = pl.DataFrame(cells, schema=dict.fromkeys(names, pl.String), orient="row")
    left, right, score = table.iter_columns()
    words = [filled(side, path) for side in (left, right)]
    if all(side.str.contains(LEMMA).all() for side in words):
        words = [side.str.head(-2) for side in words]
    return pl.DataFrame([*words, numbers(score, path)]).rename(
        dict(zip(names, ("left", "right", "score"), strict=True))
    )


def _rows(path: Path, first: str) -> Iterator[tuple[int, list[str]]]:
    """The cells of each line that is not blank, with its number."""
    rows = comma_rows(path) if _has_commas(first) else tab_rows(path) if "\t" in first else _blank_rows(path)
    for line, row in rows:
        cells = [cell.strip() for cell in row]
        if any(cells):
            yield line, cells


def _has_commas(first: str) -> bool:
    """Whether commas part the cells, by the first line."""
    return "\t" not in first and "," in first


def _blank_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The cells between blanks; a word in quotation marks, as R writes it, without them."""
    for number, line in enumerate(read_lines(path), start=1):
        yield number, [_QUOTED.sub(r"\1", cell) for cell in line.split()]


def _header(path: Path, cells: Sequence[str]) -> list[int] | None:
    """Where the columns of a published header stand.

    Raises:
        UserError: one of them is there twice.
    """
    folded = [_SIGNS.sub("", cell.casefold()) for cell in cells]
    known = next((names for names in HEADERS if {*names} <= {*folded}), None)
    return column_places(path, folded, known) if known else None


def _headerless(cells: Sequence[str]) -> list[int] | None:
    """Where two words and a score stand in a first line that is no header."""
    if len(cells) > 2 and _is_number(cells[2]):
        return [0, 1, 2]
    if len(cells) > 3 and cells[2] in POS and _is_number(cells[3]):
        return [0, 1, 3]
    return None


def _is_number(cell: str) -> bool:
    try:
        return math.isfinite(float(cell))
    except ValueError:
        return False


def _cells(path: Path, line: int, row: Sequence[str], places: Sequence[int], most: int | None) -> list[str]:
    if len(row) <= max(places):
        raise UserError(
            f"{path}, line {line}: {len(row)} cells, and two words and a score are in the cells "
            f"{', '.join(str(place + 1) for place in places)} of the first line; correct the line"
        )
    surplus = [cell for cell in row[most or max(places) + 1 :] if cell]
    # One whole number after another, and no more, is a number that a decimal comma has cut.
    cut = len(surplus) == 1 and row[places[-1]].isdigit() and surplus[0].isdigit()
    if surplus and (most or cut):
        raise UserError(
            f"{path}, line {line}: {len(row)} cells for {most or max(places) + 1} columns; correct the line "
            "(decimals have a point, and a cell with a comma stands in quotation marks)"
        )
    return [row[place] for place in places]
