"""Which settings two reports were made with differ."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.core.errors import UserError
from pipeline.data.common.files import metrics

SETTINGS = "params.json"
STUDENTS = "students"
ABSENT = "not set"


@dataclass(frozen=True)
class Change:
    """One setting by its path, in the one report and in the other, as YAML would show it on one line."""

    path: str
    first: str
    second: str


def read(report: Path) -> dict[str, Any]:
    """The settings of a report.

    Raises:
        UserError: the file is missing, is not JSON or holds something other than settings.
    """
    path = report / SETTINGS
    settings: object = metrics.read(path, "report")
    if not isinstance(settings, dict) or not isinstance(settings.get(STUDENTS, {}), dict):
        raise UserError(f"{path} holds no settings; run `dvc repro -f report`")
    return settings


def changes(
    first: Mapping[str, Any], second: Mapping[str, Any], students: Sequence[tuple[str, str]]
) -> list[Change]:
    """The settings that differ, by path; a setting that only one report has is `not set` in the other.

    Args:
        first: the settings of the one report.
        second: those of the other.
        students: pairs of students to compare, by name; the blocks of other students are left out.
    """
    old, new = (
        dict(_leaves(_compared(settings, students, side))) for side, settings in enumerate((first, second))
    )
    return [
        Change(path, old.get(path, ABSENT), new.get(path, ABSENT))
        for path in sorted(old.keys() | new.keys())
        if old.get(path, ABSENT) != new.get(path, ABSENT)
    ]


def _compared(settings: Mapping[str, Any], students: Sequence[tuple[str, str]], side: int) -> dict[str, Any]:
    """The settings with the blocks of `students` alone; a student has the same key on both sides."""
    blocks = settings.get(STUDENTS, {})
    keys = [f"{STUDENTS}.{pair[0]}" if pair[0] == pair[1] else "student" for pair in students]
    chosen = {key: blocks.get(pair[side], {}) for key, pair in zip(keys, students, strict=True)}
    return {key: value for key, value in settings.items() if key != STUDENTS} | chosen


def _leaves(block: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, value in block.items():
        path = f"{prefix}{key}"
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, f"{path}.")
        else:
            text = json.dumps(value, ensure_ascii=False, sort_keys=True)
            yield path, value if isinstance(value, str) else text
