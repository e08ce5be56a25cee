"""Files of the user's: columns of .jsonl, .csv, .tsv and .parquet, lines of .txt; .gz of each but Parquet.

A .txt has columns where its first line has tabs, as the published files of SNLI and SICK. An ending in
capitals, as .CSV, is the same.

A path that begins with `hub:` is a dataset of Hugging Face's, whose columns are read likewise.
"""

import json
import math
import re
from collections.abc import Container, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.core import json_text, memory
from pipeline.core.errors import UserError
from pipeline.data.common.files.tables import readable_or
from pipeline.data.utf8 import check_regular, lines_of, read_json_lines
from pipeline.prepare.readers.delimited import (
    LINES_AT_A_TIME,
    commas,
    empty,
    in_parts,
    missing_column,
    tab_rows,
    tables_of,
    tabs,
)
from pipeline.prepare.readers.hub_datasets import is_hub, open_dataset

if TYPE_CHECKING:
    from datasets import Dataset

FEATURES = b"huggingface"
"""Where the metadata of a dataset's Parquet files say what its columns are."""
FORMATS = (".txt", ".jsonl", ".csv", ".tsv", ".parquet")
_SURROGATE = re.compile("[\ud800-\udfff]")


def texts_in_parts(path: Path, column: str, key: str | None = None) -> Iterator[pl.Series]:
    """One column of texts, or the lines of a .txt, some at a time; an empty cell is null.

    Args:
        path: the file.
        column: its name.
        key: where params.yaml names the column; a .txt is then a table. None: nowhere; a .txt is lines.

    Raises:
        UserError: see `read_columns`; or a .txt with a key has no such column.
    """
    is_text = _format(path) == ".txt"
    if is_text and key:
        _check_table(path, column, key)
    if key or not is_text:
        yield from (part[column] for part in _in_parts(path, [column]))
        return
    is_empty = True
    for part in in_parts(lines_of(path)):
        is_empty = False
        yield pl.Series("text", part, dtype=pl.String)
    if is_empty:
        raise empty(path)


def _check_table(path: Path, column: str, key: str) -> None:
    """Check that a .txt, if it has lines, is a table with this column."""
    fix = "remove `column`, and each line is a text, or give the .txt a source of its own"
    first = next(iter(lines_of(path)), None)
    if first is None:
        raise empty(path)
    if "\t" not in first:
        raise UserError(f"{key} is {column!r}, but {path} has no columns: its first line has no tab; {fix}")
    header = next(row for _, row in tab_rows(path) if row)
    if column not in header:
        raise UserError(f"{key}: {missing_column(path, column, header)}; or {fix}")


def read_columns(path: Path, columns: Sequence[str]) -> pl.DataFrame:
    """Columns of a table, as text; an empty cell is null, and so is a ClassLabel's -1, which says no label.

    What is true or false is `true` or `false`.

    Raises:
        UserError: the format is unknown, the file has no rows or lacks a column, or a line cannot be read.
    """
    return pl.concat(_in_parts(path, columns))


