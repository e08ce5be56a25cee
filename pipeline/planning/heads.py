"""The rows of a file and the first of its texts, without reading all of it into memory."""

import gzip
import itertools
import re
import tempfile
import zlib
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq

from pipeline.core.errors import UserError
from pipeline.data.common.files.tables import readable_or
from pipeline.prepare.readers.user_files import texts_in_parts
from pipeline.prepare.shared.wordnet_files import PARTS_OF_SPEECH, wordnet_folder

FIRST = 2048
"""Lines that are looked at."""
BLOCK = 1 << 20
QUOTED = re.compile(r'"([^"]*)"')
"""An example in a gloss."""


@dataclass(frozen=True)
class Head:
    """How many rows there are, and some of the texts."""

    rows: int
    texts: tuple[str, ...]

    @property
    def characters(self) -> float:
        """Mean length of the texts."""
        return sum(map(len, self.texts)) / max(1, len(self.texts))


def head_of(path: Path, column: str | None, key: str | None = None) -> Head:
    """The head of a file of texts, or of a folder of NLTK's data.

    Args:
        path: the file.
        column: where its texts are; None: of the kinds of columns nothing is known, and a line is a text.
        key: where params.yaml names the column: see `user_files.texts_in_parts`.

    Raises:
        UserError: it cannot be read.
    """
    if path.is_dir():
        return _wordnet(path)
    if path.suffix.lower() == ".parquet":
        with readable_or(path, "mend or remove it"):
            return _parquet(path, column)
    tables = {".csv", ".tsv", *([".txt"] if key else [])}
    if column is not None and tables & {ending.lower() for ending in path.suffixes[-2:]}:
        return _cells(path, column, key)
    try:
        lines, first = _lines(path)
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"{path} cannot be read ({error}); mend or remove it") from None
    if column is None:
        return Head(lines, tuple(line.decode("utf-8", "replace").strip() for line in first))
    name = path.with_suffix("").name if path.suffix == ".gz" else path.name
    with tempfile.TemporaryDirectory() as folder:
        part = Path(folder) / name
        part.write_bytes(b"".join(first))
        try:
            texts = pl.concat(texts_in_parts(part, column))
        except UserError as error:
            raise UserError(str(error).replace(str(part), str(path))) from None
    return Head(lines, _filled(texts))


def _cells(path: Path, column: str, key: str | None) -> Head:
    """Of a table whose cells may hold line breaks, so that only reading tells its rows."""
    rows, first = 0, pl.Series(column, [], pl.String)
    for part in texts_in_parts(path, column, key):
        if rows < FIRST:
            first = pl.concat([first, part.rename(column).head(FIRST - rows)])
        rows += len(part)
    return Head(rows, _filled(first))


def _filled(texts: pl.Series) -> tuple[str, ...]:
    return tuple(text.strip() for text in texts.drop_nulls() if text.strip())


def _lines(path: Path) -> tuple[int, list[bytes]]:
    """How many lines a file has, and the first of them."""
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        first = list(itertools.islice(file, FIRST))
        rest, last = 0, b"\n"
        while block := file.read(BLOCK):
            rest += block.count(b"\n")
            last = block[-1:]
    return len(first) + rest + (last != b"\n"), first


def _parquet(path: Path, column: str | None) -> Head:
    with pq.ParquetFile(path, pre_buffer=False) as file:
        wanted = [column] if column else None
        batch = next(file.iter_batches(FIRST, columns=wanted), None)
        if column and column not in file.schema_arrow.names:
            raise UserError(
                f"{path} has no column {column!r}; name one of {', '.join(file.schema_arrow.names)}"
            )
        rows = file.metadata.num_rows
    found = batch.to_pylist() if batch else []
    texts = (" ".join(str(value) for value in row.values() if isinstance(value, str)) for row in found)
    return Head(rows, tuple(text for text in texts if text))


def _wordnet(folder: Path) -> Head:
    """Glosses and examples of WordNet's files, some of each part of speech.

    Raises:
        UserError: they are not there.
    """
    texts: list[str] = []
    for part in PARTS_OF_SPEECH:
        path = wordnet_folder(folder) / f"data.{part}"
        if not path.is_file():
            raise UserError(f"{path} is missing; run `make setup`, which gets it")
        with path.open(encoding="utf-8") as file:
            entries = [line for line in file if " | " in line]
        step = max(1, len(entries) * len(PARTS_OF_SPEECH) // FIRST)
        for gloss in (line.partition(" | ")[2] for line in entries[::step]):
            definition = QUOTED.sub("", gloss).strip("; \n")
            texts += [text for text in (definition, *QUOTED.findall(gloss)) if text]
    return Head(len(texts), tuple(texts))
