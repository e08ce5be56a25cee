"""What `pipeline plan` said of the stages before they ran, beside what they took."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from pipeline.core import json_text, seal
from pipeline.core.errors import UserError
from pipeline.report.effort import duration
from pipeline.report.inputs import Timing
from pipeline.report.numbers import NOTHING, number

FILE = "plan.json"
"""In data/timings. DVC does not know it: a plan depends on the machine, and the report alone reads it."""
STAGES = "stages"
AGAIN = "run `pipeline plan`, or remove it"
NOTE = "What `pipeline plan` said before the run. Memory is that of the largest stage."


class Expected(BaseModel):
    """Of one stage."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    seconds: float
    peak_megabytes: float


@dataclass(frozen=True)
class Compared:
    """A row of the table."""

    stage: str
    plan: str
    fact: str
    ratio: str
    """The plan over the fact."""
    plan_megabytes: str
    fact_megabytes: str


def read(path: Path) -> dict[str, Expected]:
    """What was planned, by stage as DVC calls it; nothing where there is no plan.

    Raises:
        UserError: the file is damaged.
    """
    if not path.exists():
        return {}
    try:
        return {stage: Expected.model_validate(one) for stage, one in _content(path).items()}
    except ValidationError as error:
        raise UserError(f"{path} is damaged ({error}); {AGAIN}") from None


def _content(path: Path) -> dict[str, Any]:
    if wrong := seal.fault(path):
        raise UserError(f"{wrong}; {AGAIN}")
    try:
        return dict(json_text.parse(path.read_text(encoding="utf-8"))[STAGES])
    except (ValueError, TypeError, KeyError) as error:
        raise UserError(f"{path} is damaged ({error}); {AGAIN}") from None


def compared(plan: Mapping[str, Expected], facts: Mapping[str, Timing]) -> tuple[Compared, ...]:
    """Plan and fact of all stages of a name that have both, and of all together."""
    both: dict[str, list[tuple[Expected, Timing]]] = {}
    for stage, fact in facts.items():
        if stage in plan:
            both.setdefault(stage.partition("@")[0], []).append((plan[stage], fact))
    rows = [_row(name, pairs) for name, pairs in both.items()]
    return (*rows, _row("all", [pair for pairs in both.values() for pair in pairs])) if rows else ()


def _row(name: str, pairs: list[tuple[Expected, Timing]]) -> Compared:
    said, took = (sum(pair[i].seconds for pair in pairs) for i in (0, 1))
    return Compared(
        name,
        duration(said),
        duration(took),
        f"{said / took:.2f}" if took else NOTHING,
        number(max(plan.peak_megabytes for plan, _ in pairs)),
        number(max(fact.peak_megabytes for _, fact in pairs)),
    )
