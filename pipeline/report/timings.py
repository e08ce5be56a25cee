"""How long the stages took: each in the run that made its result."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pipeline.report.effort import duration
from pipeline.report.inputs import Timing
from pipeline.report.numbers import NOTHING, number

METHOD, TEXTS, STUDENT, CLASSIFIER = "method", "text set", "student", "classifier"
STAGES = {
    "look": None,
    "prepare": None,
    "augment": METHOD,
    "transfer": None,
    "finetune_teacher": None,
    "members": None,
    "encode": TEXTS,
    "teacher_parts": None,
    "hidden": None,
    "fit_pca": None,
    "gate": METHOD,
    "distill": STUDENT,
    "mine": None,
    "finetune": STUDENT,
    "classify": CLASSIFIER,
    "evaluate": STUDENT,
    "significance": None,
    "footprint": None,
    "search_speed": None,
}
"""The timed stages in the order of dvc.yaml, and what each is run for; None if it is run once."""
NOTE = (
    "Vectors that the store already had, and work that an interrupted run had done before, take no time "
    "here. Memory is the most that any one process held. Exports, for which the report does not wait, and "
    "`report` itself are not timed."
)


@dataclass(frozen=True)
class Took:
    """What a stage took, or all stages of a name, as shown."""

    stage: str
    runs: str
    """For several stages together, "5 students"; for a single one, the precision that it ran students in."""
    time: str
    share: str
    """Share of the time of all stages."""
    megabytes: str
    """The most memory at any one time."""


@dataclass(frozen=True)
class Timings:
    """A row for all stages of a name, a row for each stage, and all of them."""

    names: tuple[Took, ...]
    each: tuple[Took, ...]
    total: Took


def addresses(methods: Sequence[str], students: Sequence[str], classifiers: Sequence[str] = ()) -> list[str]:
    """The stages that are timed, as DVC calls them: `encode@corpus`.

    Args:
        methods: those of augmentation, enabled or not.
        students: their names.
        classifiers: their names.
    """
    sets = ("corpus", *methods, "transfer", "eval", "finetune")
    items = {METHOD: methods, TEXTS: sets, STUDENT: students, CLASSIFIER: classifiers}
    return [
        address
        for stage, unit in STAGES.items()
        for address in ([f"{stage}@{item}" for item in items[unit]] if unit else [stage])
    ]


def timings(found: Mapping[str, Timing]) -> Timings:
    """What each stage of `addresses` took, and all of a name together."""
    whole = sum(timing.seconds for timing in found.values())
    by_name: dict[str, list[Timing]] = {}
    for address, timing in found.items():
        by_name.setdefault(address.partition("@")[0], []).append(timing)
    return Timings(
        names=tuple(_took(name, parts, whole) for name, parts in by_name.items()),
        each=tuple(_took(address, [timing], whole) for address, timing in found.items()),
        total=_took("all", list(found.values()), whole),
    )


def _took(stage: str, parts: Sequence[Timing], whole: float) -> Took:
    seconds = sum(timing.seconds for timing in parts)
    unit = STAGES.get(stage)
    return Took(
        stage,
        f"{len(parts)} {unit}{'' if len(parts) == 1 else 's'}" if unit else parts[0].precision,
        duration(seconds),
        _share(seconds / whole) if whole else NOTHING,
        number(max(timing.peak_megabytes for timing in parts)),
    )


def _share(share: float) -> str:
    return f"{share:.0%}" if share >= 0.005 else "<1%"
