"""A YAML file of the user's as plain values, or an error that names its line.

It is YAML 1.2, in which `1e-4` is a number.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.core.errors import UserError

if TYPE_CHECKING:
    from ruamel.yaml.error import MarkedYAMLError

MOST_BYTES = 1 << 20
DEEPEST = 50
"""Blocks within blocks; Python's own limit is reached at some hundred."""
MOST_VALUES = 100_000
"""Keys and values, an alias counted as all that it stands for: a few lines can stand for billions."""
MOST_BITS = 64
"""Of an integer; no library here takes longer ones."""
COLON_IN_BRACKETS = "found unexpected ':'"
FIXES = {
    "another document": "remove the `---` and what follows it, for params are one document",
    "undefined alias": "write `&` and its name before a value above it, or write the value",
    "duplicate anchor": "give one of the two another name",
    "unknown directive": "remove the line",
}
"""By what libyaml says is wrong; all else is mended by quotes."""
NO_VALUE = (ValueError, LookupError, ArithmeticError, TypeError, AttributeError)
"""What ruamel.yaml raises where a text looks like a date or a number, or has a tag, and is none."""


def read(path: Path) -> object:
    """The document.

    Raises:
        UserError: it is missing, is no file, is no YAML, is too large, or holds a value that nothing can be.
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.constructor import DuplicateKeyError
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    text = _text(path)
    try:
        _check_size(YAML(typ="safe", pure=True).parse(text), path)
    except YAMLError as error:
        raise UserError(f"{path} is not valid YAML: {' '.join(str(error).split())}") from None
    try:
        document = YAML(typ="safe").load(text)  # as DVC reads it: by libyaml
    except DuplicateKeyError as error:
        key, line = str(error.problem).partition(" with value")[0], error.problem_mark.line + 1
        raise UserError(f"{path}, line {line}: {key.removeprefix('found ')}; remove one of the two") from None
    except MarkedYAMLError as error:
        raise _unread_by_libyaml(error, text, path) from None
    except NO_VALUE:
        raise _unreadable(text, path) from None
    if wide := next(_wide(document, ""), None):
        raise UserError(f"{path}: {wide} is an integer of more than {MOST_BITS} bits; write a smaller one")
    return document


def _text(path: Path) -> str:
    try:
        if path.exists() and not path.is_file():
            raise UserError(f"{path} is no regular file; name a params file")
        if path.stat().st_size > MOST_BYTES:
            raise UserError(f"{path} has more than {MOST_BYTES:,} bytes; name a params file")
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UserError(f"{path} does not exist; run from the repository root or pass --params") from None
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}); name a params file") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 (byte {error.start}); save it as UTF-8") from None


def _check_size(events: Iterable[Any], path: Path) -> None:
    """Fail where a document nests too deep, or its aliases stand for too much."""
    sizes: dict[str, int] = {}
    blocks: list[tuple[str | None, int]] = []
    total = 0
    for event in events:
        kind, where = type(event).__name__, f"{path}, line {event.start_mark.line + 1}"
        if kind.endswith("EndEvent") and blocks and not kind.startswith(("Document", "Stream")):
            anchor, before = blocks.pop()
            sizes[anchor or ""] = total - before
        elif kind in ("MappingStartEvent", "SequenceStartEvent"):
            blocks.append((event.anchor, total))
        elif kind == "AliasEvent" and event.anchor in [anchor for anchor, _ in blocks]:
            raise UserError(f"{where}: the alias *{event.anchor} stands within what it names; remove it")
        # An alias whose size is not known stands for a single value.
        total += sizes.get(event.anchor, 1) if kind == "AliasEvent" else 1
        if len(blocks) > DEEPEST:
            raise UserError(f"{where}: blocks nest more than {DEEPEST} deep; correct the brackets")
        if total > MOST_VALUES:
            raise UserError(
                f"{where}: up to here aliases stand for more than {MOST_VALUES:,} values; remove some of them"
            )


def _unread_by_libyaml(error: "MarkedYAMLError", text: str, path: Path) -> UserError:
    """The error that names what libyaml refuses though YAML allows it."""
    line = f"{path}, line {error.problem_mark.line + 1}"
    if error.problem == COLON_IN_BRACKETS:
        start = text.splitlines()[error.context_mark.line][error.context_mark.column :]
        word = re.split(r"[\s\[\]{},]", start, maxsplit=1)[0]
        return UserError(f'{line}: DVC reads no bare word with a colon within brackets; write "{word}"')
    said = f"{error.context or ''} {error.problem}"
    fix = next((fix for fault, fix in FIXES.items() if fault in said), "put texts in quotes")
    return UserError(f"{line}: cannot be read ({error.problem}); {fix}")


def _unreadable(text: str, path: Path) -> UserError:
    """The error that names the value which YAML takes for a date or a number, and which is none."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    for event in YAML(typ="safe", pure=True).parse(text):
        if type(event).__name__ != "ScalarEvent":
            continue
        try:
            YAML(typ="safe").load(f"!<{event.tag}> {event.value}" if event.tag else event.value)
        except (*NO_VALUE, YAMLError) as error:
            line = event.start_mark.line + 1
            said = " ".join(str(error).split())[:80]
            shown = event.value[:40]
            return UserError(f"{path}, line {line}: {shown} cannot be read ({said}); correct or quote it")
    return UserError(f"{path} holds a value that YAML cannot read; quote dates and texts")


def _wide(value: object, key: str) -> Iterator[str]:
    """Keys of integers that are too wide."""
    if isinstance(value, int) and value.bit_length() > MOST_BITS:
        yield key
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from _wide(inner, f"{key}.{name}".removeprefix("."))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _wide(inner, f"{key}.{index}")
