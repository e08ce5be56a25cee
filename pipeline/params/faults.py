"""A fault of params.yaml as a person reads it: path, value, what is allowed, and a suggestion."""

import difflib
import types
from datetime import date
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic_core import ErrorDetails

from pipeline.params.base import Block

SHOWN = 120
"""Characters of a value."""


def describe(detail: ErrorDetails, root: type[Block]) -> list[str]:
    """One fault as lines of text, without the discriminators that pydantic puts into the path.

    Args:
        detail: as pydantic tells it.
        root: the block that was validated.
    """
    block, path = _walk(detail["loc"], root)
    where = ".".join(path) or "params"
    value = detail["input"]
    context = detail.get("ctx", {})
    match detail["type"]:
        case "extra_forbidden":
            return [f"{where} is unknown{_suggest(path[-1], block)}"]
        case "missing":
            return [f"{where} is missing"]
        case "union_tag_invalid":
            tags = str(context["expected_tags"]).replace("'", "")
            return [f"{where}.kind is {context['tag']!r}; allowed: {tags}{_closest(context['tag'], tags)}"]
        case "union_tag_not_found":
            return [f"{where}.kind is missing"]
        case "value_error":
            lines = str(context["error"]).splitlines()
            return [line if _names_its_key(line, path) else f"{where}: {line}" for line in lines]
        case "string_pattern_mismatch" | "string_too_long" | "string_type" if "[key]" in path:
            return [f"{'.'.join(path[:-1])}: name a-z, 0-9, - and _ only, a letter first, 64 at most"]
        case "literal_error":
            allowed = str(context["expected"]).replace("'", "")
            where = where.removesuffix(".[key]")
            return [f"{where} is {_shown(value)}; allowed: {allowed}{_closest(value, allowed)}"]
        case "not_allowed":
            return [f"{where} is {_shown(value)}; allowed: {context['values']}"]
        case "too_short" | "string_too_short" if not value:
            return [f"{where} is empty"]
        case _:
            return [f"{where} is {_shown(value)}; expected {_expected(detail)}"]


def _expected(detail: ErrorDetails) -> str:
    match detail["type"]:
        case "model_type" | "model_attributes_type" | "dict_type":
            return "a block of keys"
        case "tuple_type":
            return "a list"
        case "string_pattern_mismatch":
            return f"what matches {detail['ctx']['pattern']}"
        case _:
            return detail["msg"].removeprefix("Input should be ").removeprefix("a valid ")


def _shown(value: object) -> str:
    """A value as YAML has it."""
    if isinstance(value, date):
        return f"the date {value.isoformat()} (write a text in quotes)"
    shown = repr(value)
    shown = {"None": "null", "True": "true", "False": "false"}.get(shown, shown)
    return shown if len(shown) <= SHOWN else f"{shown[:SHOWN]}..."


def _names_its_key(fault: str, path: list[str]) -> bool:
    """Whether a fault that a block tells of itself says where it stands; those of the whole file do."""
    return not path or fault.startswith(f"{path[0]}.")


def _walk(location: tuple[int | str, ...], root: type[Block]) -> tuple[type[Block] | None, list[str]]:
    """The block that holds the last part of an error's location, and the location as the user wrote it."""
    current: Any = root
    block: type[Block] | None = None
    path: list[str] = []
    for part in location:
        members = _members(current)
        tagged = [m for m in members if _kind(m) == part]
        if len(members) > 1 and tagged:
            current = tagged[0]
            continue
        current = next((m for m in members if m is not type(None)), None)
        path.append(str(part))
        if isinstance(current, type) and issubclass(current, Block):
            block = current
            field = current.model_fields.get(str(part))
            current = field.annotation if field else None
        elif get_origin(current) in (dict, tuple):
            current = get_args(current)[-1 if get_origin(current) is dict else 0]
    return block, path


def _members(annotation: object) -> list[Any]:
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    if get_origin(annotation) in (Union, types.UnionType):
        return [inner for member in get_args(annotation) for inner in _members(member)]
    return [annotation]


def _kind(member: object) -> str | None:
    if isinstance(member, type) and issubclass(member, Block) and "kind" in member.model_fields:
        kind = member.model_fields["kind"].annotation
        if get_origin(kind) is Literal:
            return str(get_args(kind)[0])
    return None


def _suggest(key: str, block: type[Block] | None) -> str:
    known = list(block.model_fields) if block else []
    close = difflib.get_close_matches(key, known, n=1)
    if not close or block is None:
        return f"; allowed: {', '.join(known)}" if known else ""
    choices = _choices(block.model_fields[close[0]].annotation)
    return f"; did you mean {close[0]!r}{f' ({choices})' if choices else ''}?"


def _choices(annotation: object) -> str:
    literals = [m for m in _members(annotation) if get_origin(m) is Literal]
    return ", ".join(str(choice) for literal in literals for choice in get_args(literal))


def _closest(value: object, allowed: str) -> str:
    words = allowed.replace(" or ", ", ").split(", ")
    close = difflib.get_close_matches(str(value), words, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""
