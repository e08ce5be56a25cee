"""The rows of a file of word vectors: GloVe's and word2vec's text, and word2vec's binary form."""

import re
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipeline.core.errors import UserError
from pipeline.data.utf8 import lines_of

Row = tuple[str, NDArray[np.float32]]
"""A word as the file spells it, and its vector (d,)."""
BINARY = ".bin"
"""How a file in word2vec's binary form ends."""
MOST_BYTES = 4096
"""Of a word in a binary file: beyond it, the file is something else."""


def rows_of(path: Path) -> Iterator[Row]:
    """The words of a file and their vectors, one at a time.

    Args:
        path: a word and its numbers on a line, separated by spaces or tabs; word2vec's first line, the number
            of words and d, may precede them. .gz is unpacked. A file that ends in .bin has that first line,
            then for each word its letters, a space and d little-endian floats.

    Raises:
        UserError: the file is missing, or a line or row is not UTF-8 or not a word and d numbers.
    """
    if not path.is_file():
        raise UserError(f"init.path: there is no file {path}; correct it in params.yaml")
    return _binary_rows(path) if path.suffix == BINARY else _text_rows(path)


def _text_rows(path: Path) -> Iterator[Row]:
    dim = 0
    for number, whole in enumerate(lines_of(path), start=1):
        line = whole.rstrip("\r\t ")
        if not line:
            continue
        fields = re.split("[ \t]", line)
        if number == 1 and len(fields) == 2 and all(field.isdecimal() for field in fields):
            dim = int(fields[1])
            continue
        dim = dim or len(_split(line, -1)[1])
        parsed = _parse(line, dim)
        if parsed is None:
            raise UserError(
                f"{path}, line {number}: not a word and {dim or 'its'} numbers; correct or remove the line"
            )
        yield parsed


def _binary_rows(path: Path) -> Iterator[Row]:
    with path.open("rb") as file:
        fields = file.readline(MOST_BYTES).split()
        if len(fields) != 2 or not all(field.isdigit() and int(field) for field in fields):
            raise UserError(
                f"{path} does not begin with a number of words and a dimension, as word2vec's binary files "
                "do; correct init.path, or rename a text file so that it does not end in .bin"
            )
        count, dim = map(int, fields)
        if (size := path.stat().st_size) < 4 * dim:
            raise UserError(
                f"{path} begins with a dimension of {dim:,}, for which its {size:,} bytes are too few; copy "
                "the file again"
            )
        for number in range(1, count + 1):
            word, numbers = _binary_word(file), file.read(4 * dim)
            vector = np.frombuffer(numbers, "<f4") if len(numbers) == 4 * dim else np.empty(0, np.float32)
            if not (word and len(vector) and np.isfinite(vector).all()):
                raise UserError(
                    f"{path}, word {number:,} of {count:,}: not a word in UTF-8 and {dim} numbers; copy the "
                    "file again"
                )
            yield word, vector.astype(np.float32)


def _binary_word(file: BufferedReader) -> str:
    """The letters up to the next space; nothing where there are none, or no UTF-8."""
    found = bytearray()
    while (letter := file.read(1)) not in (b" ", b"") and len(found) < MOST_BYTES:
        found += letter
    try:
        # Some files have a line feed after each vector.
        return found.removeprefix(b"\n").decode("utf-8") if letter == b" " else ""
    except UnicodeDecodeError:
        return ""


def _parse(line: str, dim: int) -> tuple[str, NDArray[np.float32]] | None:
    """A word and its vector (dim,); None where the line is something else."""
    word, numbers = _split(line, dim)
    # A number before the vector is one too many.
    rest, _, last = word.rpartition(" ")
    try:
        vector = np.array([float(number) for number in numbers], np.float32)
    except ValueError:
        return None
    whole = bool(word) and 0 < dim == len(vector) and np.isfinite(vector).all()
    return (word, vector) if whole and not (rest and _is_number(last)) else None


def _split(line: str, dim: int) -> tuple[str, list[str]]:
    """The word, and the numbers after it: after the first tab, or the last `dim` that spaces separate."""
    word, tab, rest = line.partition("\t")
    if tab:
        return word, re.split("[ \t]+", rest)
    word, *numbers = line.rsplit(" ", min(dim, len(line)))  # some of GloVe's words hold spaces
    return word, numbers


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
