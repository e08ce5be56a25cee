"""Metrics: JSON with rounded numbers, sorted by key so that a diff shows what changed."""

import json
from pathlib import Path
from typing import Any

from pipeline.core import json_text
from pipeline.core.atomic import write_text
from pipeline.core.errors import UserError

DIGITS = 6
TEACHER, FINETUNED = "teacher", "finetuned"
"""Models by which scores are kept: the teacher, and the student that ships."""
REFUSED = "refused"
"""The one key of the metrics of a student that the teacher cannot give: why, and what to do."""
AVERAGE, KEPT = "average", "kept"
"""What stands beside single tasks: the mean of their scores, and of their ratios to the teacher's."""


def write(metrics: dict[str, Any], path: Path) -> None:
    """Write nested metrics; floats are rounded to six significant digits."""
    write_text(path, json.dumps(_rounded(metrics), indent=2, sort_keys=True, allow_nan=False) + "\n")


def read(path: Path, stage: str) -> dict[str, Any]:
    """Read metrics that `stage` writes.

    Raises:
        UserError: the file is missing or is not JSON.
    """
    if not path.exists():
        raise UserError(f"{path} does not exist; run `dvc repro {stage}`")
    try:
        return json_text.parse(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError(f"{path} is not JSON ({error}); run `dvc repro -f {stage}`") from None


def _rounded(value: object) -> object:
    if isinstance(value, dict):
        return {key: _rounded(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(inner) for inner in value]
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    return value