def _in_parts(path: Path, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
    match "hub" if is_hub(path) else _format(path):
        case "hub":
            return dataset_columns(open_dataset(path), columns, path)
        case ".jsonl":
            return _jsonl(path, columns)
        case ".csv":
            return commas(path, columns)
        case ".tsv":
            return tabs(path, columns)
        case ".parquet":
            return _parquet(path, columns)
        case _ if "\t" in next(iter(lines_of(path)), ""):
            return tabs(path, columns)
        case _:
            raise UserError(f"{path} has no columns; use {', '.join(FORMATS[1:])}")


def _format(path: Path) -> str:
    ending = (path.with_suffix("") if path.suffix == ".gz" else path).suffix.lower()
    if ending not in FORMATS or (path.suffix == ".gz" and ending == ".parquet"):
        allowed = f"{', '.join(FORMATS)}, each but .parquet also with .gz"
        raise UserError(f"{path}: unknown format; allowed: {allowed}")
    return ending


def _jsonl(path: Path, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
    names = list(dict.fromkeys(columns))

    def cells() -> Iterator[list[str | None]]:
        for number, value in read_json_lines(path):
            for column in names:
                if column not in value:
                    raise missing_column(f"{path}, line {number}", column, value)
            yield [_cell(value[column], f"{path}, line {number}: {column}") for column in names]

    return tables_of(cells(), names, path)


def _cell(value: object, where: str) -> str | None:
    """A JSON value as text."""
    match value:
        case None | "":
            return None
        case float() if math.isnan(value):
            return None
        case str():
            return whole_characters(value, where)
        case bool():
            return json.dumps(value)
        case int() | float():
            return str(value)
        case _:
            raise UserError(f"{where} is {json.dumps(value)[:40]}, not a text or a number; correct the line")


def whole_characters(text: str, where: str) -> str:
    """A text of JSON's, which may escape half a character; raises UserError where it does."""
    if not text.isascii() and _SURROGATE.search(text):
        raise UserError(f"{where} holds half a surrogate pair (\\ud800 to \\udfff); correct the line")
    return text


def _parquet(path: Path, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
    with readable_or(path, "write it again"):
        check_regular(path)
        if not path.stat().st_size:
            raise empty(path)
        with path.open("rb") as file:  # a name with brackets is no pattern
            _check_there(pl.read_parquet_schema(file), columns, path)
        with pq.ParquetFile(path, pre_buffer=False) as opened:
            schema, names = opened.schema_arrow, list(dict.fromkeys(columns))
            rows = memory.at_a_time(LINES_AT_A_TIME)
            batches = (batch.select(names) for batch in opened.iter_batches(rows, columns=names))
            yield from _as_texts(
                (pl.DataFrame(pl.from_arrow(batch)) for batch in batches), _classes(schema), path
            )


def dataset_columns(dataset: "Dataset", columns: Sequence[str], where: Path | str) -> Iterator[pl.DataFrame]:
    """Columns of a dataset of Hugging Face's, as text, in parts; an empty cell is null.

    Args:
        dataset: one split.
        columns: their names.
        where: for messages.

    Raises:
        UserError: it lacks a column, or one holds neither texts nor numbers.
    """
    names = list(dict.fromkeys(columns))
    _check_there(dataset.column_names, names, where)
    arrow = dataset.select_columns(names).with_format("arrow")
    starts = range(0, len(dataset), LINES_AT_A_TIME)
    parts = (pl.DataFrame(pl.from_arrow(arrow[start : start + LINES_AT_A_TIME])) for start in starts)
    return _as_texts(parts, _classes(dataset.features.arrow_schema), where)


def _check_there(found: Iterable[str], columns: Sequence[str], path: Path | str) -> None:
    known = list(found)
    for column in columns:
        if column not in known:
            raise missing_column(path, column, known)


def _classes(schema: pa.Schema) -> set[str]:
    """The columns that are ClassLabels of Hugging Face's."""
    try:
        features = (
            json_text.parse((schema.metadata or {}).get(FEATURES, b"{}")).get("info", {}).get("features", {})
        )
        return {
            name
            for name, what in features.items()
            if isinstance(what, dict) and what.get("_type") == "ClassLabel"  # a list of structs is a list
        }
    except (ValueError, AttributeError):
        return set()


def _as_texts(
    tables: Iterable[pl.DataFrame], classes: Container[str], path: Path | str
) -> Iterator[pl.DataFrame]:
    """The columns of a table's successive parts as texts.

    Raises:
        UserError: there is no row, or a column holds something else.
    """
    before = 0
    for table in tables:
        columns = [_as_text(column, column.name in classes, path, before) for column in table.iter_columns()]
        before += len(table)
        yield pl.DataFrame(columns).with_columns(pl.all().replace("", None))
    if not before:
        raise empty(path, "has no row")


def _as_text(column: pl.Series, is_class: bool, path: Path | str, before: int) -> pl.Series:
    kind = column.dtype
    if kind == pl.Null:
        raise UserError(f"{path}: {column.name} has no value in any row; fill it, or name another column")
    if kind == pl.Binary:
        return _decoded(column, path, before)
    if not (kind in (pl.String, pl.Categorical, pl.Enum, pl.Boolean) or kind.is_numeric()):
        raise UserError(f"{path}: {column.name} holds {kind}, not texts or numbers; name another column")
    if kind.is_float():
        column = column.fill_nan(None)
    if is_class and kind.is_integer():
        column = column.set(column < 0, None)
    return column.cast(pl.String)


def _decoded(column: pl.Series, path: Path | str, before: int) -> pl.Series:
    """Bytes as texts; so many rows are before them."""
    try:
        return column.cast(pl.String)
    except pl.exceptions.ComputeError:
        row = next(row for row, value in enumerate(column, start=before + 1) if not _is_utf8(value))
        raise UserError(
            f"{path}, row {row} of the data: {column.name} holds bytes that are no UTF-8; "
            "write texts, or name another column"
        ) from None


def _is_utf8(value: bytes | None) -> bool:
    try:
        (value or b"").decode()
    except UnicodeDecodeError:
        return False
    return True
