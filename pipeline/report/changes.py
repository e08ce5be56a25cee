"""What changed in the settings since the last report."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

ABSENT = "not set"


@dataclass(frozen=True)
class Change:
    """One setting by its path, before and now, as YAML would show it on one line."""

    path: str
    before: str
    now: str


def changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[Change]:
    """The settings that differ, by path; what only one side sets is `not set` on the other."""
    old, new = dict(_leaves(before)), dict(_leaves(now))
    return [
        Change(path, old.get(path, ABSENT), new.get(path, ABSENT))
        for path in sorted(old.keys() | new.keys())
        if old.get(path, ABSENT) != new.get(path, ABSENT)
    ]


def _leaves(block: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, value in block.items():
        path = f"{prefix}{key}"
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, f"{path}.")
        else:
            # Sorted, as the file of the last report is.
            text = json.dumps(value, ensure_ascii=False, sort_keys=True)
            yield path, value if isinstance(value, str) else text
