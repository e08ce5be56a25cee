"""Text files of the user's, by the line, or as JSON lines."""

import gzip
import json
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pipeline.core.errors import UserError


def read_json_lines(path: Path) -> Iterator[tuple[int, dict[str, object]]]:
    """The objects of a .jsonl or .jsonl.gz with their line numbers; blank lines are passed over.

    Raises:
        UserError: a line is no JSON object, or names a key twice.
    """
    decoder = json.JSONDecoder(object_pairs_hook=_once)
    for number, line in enumerate(lines_of(path), start=1):
        if not line or line.isspace():
            continue
        try:
            value = decoder.decode(line)
        except _TwiceError as error:
            raise UserError(f"{path}, line {number}: the key {error} is there twice; remove one") from None
        except ValueError as error:
            raise UserError(f"{path}, line {number}: not JSON ({error}); correct the line") from None
        if not isinstance(value, dict):
            raise UserError(f'{path}, line {number}: not a JSON object; write {{"text": ...}}')
        yield number, value


def lines_of(path: Path) -> Iterator[str]:
    """A file's lines without their line feeds, unpacked if it ends in .gz, and without a byte order mark.

    One at a time: Python holds a text with a single emoji at four bytes a character.

    Raises:
        UserError: the file is missing, is not gzip, or is not UTF-8.
    """
    opener = gzip.open if path.suffix == ".gz" else open
    with _readable(path), opener(path, "rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                raise _no_utf8(path, number, error) from None
            yield text.removesuffix("\n")


class _TwiceError(Exception):
    """A JSON object has a key twice."""


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """An object of these; `json` keeps the last value of a key without a word."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise _TwiceError(repr(next(name for name in names if names.count(name) > 1)))
    return found


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise UserError(f"{path} does not exist; correct the path in params.yaml") from None
    except IsADirectoryError:
        raise UserError(f"{path} is a folder; name a file of it in params.yaml") from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise UserError(f"{path} is not a whole gzip file ({error}); compress it again") from None
    except OSError as error:
        raise UserError(
            f"{path} cannot be read ({error.strerror or error}); mend its rights, or correct the path"
        ) from None


def _no_utf8(path: Path, line: int, error: UnicodeDecodeError) -> UserError:
    byte = error.object[error.start]
    return UserError(f"{path}, line {line}: invalid UTF-8 (byte 0x{byte:02x}); save the file as UTF-8")
