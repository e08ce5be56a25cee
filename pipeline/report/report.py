"""Stage `report`: every student's metrics, curves and footprint as one page, a leaderboard and figures."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import polars as pl
import typer

from pipeline.core import parent, seal
from pipeline.core.atomic import atomic_folder, write_text
from pipeline.core.errors import UserError, report_user_errors
from pipeline.core.progress import say
from pipeline.core.resumable import Resumable
from pipeline.data.common import texts
from pipeline.data.common.files import metrics
from pipeline.export.shared.ledger import origins
from pipeline.params.load import Params, load
from pipeline.params.teacher import teacher_name
from pipeline.report import artifacts, build, effort, ledger, planned, tables, timings
from pipeline.report.artifacts import Places
from pipeline.report.build import Inputs
from pipeline.report.checked import (
    augment_metrics,
    classifier_metrics,
    encode_metrics,
    finetune_metrics,
    gate_metrics,
    searches,
    significance,
    sizes,
    student_metrics,
    timing,
    transfer_metrics,
)
from pipeline.report.inputs import GateMetrics
from pipeline.report.page import render
from pipeline.score.statistics import examined


def main(
    metrics_folder: Annotated[Path, typer.Option(help="NAME.json of each student, by evaluate.")],
    footprint: Annotated[Path, typer.Option(help="Size and speed of all models.")],
    significance_file: Annotated[
        Path, typer.Option("--significance", help="Intervals and paired tests of all models.")
    ],
    search: Annotated[Path, typer.Option(help="How long search takes by index.")],
    examined_folder: Annotated[
        Path, typer.Option("--examined", help="A folder of each student: examples and correlations.")
    ],
    samples: Annotated[Path, typer.Option(help="METHOD.parquet: augmented texts beside their parents.")],
    curves: Annotated[Path, typer.Option(help="NAME.tsv and NAME_finetune.tsv of each student.")],
    stages: Annotated[
        Path, typer.Option(help="Metrics of prepare, transfer, augment@METHOD, distill@NAME, ...")
    ],
    timings_folder: Annotated[Path, typer.Option("--timings", help="What each stage took: STAGE_ITEM.json.")],
    cards: Annotated[Path, typer.Option(help="Folder of what the models' cards say.")],
    origins_file: Annotated[Path, typer.Option("--origins", help="corpus/origins.json.")],
    gated: Annotated[Path, typer.Option(help="METHOD.parquet: augmented texts that students read.")],
    vectors: Annotated[Path, typer.Option(help="A folder of each text set.")],
    finetuned: Annotated[Path, typer.Option(help="A folder of each student.")],
    ledger_out: Annotated[
        Path, typer.Option("--ledger", help="JSON of what every artifact is made of, to write.")
    ],
    leaderboard: Annotated[Path, typer.Option(help="Markdown table to write.")],
    table: Annotated[Path, typer.Option(help="The leaderboard's numbers to write, tab-separated.")],
    page: Annotated[Path, typer.Option(help="HTML page to write.")],
    plots: Annotated[Path, typer.Option(help="Folder of figures to write.")],
    summary: Annotated[Path, typer.Option(help="The few numbers that `dvc metrics diff` shows, to write.")],
    settings_out: Annotated[
        Path, typer.Option("--settings", help="The params of this report to write, for `pipeline compare`.")
    ],
    params: Annotated[Path, typer.Option(help="The params file.")] = Path("params.yaml"),
) -> None:
    """Report on the students of the params file, in its order; files of other students are left out."""
    sources = Sources(
        metrics=metrics_folder,
        footprint=footprint,
        significance=significance_file,
        search=search,
        examined=examined_folder,
        samples=samples,
        curves=curves,
        stages=stages,
        timings=timings_folder,
        cards=cards,
        origins=origins_file,
        artifacts=Places(gated=gated, vectors=vectors, finetuned=finetuned),
    )
    settings = load(params)
    Resumable.remove_committed(Path(settings.runtime.cache))  # the stages before it were the last to keep any
    inputs = read_inputs(settings, sources)
    board = build.board(inputs)
    report, figures = build.report(inputs, board)
    write_text(leaderboard, tables.markdown(board))
    write_text(table, pl.DataFrame(tables.plain_rows(board)).write_csv(separator="\t"))
    write_text(page, render(report))
    write_text(ledger_out, artifacts.as_json(inputs.ledger))
    metrics.write(tables.summary(board), summary, sealed=False)
    write_text(settings_out, _as_written(settings))
    with atomic_folder(plots, sealed=False) as folder:
        for name, content in figures.items():
            (folder / name).write_bytes(content)
    recommended = ", ".join(f"{pick.row.model} ({' and '.join(pick.reasons)})" for pick in report.picks)
    say(f"report: ship {recommended}; {page}")


@dataclass(frozen=True)
class Sources:
    """Where the other stages wrote what is reported."""

    metrics: Path
    footprint: Path
    significance: Path
    search: Path
    examined: Path
    samples: Path
    curves: Path
    stages: Path
    timings: Path
    cards: Path
    origins: Path
    artifacts: Places


def read_inputs(settings: Params, sources: Sources) -> Inputs:
    """Read all that is reported on the students in `settings`."""
    metrics_of = {n: metrics.read(sources.metrics / f"{n}.json", f"evaluate@{n}") for n in settings.students}
    refused = {n: found[metrics.REFUSED] for n, found in metrics_of.items() if metrics.REFUSED in found}
    names = [n for n in settings.students if n not in refused]
    if not names:
        raise UserError("the teacher can give none of the students; `pipeline check` says why")
    curves, stages = sources.curves, sources.stages
    methods = [method for method, block in settings.augment.methods.items() if block.enabled]
    classified = {c: _stage(stages, "classify", c) for c in settings.classifiers}
    timed = timings.addresses([*settings.augment.methods], [*settings.students], [*settings.classifiers])
    gates = {m: gate_metrics(_stage(stages, "gate", m), m) for m in methods}
    took = {stage: _of_stage(sources.timings, stage) for stage in timed}
    return Inputs(
        teacher=teacher_name(settings.teacher),
        blocks={n: settings.students[n].model_dump(mode="json") for n in names},
        students=[student_metrics(metrics_of[n], n) for n in names],
        sizes=sizes(metrics.read(sources.footprint, "footprint"), names),
        significance=significance(metrics.read(sources.significance, "significance"), names),
        searches=searches(metrics.read(sources.search, "search_speed")),
        examples={n: examined.read_examples(sources.examined / n, n) for n in names},
        correlation={n: examined.read_correlation(sources.examined / n, n) for n in names},
        distill={n: _stage(stages, "distill", n) for n in names},
        finetune={n: finetune_metrics(_stage(stages, "finetune", n), n) for n in names},
        curves={
            n: _read_curve(curves / f"{n}.tsv", f"distill@{n}", "dev_value", took[f"distill@{n}"])
            for n in names
        },
        finetune_curves={
            n: _read_curve(curves / f"{n}_finetune.tsv", f"finetune@{n}", "dev_score", took[f"finetune@{n}"])
            for n in names
        },
        teacher_curve=_read_curve(
            curves / "teacher_finetune.tsv", "finetune_teacher", "dev_score", took["finetune_teacher"]
        ),
        prepare=metrics.read(stages / "prepare.json", "prepare"),
        encode={
            stage.partition("@")[2]: encode_metrics(_of_stage(stages, stage), stage)
            for stage in timed
            if stage.startswith("encode@")
        },
        augment={m: augment_metrics(_stage(stages, "augment", m), m) for m in methods},
        transfer=transfer_metrics(metrics.read(stages / "transfer.json", "transfer")),
        gates=gates,
        samples={m: texts.read_sample(sources.samples / f"{m}.parquet") for m in methods},
        timings={stage: timing(found, stage) for stage, found in took.items()},
        plan=planned.read(sources.timings / planned.FILE),
        ledger=_ledger(settings, sources, {n: metrics_of[n] for n in names}, gates),
        refused=tuple(refused.values()),
        classifiers={
            c: classifier_metrics(found, c) for c, found in classified.items() if metrics.REFUSED not in found
        },
        classifier_curves={
            c: _read_curve(curves / f"classify_{c}.tsv", f"classify@{c}", "dev_score", took[f"classify@{c}"])
            for c in settings.classifiers
        },
        refused_classifiers={
            c: found[metrics.REFUSED] for c, found in classified.items() if metrics.REFUSED in found
        },
    )


def _ledger(
    settings: Params,
    sources: Sources,
    scored: Mapping[str, Mapping[str, Any]],
    gates: Mapping[str, GateMetrics],
) -> dict[str, Any]:
    """What every artifact is made of; `scored` are the metrics of the students that were made."""
    facts = origins.read(sources.cards, sources.origins, *scored)
    gated = {method: gate.rows_out for method, gate in gates.items()}
    transfer = [ledger.TRANSFER] if settings.augment.transfer else []
    sets = [ledger.CORPUS, *gated, *transfer, ledger.EVAL, ledger.FINETUNE]
    measured = artifacts.measured(sources.artifacts, facts.prepared, gated, sets, scored)
    weights = artifacts.teachers_weights(sources.artifacts.vectors, settings.encode.views[0])
    ships = {name: origins.ships_finetuned(found) for name, found in scored.items()}
    return ledger.ledger(settings, facts, ships, measured, weights)


def _as_written(settings: Params) -> str:
    """The params that the user wrote, as JSON, without `runtime`, which changes no result."""
    written = settings.model_dump(mode="json", exclude={"runtime"}, exclude_unset=True)
    return json.dumps(written, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def _stage(stages: Path, stage: str, name: str) -> dict[str, Any]:
    return metrics.read(stages / f"{stage}_{name}.json", f"{stage}@{name}")


def _of_stage(folder: Path, stage: str) -> dict[str, Any]:
    return metrics.read(folder / f"{stage.replace('@', '_')}.json", stage)


def _read_curve(path: Path, stage: str, dev: str, timing_of_stage: Mapping[str, Any]) -> pl.DataFrame:
    """Step, training loss and dev measure, examples and speed if the file has them; no rows if untrained."""
    if not path.exists():
        raise UserError(f"{path} does not exist; run `dvc repro {stage}`")
    columns = ["step", "train_loss", dev]
    seal.check_kept(path, timing_of_stage, f"run `dvc repro -f {stage}`")
    try:
        curve = pl.read_csv(path, separator="\t", infer_schema=False)
        told = [name for name in effort.COLUMNS if name in curve.columns and name not in columns]
        words = [effort.PRECISION] if effort.PRECISION in curve.columns else []
        return curve.select(*(pl.col(name).cast(pl.Float64) for name in [*columns, *told]), *words)
    except pl.exceptions.PolarsError as error:
        reason = str(error).splitlines()[0]
        raise UserError(
            f"{path} is not a table of {', '.join(columns)} ({reason}); run `dvc repro -f {stage}`"
        ) from None


if __name__ == "__main__":
    parent.watch()  # as core/timed.py does, through which this stage is not run
    typer.run(report_user_errors(main))
