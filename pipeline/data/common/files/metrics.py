"""Metrics: JSON with rounded numbers, sorted by key so that a diff shows what changed."""

from pathlib import Path
from typing import Any

from pipeline.core import seal
from pipeline.core.atomic import write_text

DIGITS = 6
TEACHER, FINETUNED = "teacher", "finetuned"
"""Models by which scores are kept: the teacher, and the student that ships."""
REFUSED = "refused"
"""The one key of the metrics of a student that the teacher cannot give: why, and what to do."""
AVERAGE, KEPT = "average", "kept"
"""What stands beside single tasks: the mean of their scores, and of their ratios to the teacher's."""


def write(metrics: dict[str, Any], path: Path, *, sealed: bool = True) -> None:
    """Write nested metrics; floats are rounded to six significant digits.

    Args:
        metrics: what is written.
        path: the file.
        sealed: whether it gets a seal; what DVC shows as metrics has none.
    """
    rounded = {key: _rounded(value) for key, value in metrics.items()}
    write_text(path, seal.to_json(rounded, sealed=sealed))


def read(path: Path, stage: str) -> dict[str, Any]:
    """Read metrics that `stage` writes.

    Raises:
        UserError: the file is missing, damaged or not JSON.
    """
    return seal.read_json(path, stage)


def _rounded(value: object) -> object:
    if isinstance(value, dict):
        return {key: _rounded(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(inner) for inner in value]
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    return value
