"""Text files of the user's, by the line, or as JSON lines."""

import codecs
import gzip
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pipeline.core import json_text
from pipeline.core.errors import UserError

GZIP = b"\x1f\x8b"
"""How a gzip file begins."""
PLAIN = b"\t\r\n\f\v\x1b"
"""Control characters that text files have."""
WIDE_BYTES = 1000
"""Of a first line, by which UTF-16 without a mark is known."""
WIDE = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE)
"""How UTF-16 and UTF-32 may begin; the mark of UTF-32, little end first, begins with that of UTF-16."""


def read_json_lines(path: Path) -> Iterator[tuple[int, dict[str, object]]]:
    """The objects of a .jsonl or .jsonl.gz with their line numbers; blank lines are passed over.

    Raises:
        UserError: a line is no JSON object, or names a key twice.
    """
    for number, line in enumerate(lines_of(path), start=1):
        if not line or line.isspace():
            continue
        try:
            value = json_text.parse(line, _once)
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
    with _readable(path):
        check_regular(path)
    with _readable(path), opener(path, "rb") as file:
        for number, line in enumerate(file, start=1):
            if number == 1:
                check_narrow(line, path)
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
def whole_gzip(path: Path) -> Iterator[None]:
    """Turn what Python says of a file that is no gzip, or half of one, into a `UserError` that names it."""
    try:
        yield
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise UserError(f"{path} is not a whole gzip file ({error}); compress it again") from None


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        with whole_gzip(path):
            yield
    except FileNotFoundError:
        raise UserError(f"{path} does not exist; correct the path in params.yaml") from None
    except IsADirectoryError:
        raise UserError(f"{path} is a folder; name a file of it in params.yaml") from None
    except OSError as error:
        raise UserError(
            f"{path} cannot be read ({error.strerror or error}); mend its rights, or correct the path"
        ) from None


def check_regular(path: Path) -> None:
    """Fail for a named pipe or a device: reading it may never end. The pipe of a shell's `<(...)` is none.

    Raises:
        UserError: naming the path.
        OSError: there is nothing to read.
    """
    mode = path.stat().st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or path.resolve().is_relative_to("/proc")):
        raise UserError(f"{path} is a pipe or a device, not a file; name a file of the same content")


def check_narrow(line: bytes, path: Path | str) -> None:
    """Fail where a file's first line is gzip, UTF-16 or UTF-32: by its mark, or by control characters.

    Raises:
        UserError: naming the path.
    """
    if line.startswith(GZIP):
        raise UserError(f"{path} is gzip; unpack it (`zcat FILE | ...`), or name a file that ends in .gz")
    beginning = line[:WIDE_BYTES]
    controls = sum(byte < ord(" ") and byte not in PLAIN for byte in beginning)
    if line.startswith(WIDE) or controls * 4 >= len(beginning) > 0:
        raise UserError(f"{path}, line 1: bytes of UTF-16 or UTF-32; save the file as UTF-8")


def _no_utf8(path: Path, line: int, error: UnicodeDecodeError) -> UserError:
    byte = error.object[error.start]
    return UserError(f"{path}, line {line}: invalid UTF-8 (byte 0x{byte:02x}); save the file as UTF-8")
