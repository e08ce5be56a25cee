"""A figure for docs/results.md: what more texts buy in as many steps, and what more steps on the same texts.

`python benchmarks/learning_curves.py` draws docs/learning_curves.svg from results/quality_curves.json, which
`python benchmarks/quality.py curves` writes.
"""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from quality import FILES, documents, earlier

from pipeline.report.figures import Line, Panel, curves

FIGURE = Path(__file__).parents[1] / "docs" / "learning_curves.svg"
NAME = re.compile(r"(?P<student>.+)_(?P<thousands>\d+)k_(?P<epochs>\d+(_\d+)?)")
ROLES = {"compact": "accent", "compact_2m": "warm", "potion": "ink"}
KEPT = {"similarity": "kept_sts", "retrieval": "kept_retrieval"}
ALIKE = 0.05
"""Trainings that read as many texts, but for this share, took as many steps."""


class Training(NamedTuple):
    """One student of `quality/curves.yaml`."""

    student: str
    thousands: float
    """Of texts that there are."""
    read: float
    """Thousands of texts that it read, some more than once."""
    row: Mapping[str, Any]


def main() -> None:
    """Draw it."""
    known, _ = earlier("curves", documents(FILES["curves"]))
    found = trainings(known.values())
    if not found:
        raise SystemExit("there are no results of its settings; run `python benchmarks/quality.py curves`")
    FIGURE.write_text(curves(panels(found)), encoding="utf-8")


def trainings(rows: Iterable[Mapping[str, Any]]) -> list[Training]:
    """The students among the rows, by what their names say."""
    found = []
    for row in rows:
        if told := NAME.fullmatch(row["model"]):
            thousands = float(told["thousands"])
            epochs = float(told["epochs"].replace("_", "."))
            found.append(Training(told["student"], thousands, thousands * epochs, row))
    return found


def panels(found: list[Training]) -> list[Panel]:
    """Of similarity and of retrieval, by texts and by steps."""
    texts, steps = "thousand texts, in as many steps", "million texts read, of all"
    drawn = []
    for kind, kept in KEPT.items():
        drawn.append(Panel(f"{kind} kept, by texts", by_texts(found, kept), texts, log=True))
        drawn.append(Panel(f"{kind} kept, by steps", by_steps(found, kept), steps, log=True))
    return drawn


def by_texts(found: list[Training], kept: str) -> tuple[Line, ...]:
    """Of each student, the trainings that read as many texts as the longest on the fewest."""
    lines = []
    for student, own in _students(found):
        own = sorted(own, key=lambda one: (one.thousands, -one.read))
        same = [one for one in own if abs(one.read / own[0].read - 1) < ALIKE]
        lines.append(_line(student, [(one.thousands, one.row[kept]) for one in same]))
    return tuple(lines)


def by_steps(found: list[Training], kept: str) -> tuple[Line, ...]:
    """Of each student, the trainings on the most texts."""
    lines = []
    for student, own in _students(found):
        most = max(one.thousands for one in own)
        whole = sorted((one for one in own if one.thousands == most), key=lambda one: one.read)
        lines.append(_line(student, [(one.read / 1000, one.row[kept]) for one in whole]))
    return tuple(lines)


def _students(found: list[Training]) -> list[tuple[str, list[Training]]]:
    names = [name for name in ROLES if any(one.student == name for one in found)]
    return [(name, [one for one in found if one.student == name]) for name in names]


def _line(student: str, points: list[tuple[float, float]]) -> Line:
    across, up = zip(*points, strict=True)
    return Line(student, ROLES[student], across, up)


if __name__ == "__main__":
    main()
