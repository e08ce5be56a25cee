"""What a run will take: time, memory, disk and money of every stage, before anything runs."""

from dataclasses import dataclass, replace
from pathlib import Path

from pipeline.core.machine import cpu, cpus
from pipeline.look.look import check_any, look, verdicts
from pipeline.params.load import Params
from pipeline.params.teacher import OpenAiApiTeacher, single_teachers
from pipeline.planning import disk, memory, times
from pipeline.planning.lacking import lacking
from pipeline.planning.probe import NOTHING, Probe, probe
from pipeline.planning.sizes import BYTES_A_TOKEN, Sizes, Texts, sizes
from pipeline.planning.work import Work
from pipeline.report import timings
from pipeline.train.students.shared.verdict import Possible, Refused

KILO, A_MILLION = 1e3, 1e6


@dataclass(frozen=True)
class Planned:
    """Of one stage."""

    stage: str
    """As DVC calls it."""
    seconds: float | None
    """None: nothing can be said of it."""
    megabytes: int
    """Of memory, the most that one process holds."""
    over_bound: bool
    """Whether that is more than `runtime.memory`."""
    bytes: disk.Bytes
    tokens: int
    """That are sent to an API."""


@dataclass(frozen=True)
class Plan:
    """Of a run."""

    stages: tuple[Planned, ...]
    machine: str
    sizes: Sizes
    probe: Probe
    notes: tuple[str, ...]
    shared: bool
    """Whether DVC's cache shares the bytes of the results."""
    price: float | None = None
    """Of a million tokens."""

    @property
    def disk(self) -> disk.Bytes:
        """All that stays; of scratch space, which is given back, the most at a time."""
        kept = [planned.bytes for planned in self.stages]
        return disk.Bytes(
            sum(one.results for one in kept),
            0 if self.shared else sum(one.new for one in kept),
            sum(one.store for one in kept),
            max((one.scratch for one in kept), default=0),
        )

    @property
    def overhead(self) -> float:
        """Seconds that DVC itself takes."""
        return times.dvc_seconds(len(self.stages), sum(one.bytes.results for one in self.stages) / 1e6)

    @property
    def seconds(self) -> float:
        """Of all stages of which something can be said, and of DVC."""
        return sum(one.seconds or 0.0 for one in self.stages) + self.overhead

    @property
    def tokens(self) -> int:
        """That are sent to an API in all."""
        return sum(one.tokens for one in self.stages)

    def money(self, tokens: int) -> float | None:
        """What so many tokens cost; None where no price is known."""
        return None if self.price is None else tokens * self.price / A_MILLION


def plan(
    params: Params,
    root: Path,
    stale: frozenset[str] | None,
    *,
    every: bool = False,
    price: float | None = None,
    shared: bool = False,
) -> Plan:
    """Plan the stages that are out of date, or a whole run.

    Args:
        params: params.yaml's, with the engine and the workers that are asked about.
        root: the checkout.
        stale: what is out of date; None: nobody knows, and nothing is counted.
        every: all stages, whatever is up to date; what the store has is encoded again.
        price: of a million tokens of an API.
        shared: whether DVC's cache and the results share their bytes.

    Raises:
        UserError: a source or the teacher is not there, or no student can be made of it.
    """
    addresses = stages(params)
    current = frozenset(addresses) - stale if stale is not None else frozenset()
    facts = look(params)
    judged = verdicts(params, facts)
    check_any(judged)
    possible = {name: one for name, one in judged.items() if isinstance(one, Possible)}
    found = sizes(params, root, current)
    chosen = [address for address in addresses if every or stale is None or address in stale]
    machine = f"{cpu()}, {cpus()} cores"
    if not chosen:
        return Plan((), machine, found, NOTHING, (), shared, price)
    measured = probe(params, {name: one.block for name, one in possible.items()}, found.sample)
    work = Work(
        params, facts, possible, found, measured,
        params.runtime.workers, params.runtime.engine, cpus(), dict(found.sets),
    )  # fmt: skip
    if not every:
        work = replace(work, missing=lacking(params, found, measured, root))
    if not params.evaluate.tasks:  # dev texts of the corpus stand for them, whose vectors are there by then
        work = replace(work, missing=work.missing | {"eval": Texts()})
    return Plan(
        tuple(_planned(address, work) for address in chosen),
        machine,
        found,
        measured,
        tuple(_notes(work, judged, chosen)),
        shared,
        price,
    )


def stages(params: Params) -> list[str]:
    """All stages of a run, in the order of dvc.yaml."""
    timed = timings.addresses([*params.augment.methods], [*params.students], [*params.classifiers])
    exports = [f"export@{name}" for name in params.students]
    return [*timed, "report", *exports, *(f"export_classifier@{name}" for name in params.classifiers)]


def _planned(address: str, work: Work) -> Planned:
    seconds = times.seconds(address, work)
    rounded = None if seconds is None else round(seconds, 1)
    megabytes = memory.megabytes(address, work)
    return Planned(
        address,
        rounded,
        megabytes,
        megabytes > KILO * work.params.runtime.memory,
        disk.stage_bytes(address, work),
        _tokens(address, work),
    )


def _tokens(address: str, work: Work) -> int:
    """Tokens that a stage sends to APIs, as `encode` estimates them."""
    stage, _, text_set = address.partition("@")
    if stage != "encode" or not work.is_read(text_set):
        return 0
    asked = sum(isinstance(one, OpenAiApiTeacher) for one in single_teachers(work.params.teacher).values())
    texts = work.missing.get(text_set, Texts())
    return round(asked * texts.bytes / BYTES_A_TOKEN)


def _notes(work: Work, judged: dict[str, Possible | Refused], chosen: list[str]) -> list[str]:
    found = [f"not made: {one}" for one in judged.values() if isinstance(one, Refused)]
    if work.probe.busy:
        found.append("this machine is busy: the times are what it takes when it has nothing else to do")
    if work.probe.left_out:
        names = ", ".join(work.probe.left_out)
        found.append(f"not measured, but estimated by size: {names}")
    if any(isinstance(one, OpenAiApiTeacher) for one in single_teachers(work.params.teacher).values()):
        found.append("an API is not asked: how long it takes is not known")
    if work.params.augment.back_translation.enabled and "augment@back_translation" in chosen:
        found.append("how long back-translation takes is not known")
    if patient := [
        name for name, one in work.students.items() if one.block.train and one.block.train.patience
    ]:
        found.append(f"at most, for they may stop early: {', '.join(patient)}")
    if work.params.classifiers:
        found.append("classifiers: a rough estimate, by the rows of all tasks")
    return found
