"""Seals: a digest in each artifact, by which a flipped bit is found before the artifact is used.

The seal of a folder is `seal.json`, which lists its files. The seal of a file lies in the file: MARK and the
digest of all its other bytes, in the metadata of Parquet and safetensors, at the key `seal` of JSON. What has
no seal was written by others, and is not checked: no single bit takes a seal away and changes anything else.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from io import FileIO
from pathlib import Path
from typing import Any, BinaryIO

from pipeline.core import json_text
from pipeline.core.errors import UserError

NAME, KEY = "seal.json", "seal"
MARK = "xxh3-128:"
LETTERS = 32
BLANK = MARK + LETTERS * "0"
"""What is written where `fill` puts the digest."""
SEAL = re.compile(f"{MARK}([0-9a-f]{{{LETTERS}}})".encode())
CHUNK = 1 << 20
DIGESTS = "digests"
"""Key of a timing for the digests of files that have no place for a seal."""

kept: dict[str, str] = {}
"""Such digests of this process, by file name."""


def fill(path: Path) -> None:
    """Seal a file that holds BLANK."""
    with path.open("r+b") as file:
        at = _place(file, path.suffix)
        if at is None:
            raise ValueError(f"{path} has no place for a seal")
        file.seek(at)
        file.write(_hash(path, at).encode())


def write_folder(folder: Path) -> None:
    """Seal a folder: list all its files with their digests."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    listed = {path.relative_to(folder).as_posix(): _hash(path, None) for path in files}
    listed.pop(NAME, None)
    (folder / NAME).write_text(to_json({"files": listed}), encoding="utf-8")


def fault(path: Path, *names: str) -> str | None:
    """What is wrong with a file or folder; None if it is as it was sealed, or has no seal.

    Args:
        path: the file or folder; it exists.
        names: the files of the folder that are used; none: all of them.

    Raises:
        UserError: it cannot be read.
    """
    try:
        if not path.is_dir():
            return _fault_of_file(path)
        return _fault_of_folder(path, names) if (path / NAME).exists() else None
    except OSError as error:
        raise UserError(f"{error.filename or path} cannot be read ({error.strerror}); mend that") from None


def fault_of_own(folder: Path) -> str | None:
    """As `fault`, of a folder that was sealed as it was made: without a seal it is not complete."""
    return fault(folder) if (folder / NAME).exists() else f"{folder} is not complete: it has no {NAME}"


def keep_digest(path: Path) -> None:
    """Put down the digest of a file that has no place for a seal: it stands in its stage's timing."""
    kept[path.name] = _hash(path, None)


def check_kept(path: Path, timing: Mapping[str, Any], again: str) -> None:
    """Fail where a file has another digest than its stage's timing says; what it does not say is not checked.

    Raises:
        UserError: naming the file.
    """
    known = _hash(path, None)
    if timing.get(DIGESTS, {}).get(path.name, known) != known:
        raise UserError(f"{path} is damaged: its digest is not that of its stage's timing; {again}")


def check(path: Path, again: str, *names: str) -> None:
    """Fail where a file or folder is not there, or not as it was sealed; `again` says how to make it anew.

    Raises:
        UserError: naming the file.
    """
    if not path.exists():
        raise UserError(f"{path} does not exist; {again}")
    if wrong := fault(path, *names):
        raise UserError(f"{wrong}; {again}")


def to_json(content: Mapping[str, Any], *, sealed: bool = True) -> str:
    """A JSON object, sealed if that is asked for, sorted by key; `read_json` gives it back."""
    import xxhash  # here, for what is started without it

    # Indented, json says which value it cannot write.
    ordered = json.loads(json.dumps(content, indent=2, sort_keys=True, allow_nan=False))
    if not sealed:
        return f"{json.dumps(ordered, indent=2)}\n"
    before, _, after = f"{json.dumps({**ordered, KEY: BLANK}, indent=2)}\n".rpartition(BLANK)
    digest = xxhash.xxh3_128(f"{before}{MARK}{after}".encode()).hexdigest()
    return f"{before}{MARK}{digest}{after}"


def read_json(path: Path, stage: str) -> dict[str, Any]:
    """A JSON object that `stage` wrote, without its seal.

    Raises:
        UserError: it is missing or damaged.
    """
    if not path.exists():
        raise UserError(f"{path} does not exist; run `dvc repro {stage}`")
    again = f"run `dvc repro -f {stage}`"
    try:
        found = json_text.parse(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError(f"{path} is not JSON ({error}); {again}") from None
    if not isinstance(found, dict):
        raise UserError(f"{path} is no JSON object; {again}")
    check(path, again)
    found.pop(KEY, None)
    return found


def _fault_of_file(path: Path) -> str | None:
    with path.open("rb") as file:
        at = _place(file, path.suffix)
        if at is None:
            return None
        file.seek(at)
        told = file.read(LETTERS).decode("ascii", "replace")
    return None if told == _hash(path, at) else _damaged(path)


def _fault_of_folder(folder: Path, names: Iterable[str]) -> str | None:
    """As `fault`, of a folder with a seal."""
    if wrong := _fault_of_file(folder / NAME):
        return wrong
    try:
        listed = json_text.parse((folder / NAME).read_text(encoding="utf-8"))["files"]
    except (ValueError, LookupError, TypeError):
        return _damaged(folder / NAME)
    if not isinstance(listed, dict) or not all(isinstance(told, str) for told in listed.values()):
        return _damaged(folder / NAME)
    for name in names or listed:
        if not (folder / name).is_file():
            return f"{folder / name} is missing"
        if listed.get(name) not in (None, _hash(folder / name, None)):
            return _damaged(folder / name)
    return None


def _damaged(path: Path) -> str:
    return f"{path} is damaged: its digest is not that of its seal"


def _hash(path: Path, at: int | None) -> str:
    """Digest of a file without the digest that begins at byte `at`; unchanged, it is not read again."""
    now = path.stat()
    return _digest(path, at, (now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns, now.st_ctime_ns))


@cache
def _digest(path: Path, at: int | None, version: tuple[int, ...]) -> str:
    import xxhash

    state = xxhash.xxh3_128()
    with path.open("rb", buffering=0) as file:
        if at is not None:
            _update(state.update, file, at)
            file.seek(at + LETTERS)
        _update(state.update, file, None)
    return state.hexdigest()


def _update(update: Callable[[memoryview], None], file: FileIO, count: int | None) -> None:
    """Hash the next `count` bytes, or all that are left."""
    buffer = memoryview(bytearray(CHUNK))
    while count is None or count > 0:
        read = file.readinto(buffer[: CHUNK if count is None else min(CHUNK, count)])
        if not read:
            return
        update(buffer[:read])
        count = None if count is None else count - read


def _place(file: BinaryIO, suffix: str) -> int | None:
    """Where the digest of a file's seal begins: the last that looks like one. None where it has no seal."""
    size = file.seek(0, 2)
    start, length = 0, size
    if suffix == ".parquet" and size >= 8:  # the footer, its length, a name
        file.seek(size - 8)
        length = int.from_bytes(file.read(4), "little")
        start = max(0, size - 8 - length)
    elif suffix == ".safetensors":  # the length of the header, the header
        file.seek(0)
        start, length = 8, int.from_bytes(file.read(8), "little")
    file.seek(start)
    found = [seal.start(1) for seal in SEAL.finditer(file.read(min(length, size)))]
    return start + found[-1] if found else None
