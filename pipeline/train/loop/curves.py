"""Training curves: reports/curves/NAME.tsv, one line an evaluation."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from pipeline.core import seal
from pipeline.core.atomic import write_text

COLUMNS = ("step", "examples", "lr", "train_loss")
PRECISION = "precision"
SPEED = "examples_per_second"


class CurvePoint(Protocol):
    """One evaluation in the course of a training."""

    step: int
    examples: int
    lr: float
    train_loss: float
    dev_value: float
    measures: dict[str, float]
    """What the losses told beside their sum: a column each."""
    precision: str
    """What the products were computed in."""
    examples_per_second: float


def write(points: Sequence[CurvePoint], dev_name: str, dev_sign: int, path: Path) -> None:
    """Write a curve; `dev_name` heads the dev values, `dev_sign` is -1 where a score was maximised."""
    names = sorted({name for point in points for name in point.measures})
    lines = ["\t".join([*COLUMNS, dev_name, *names, PRECISION, SPEED])]
    for point in points:
        numbers = [point.lr, point.train_loss, dev_sign * point.dev_value]
        numbers += [point.measures.get(name, math.nan) for name in names]
        told = [*map(_number, numbers), point.precision, _number(point.examples_per_second)]
        lines.append("\t".join([str(point.step), str(point.examples), *told]))
    write_text(path, "\n".join(lines) + "\n")
    seal.keep_digest(path)


def _number(value: float) -> str:
    """Before the first step there is no training loss, for one: the cell stays empty."""
    return "" if math.isnan(value) else f"{value:.6g}"
