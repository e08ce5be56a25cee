"""How long the steps of training took, from the training curves."""

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from pipeline.report.numbers import NOTHING, number

SPEED = "examples_per_second"
PRECISION = "precision"
COLUMNS = ("step", "examples", SPEED)
NOTE = (
    "Examples are texts in distillation and triplets in fine-tuning. Time is that of the training steps "
    "alone, by the speeds in the training curves: loading, evaluations and the steps that a resumed run had "
    "done before are left out. Precision is that of the matrix products; `auto` takes the one that is faster "
    "on the processor."
)


@dataclass(frozen=True)
class Effort:
    """One training as shown; `seconds` is for sums."""

    student: str
    stage: str
    precision: str
    steps: str
    examples: str
    speed: str
    time: str
    seconds: float


def effort(student: str, stage: str, curve: pl.DataFrame) -> Effort | None:
    """Steps, examples, speed and time of a training; None where there was none.

    Args:
        student: its name.
        stage: "distillation" or "fine-tuning".
        curve: one row per evaluation; without the columns of examples and speed the time is unknown.
    """
    if not curve.height:
        return None
    precision = curve[PRECISION][-1] if PRECISION in curve.columns else NOTHING
    steps = number(curve["step"][-1])
    if not set(COLUMNS) <= set(curve.columns):
        return Effort(student, stage, precision, steps, NOTHING, NOTHING, NOTHING, 0.0)
    passed = curve.select(examples=pl.col("examples").diff().fill_null(pl.col("examples")), speed=SPEED)
    timed = passed.filter(pl.col("speed") > 0)
    seconds = float((timed["examples"] / timed["speed"]).to_numpy().sum())
    examples = number(curve["examples"][-1])
    if not seconds:
        return Effort(student, stage, precision, steps, examples, NOTHING, NOTHING, 0.0)
    speed = number(float(timed["examples"].to_numpy().sum()) / seconds)
    return Effort(student, stage, precision, steps, examples, speed, duration(seconds), seconds)


def total(efforts: Sequence[Effort]) -> str:
    """The time of all trainings."""
    return duration(sum(one.seconds for one in efforts))


def duration(seconds: float) -> str:
    """Whole seconds below ten minutes, then minutes, then hours and minutes."""
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 10:
        return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"
