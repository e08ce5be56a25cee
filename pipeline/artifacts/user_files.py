"""Files of the user's: columns of .jsonl, .csv, .tsv and .parquet, lines of .txt; .gz of each but Parquet.

A path that begins with `hub:` is a dataset of Hugging Face's, whose columns are read likewise.
"""

import csv
import difflib
import glob
import io
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import polars as pl
from polars import selectors

from pipeline.artifacts.hub_datasets import is_hub, open_dataset
from pipeline.artifacts.utf8 import lines_of, read_json_lines
from pipeline.core.errors import UserError

if TYPE_CHECKING:
    from datasets import Dataset

FORMATS = (".txt", ".jsonl", ".csv", ".tsv", ".parquet")
LINES_AT_A_TIME = 100_000
MAX_CELL = 1 << 24
_SURROGATE = re.compile("[\ud800-\udfff]")


def expand(pattern: str, key: str) -> list[Path]:
    """The files that a path or a glob (`**` included) names, sorted; a dataset as it is.

    Args:
        pattern: the path.
        key: where params.yaml names it, for messages.

    Raises:
        UserError: there is none.
    """
    if is_hub(pattern) or Path(pattern).is_file():
        return [Path(pattern)]
    if Path(pattern).is_dir():
        example = Path(pattern) / "*.txt"
        raise UserError(f"{key}: {pattern} is a folder; name a file or a glob such as {example}")
    found = sorted(Path(name) for name in glob.glob(pattern, recursive=True) if Path(name).is_file())
    if not found:
        what = "matches no file" if glob.has_magic(pattern) else "does not exist"
        raise UserError(f"{key}: {pattern} {what}; correct the path (relative to the repository root)")
    return found


def read_texts(path: Path, column: str) -> pl.Series:
    """One column of texts, or the lines of a .txt; an empty cell is null.

    Raises:
        UserError: see `read_columns`.
    """
    if _format(path) != ".txt":
        return read_columns(path, [column])[column]
    lines = lines_of(path)
    parts = [pl.Series("text", [], dtype=pl.String)]
    while part := list(islice(lines, LINES_AT_A_TIME)):
        parts.append(pl.Series("text", part, dtype=pl.String))
    return _not_empty(pl.concat(parts), path)


def read_columns(path: Path, columns: Sequence[str]) -> pl.DataFrame:
    """Columns of a table, as text; an empty cell is null.

    Raises:
        UserError: the format is unknown, the file has no rows or lacks a column, or a line cannot be read.
    """
    match "hub" if is_hub(path) else _format(path):
        case "hub":
            table = dataset_columns(open_dataset(path), columns, path)
        case ".jsonl":
            table = _read_jsonl(path, columns)
        case ".csv":
            table = _read_delimited(path, columns, _rows(path, ",", csv.QUOTE_MINIMAL))
        case ".tsv":
            table = read_tabbed(path, columns)
        case ".parquet":
            table = _read_parquet(path, columns)
        case _:
            raise UserError(f"{path} has no columns; use {', '.join(FORMATS[1:])}")
    _not_empty(table[columns[0]], path)
    return table


def read_tabbed(path: Path, columns: Sequence[str]) -> pl.DataFrame:
    """Columns of a tab-separated file with a header, whatever its name; an empty cell is null.

    Raises:
        UserError: see `read_columns`.
    """
    # The official STS files are tab-separated and hold lone quotation marks.
    table = _read_delimited(path, columns, _rows(path, "\t", csv.QUOTE_NONE))
    _not_empty(table[columns[0]], path)
    return table


def read_cells(path: Path, names: Sequence[str], *, surplus: bool = False) -> pl.DataFrame:
    """The tab-separated cells of a file without a header, as text; an empty cell is null.

    Args:
        path: any name.
        names: of the columns.
        surplus: whether a line may have more cells, which are left out.

    Raises:
        UserError: the file is missing or empty, or a line has another number of cells.
    """

    def rows() -> Iterator[list[str]]:
        for number, line in enumerate(_lines(path), start=1):
            row = line.split("\t")
            if len(row) < len(names) or (len(row) > len(names) and not surplus):
                raise UserError(
                    f"{path}, line {number}: {len(row)} cells, not {', '.join(names)}, separated by tabs; "
                    "correct the line"
                )
            yield row[: len(names)]

    table = _table(rows(), names)
    _not_empty(table[names[0]], path)
    return table


def read_lines(path: Path) -> list[str]:
    """The lines of a file, blank ones too.

    Raises:
        UserError: the file is missing or empty.
    """
    lines = [*_lines(path)]
    if not lines or lines == [""]:
        raise empty(path)
    return lines


def missing_column(path: Path | str, column: str, found: Iterable[str]) -> UserError:
    """The error for a column that a file lacks, with the likeliest of those that it has."""
    names = list(found)
    close = difflib.get_close_matches(column, names, n=1)
    hint = f"did you mean {close[0]!r}?" if close else "rename one of them, or name it in params.yaml"
    return UserError(f"{path} has no column {column!r}; it has {', '.join(names) or 'none'}; {hint}")


def empty(path: Path) -> UserError:
    """The error for a file without content."""
    return UserError(f"{path} is empty; remove it from params.yaml or fill it")


def _format(path: Path) -> str:
    name = path.with_suffix("") if path.suffix == ".gz" else path
    if name.suffix not in FORMATS or (path.suffix == ".gz" and name.suffix == ".parquet"):
        allowed = f"{', '.join(FORMATS)}, each but .parquet also with .gz"
        raise UserError(f"{path}: unknown format; allowed: {allowed}")
    return name.suffix


