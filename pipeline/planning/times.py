"""Seconds of each stage: what was measured here, times how much there is to do.

What no probe measures is a constant of the modules that this one imports: seconds on two cores of an AMD
EPYC, from the timings of a run (docs/scale.md), times how much longer imports take here (`Work.slower`).
"""

from collections.abc import Callable

from pipeline.planning import encoding, preparing, scoring, training
from pipeline.planning.work import Work

A_STAGE_OF_DVC = 0.7
COPIED_MEGABYTES = 150.0
"""A second: DVC hashes and copies what a stage has made."""
STAGES: dict[str, Callable[[str, Work], float | None]] = {
    "look": preparing.look,
    "prepare": preparing.prepare,
    "augment": preparing.augment,
    "transfer": preparing.transfer,
    "finetune_teacher": training.finetune_teacher,
    "members": preparing.members,
    "encode": encoding.encode,
    "teacher_parts": encoding.teacher_parts,
    "hidden": encoding.hidden,
    "fit_pca": preparing.fit_pca,
    "gate": preparing.gate,
    "distill": training.distill,
    "mine": preparing.mine,
    "finetune": training.finetune,
    "classify": training.classify,
    "evaluate": scoring.evaluate,
    "significance": scoring.significance,
    "footprint": scoring.footprint,
    "search_speed": scoring.search_speed,
    "report": preparing.report,
    "export": scoring.export,
    "export_classifier": scoring.export_classifier,
}
"""What each takes: of its item, which is empty for a stage that is run once; None: nothing can be said."""


def seconds(address: str, work: Work) -> float | None:
    """What a stage takes, by its name as DVC calls it; None where nothing can be said."""
    stage, _, item = address.partition("@")
    return STAGES[stage](item, work)


def dvc_seconds(stages: int, megabytes: float) -> float:
    """What DVC takes beside the stages."""
    return stages * A_STAGE_OF_DVC + megabytes / COPIED_MEGABYTES
