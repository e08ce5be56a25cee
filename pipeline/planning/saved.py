"""The plan that the report compares with what the run took."""

from pathlib import Path

from pipeline.core import seal
from pipeline.core.atomic import write_text
from pipeline.planning.plan import Plan
from pipeline.report import planned

PLACE = Path("data/timings") / planned.FILE


def write(plan: Plan, path: Path) -> None:
    """Keep the plan of each stage that is planned; those of other stages stay, for their runs are over.

    It lies beside the timings, which the report depends on; no other stage reads it.
    """
    if not plan.stages:
        return
    known = planned.read(path)
    new = {
        one.stage: {"seconds": one.seconds, "peak_megabytes": one.megabytes}
        for one in plan.stages
        if one.seconds is not None
    }
    kept = {stage: one.model_dump() for stage, one in known.items()}
    write_text(path, seal.to_json({planned.STAGES: kept | new}))
