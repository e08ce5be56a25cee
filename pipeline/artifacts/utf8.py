"""Text files of the user's: whole, or as JSON lines."""

import gzip
import json
import zlib
from collections.abc import Iterator
from pathlib import Path

from pipeline.core.errors import UserError


def read_json_lines(path: Path) -> Iterator[tuple[int, dict[str, object]]]:
    """The objects of a .jsonl or .jsonl.gz with their line numbers; blank lines are passed over.

    Raises:
        UserError: a line is no JSON object.
    """
    for number, line in enumerate(read_utf8(path).split("\n"), start=1):
        if not line or line.isspace():
            continue
        try:
            value = json.loads(line)
        except ValueError as error:
            raise UserError(f"{path}, line {number}: not JSON ({error}); correct the line") from None
        if not isinstance(value, dict):
            raise UserError(f'{path}, line {number}: not a JSON object; write {{"text": ...}}')
        yield number, value


def read_utf8(path: Path) -> str:
    """A whole file's text, unpacked if it ends in .gz, without a byte order mark.

    Raises:
        UserError: the file is missing, is not gzip, or is not UTF-8.
    """
    try:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except FileNotFoundError:
        raise UserError(f"{path} does not exist; correct the path in params.yaml") from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise UserError(f"{path} is not a whole gzip file ({error}); compress it again") from None
    try:
        return content.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UserError(
            f"{path}, line {line}: invalid UTF-8 (byte 0x{content[error.start]:02x}); save the file as UTF-8"
        ) from None
