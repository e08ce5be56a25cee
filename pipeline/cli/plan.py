"""`pipeline plan`: what a run will take."""

import json
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from pipeline.cli import tabular
from pipeline.cli.needs import is_here
from pipeline.core.errors import UserError
from pipeline.core.progress import say
from pipeline.params.load import Params, load
from pipeline.params.teacher import EnsembleTeacher
from pipeline.planning import saved, stale
from pipeline.planning.plan import Plan, Planned
from pipeline.planning.plan import plan as made_plan
from pipeline.planning.sharing import shares_bytes
from pipeline.report.effort import duration

COLUMNS = ("stage", "time", "memory MB", "disk MB", "tokens", "money")
UNKNOWN, OVER = "?", "*"


def plan(
    params: Annotated[Path, typer.Option(help="The params file.")] = Path("params.yaml"),
    engine: Annotated[
        Literal["local", "ray"] | None,
        typer.Option(help="Where the teacher's workers run; else as params say."),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="How many encode; each of ray's on a machine like this one.")
    ] = None,
    price: Annotated[
        float | None, typer.Option(min=0, help="Of a million tokens of the teacher's API, in any currency.")
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Every stage, and every vector, whatever is there already.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Tell what a run will take: time, memory, disk and money of every stage, before anything runs.

    It measures this machine for 20 seconds at most: the teacher encodes texts of the corpus, students take
    training steps. Stages that are up to date are left out, and vectors that the store has, as `dvc repro`
    does. After the run the report shows the plan beside what the run took.
    """
    given = load(params)
    if not is_here(given.teacher):
        raise UserError(
            f"{params}: the teacher's model is not on this machine, and a plan measures it; download it, as "
            "`dvc repro look` does"
        )
    asked = {key: value for key, value in {"engine": engine, "workers": workers}.items() if value is not None}
    planned = given.model_copy(update={"runtime": given.runtime.model_copy(update=asked)})
    root = Path.cwd()
    is_dvcs = params.resolve() == root / "params.yaml"
    outdated = stale.out_of_date(root) if is_dvcs else None
    found = made_plan(planned, root, outdated, every=every, price=price, shared=shares_bytes(root))
    unkept = None
    if is_dvcs and not asked and not every and outdated is not None:
        try:
            saved.write(found, root / saved.PLACE)
        except UserError as error:
            unkept = error
    if as_json:
        typer.echo(json.dumps(as_object(found, planned), indent=2))
    else:
        _show(found, planned)
    if unkept:
        raise UserError(f"{unkept}, if the report is to show this plan")


def as_object(found: Plan, params: Params) -> dict[str, Any]:
    """The plan as `--json` prints it; unknown numbers are null."""
    kept = found.disk
    return {
        "machine": found.machine,
        "probe_seconds": round(found.probe.seconds, 1),
        "engine": params.runtime.engine,
        "workers": params.runtime.workers,
        "texts": {name: texts.number for name, texts in found.sizes.sets.items()},
        "counted": sorted(found.sizes.counted),
        "stages": [
            {
                "stage": one.stage,
                "seconds": one.seconds,
                "peak_megabytes": one.megabytes,
                "over_bound": one.over_bound,
                "result_bytes": one.bytes.results,
                "cache_bytes": 0 if found.shared else one.bytes.new,
                "store_bytes": one.bytes.store,
                "scratch_bytes": one.bytes.scratch,
                "tokens": one.tokens,
                "money": found.money(one.tokens),
            }
            for one in found.stages
        ],
        "total": {
            "seconds": round(found.seconds, 1),
            "dvc_seconds": round(found.overhead, 1),
            "peak_megabytes": max((one.megabytes for one in found.stages), default=0),
            "over_bound": any(one.over_bound for one in found.stages),
            "result_bytes": kept.results,
            "cache_bytes": kept.new,
            "store_bytes": kept.store,
            "scratch_bytes": kept.scratch,
            "tokens": found.tokens,
            "money": found.money(found.tokens),
        },
        "notes": list(found.notes),
    }


def _show(found: Plan, params: Params) -> None:
    if not found.stages:
        say("nothing to run: all stages are up to date; `pipeline plan --all` plans a whole run")
        return
    kept = found.disk
    rows = [_row(one, found) for one in found.stages]
    rows.append(("dvc", duration(found.overhead), "", "", "", ""))
    memory = max(one.megabytes for one in found.stages)
    everything = kept.results + kept.new + kept.store
    money = _money(found.money(found.tokens))
    rows.append(("all", duration(found.seconds), f"{memory:,}", _mb(everything), _count(found.tokens), money))
    if tabular.on_terminal():
        tabular.table(COLUMNS, rows, left=("stage",))
    else:
        tabular.lines([COLUMNS, *rows])
    say(
        f"disk: {_mb(kept.results)} MB in data and reports, {_mb(kept.new)} MB in .dvc/cache, "
        f"{_mb(kept.store)} MB in {params.runtime.cache}, and {_mb(kept.scratch)} MB while it runs"
    )
    if once := _kept_twice(found, params):
        say(f"`pipeline cache share`, after the run, keeps up to {_mb(once)} MB of these once that lie twice")
    where = f"{params.runtime.workers} workers, engine {params.runtime.engine}; " * (
        params.runtime.workers > 1
    )
    say(f"{where}measured in {found.probe.seconds:.0f} s on {found.machine} ({found.probe.device})")
    if any(one.over_bound for one in found.stages):
        say(f"{OVER} more than runtime.memory, {params.runtime.memory:g} GB: these stages run all the same")
    for note in found.notes:
        say(note)


def _kept_twice(found: Plan, params: Params) -> int:
    """Bytes of new vectors that the store has as the results have them."""
    if isinstance(params.teacher, EnsembleTeacher):
        return 0
    encoded = [one.bytes for one in found.stages if one.stage.startswith("encode@")]
    return sum(min(one.store, one.results) for one in encoded)


def _row(one: Planned, found: Plan) -> tuple[str, ...]:
    kept = one.bytes.results + one.bytes.store + (0 if found.shared else one.bytes.new)
    held = f"{one.megabytes:,}{OVER * one.over_bound}"
    time = UNKNOWN if one.seconds is None else duration(one.seconds)
    return (
        one.stage, time, held, _mb(kept), _count(one.tokens), _money(found.money(one.tokens))
    )  # fmt: skip


def _mb(size: int) -> str:
    return f"{size / 1e6:,.0f}"


def _count(tokens: int) -> str:
    return f"{tokens:,}" if tokens else ""


def _money(amount: float | None) -> str:
    return f"{amount:,.2f}" if amount else ""