def _not_empty(texts: pl.Series, path: Path) -> pl.Series:
    if texts.is_empty():
        raise empty(path)
    return texts


def _lines(path: Path) -> Iterator[str]:
    return (line.removesuffix("\r") for line in lines_of(path))


def _table(rows: Iterator[Sequence[str | None]], columns: Sequence[str]) -> pl.DataFrame:
    """Rows as a table of texts, in which an empty cell is null.

    It is put together by parts, for Python's own strings take several times the memory.
    """
    parts = [pl.DataFrame(schema=dict.fromkeys(columns, pl.String))]
    while part := list(islice(rows, LINES_AT_A_TIME)):
        cells = {name: [row[place] or None for row in part] for place, name in enumerate(columns)}
        parts.append(pl.DataFrame(cells, schema=parts[0].schema))
    return pl.concat(parts)


def _with_ends(lines: Iterator[str]) -> Iterator[str]:
    """Lines as csv reads them, which also ends one at a lone carriage return."""
    for line in lines:
        if "\r" in line:
            yield from io.StringIO(f"{line}\n", newline="")
        else:
            yield f"{line}\n"


def _rows(path: Path, delimiter: str, quoting: Literal[0, 3]) -> Iterator[tuple[int, list[str]]]:
    """The rows of a delimited file, [] for an empty line, with the number of the line on which each ends."""
    reader = csv.reader(_with_ends(lines_of(path)), delimiter=delimiter, quoting=quoting, strict=True)
    csv.field_size_limit(MAX_CELL)
    try:
        for row in reader:
            yield reader.line_num, row
    except csv.Error as error:
        raise UserError(f"{path}, line {reader.line_num}: {error}; correct the quotation marks") from None


def _read_delimited(
    path: Path, columns: Sequence[str], rows: Iterator[tuple[int, list[str]]]
) -> pl.DataFrame:
    header = next((row for _, row in rows if row), [])
    if not header:
        raise empty(path)
    for column in columns:
        if column not in header:
            raise missing_column(path, column, header)
    names = list(dict.fromkeys(columns))
    places = [header.index(column) for column in names]

    def cells() -> Iterator[list[str]]:
        for line, found in rows:
            if not found and len(header) > 1:
                continue  # of a single column an empty line is an empty cell
            row = found or [""]
            if len(row) != len(header):
                raise UserError(
                    f"{path}, line {line}: {len(row)} cells for {len(header)} columns; correct the line"
                )
            yield [row[place] for place in places]

    return _table(cells(), names)


def _read_jsonl(path: Path, columns: Sequence[str]) -> pl.DataFrame:
    names = list(dict.fromkeys(columns))

    def cells() -> Iterator[list[str | None]]:
        for number, value in read_json_lines(path):
            for column in names:
                if column not in value:
                    raise missing_column(f"{path}, line {number}", column, value)
            yield [_cell(value[column], f"{path}, line {number}: {column}") for column in names]

    return _table(cells(), names)


def _cell(value: object, where: str) -> str | None:
    """A JSON value as text."""
    match value:
        case None | "":
            return None
        case float() if math.isnan(value):
            return None
        case str():
            return whole_characters(value, where)
        case int() | float() if not isinstance(value, bool):
            return str(value)
        case _:
            raise UserError(f"{where} is {json.dumps(value)[:40]}, not a text or a number; correct the line")


def whole_characters(text: str, where: str) -> str:
    """A text of JSON's, which may escape half a character; raises UserError where it does."""
    if not text.isascii() and _SURROGATE.search(text):
        raise UserError(f"{where} holds half a surrogate pair (\\ud800 to \\udfff); correct the line")
    return text


def _read_parquet(path: Path, columns: Sequence[str]) -> pl.DataFrame:
    try:
        with path.open("rb") as file:  # a name with brackets is no pattern
            schema = pl.read_parquet_schema(file)
        _check_there(schema, columns, path)
        _check_types(schema, columns, path)
        table = pl.read_parquet(path, columns=list(dict.fromkeys(columns)), glob=False)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise UserError(f"{path} is not a readable Parquet file ({error}); write it again") from None
    return _as_texts(table, columns)


def dataset_columns(dataset: "Dataset", columns: Sequence[str], where: Path | str) -> pl.DataFrame:
    """Columns of a dataset of Hugging Face's, as text; an empty cell is null.

    Args:
        dataset: one split.
        columns: their names.
        where: for messages.

    Raises:
        UserError: it lacks a column, or one holds neither texts nor numbers.
    """
    names = list(dict.fromkeys(columns))
    _check_there(dataset.column_names, names, where)
    table = pl.DataFrame(pl.from_arrow(dataset.select_columns(names).with_format("arrow")[:]))
    _check_types(table.schema, names, where)
    return _as_texts(table, columns)


def _check_there(found: Iterable[str], columns: Sequence[str], path: Path | str) -> None:
    known = list(found)
    for column in columns:
        if column not in known:
            raise missing_column(path, column, known)


def _check_types(found: Mapping[str, pl.DataType], columns: Sequence[str], path: Path | str) -> None:
    for column in columns:
        if not (found[column] in (pl.String, pl.Categorical, pl.Enum) or found[column].is_numeric()):
            raise UserError(
                f"{path}: {column} holds {found[column]}, not texts or numbers; name another column"
            )


def _as_texts(table: pl.DataFrame, columns: Sequence[str]) -> pl.DataFrame:
    known = table.select(*dict.fromkeys(columns)).with_columns(selectors.float().fill_nan(None))
    texts = known.select(pl.all().cast(pl.String))
    return texts.with_columns(pl.all().replace("", None))
