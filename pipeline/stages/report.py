"""Stage `report`: every student's metrics, curves and footprint as one page, a leaderboard and figures."""

from pathlib import Path
from typing import Annotated, Any

import polars as pl
import typer

from pipeline.artifacts import metrics
from pipeline.core.atomic import atomic_folder, write_text
from pipeline.core.errors import UserError, report_user_errors
from pipeline.core.params.load import Params, load
from pipeline.core.progress import say
from pipeline.reporting import build, tables
from pipeline.reporting.build import Inputs
from pipeline.reporting.inputs import finetune_metrics, sizes, student_metrics
from pipeline.reporting.page import render


def main(
    metrics_folder: Annotated[Path, typer.Option(help="NAME.json of each student, by evaluate.")],
    footprint: Annotated[Path, typer.Option(help="Size and speed of all models.")],
    curves: Annotated[Path, typer.Option(help="NAME.tsv and NAME_finetune.tsv of each student.")],
    stages: Annotated[Path, typer.Option(help="Metrics of prepare, augment, distill and finetune.")],
    leaderboard: Annotated[Path, typer.Option(help="Markdown table to write.")],
    page: Annotated[Path, typer.Option(help="HTML page to write.")],
    plots: Annotated[Path, typer.Option(help="Folder of leaderboard.tsv and figures to write.")],
    params: Annotated[Path, typer.Option(help="The params file.")] = Path("params.yaml"),
) -> None:
    """Report on the students of the params file, in its order; files of other students are left out."""
    inputs = read_inputs(load(params), metrics_folder, footprint, curves, stages)
    board = tables.leaderboard(inputs.students, inputs.sizes)
    report, figures = build.report(inputs, board)
    write_text(leaderboard, tables.markdown(board))
    write_text(page, render(report))
    with atomic_folder(plots) as folder:
        rows = pl.DataFrame(tables.plot_rows(board))
        write_text(folder / "leaderboard.tsv", rows.write_csv(separator="\t"))
        for name, svg in figures.items():
            write_text(folder / f"{name}.svg", svg)
    recommended = ", ".join(f"{pick.row.model} ({' and '.join(pick.reasons)})" for pick in report.picks)
    say(f"report: ship {recommended}; {page}")


def read_inputs(
    settings: Params, metrics_folder: Path, footprint: Path, curves: Path, stages: Path
) -> Inputs:
    """Read all that the other stages wrote about the students in `settings`."""
    names = list(settings.students)
    teacher = settings.teacher
    return Inputs(
        teacher=teacher.kind if teacher.kind == "hashing" else teacher.model,
        students=[
            student_metrics(metrics.read(metrics_folder / f"{n}.json", f"evaluate@{n}"), n) for n in names
        ],
        sizes=sizes(metrics.read(footprint, "footprint"), names),
        distill={n: _stage(stages, "distill", n) for n in names},
        finetune={n: finetune_metrics(_stage(stages, "finetune", n), n) for n in names},
        curves={n: _read_curve(curves / f"{n}.tsv", f"distill@{n}", "dev_value") for n in names},
        selected_by={n: student.train.select for n, student in settings.students.items()},
        finetune_curves={
            n: _read_curve(curves / f"{n}_finetune.tsv", f"finetune@{n}", "dev_score") for n in names
        },
        prepare=metrics.read(stages / "prepare.json", "prepare"),
        augment=_stage(stages, "augment", "wordnet"),
    )


def _stage(stages: Path, stage: str, name: str) -> dict[str, Any]:
    return metrics.read(stages / f"{stage}_{name}.json", f"{stage}@{name}")


def _read_curve(path: Path, stage: str, dev: str) -> pl.DataFrame:
    """Step, training loss and the dev measure; no rows where the student was not trained."""
    if not path.exists():
        raise UserError(f"{path} does not exist; run `dvc repro {stage}`")
    columns = ["step", "train_loss", dev]
    try:
        curve = pl.read_csv(path, separator="\t", infer_schema=False)
        return curve.select(pl.col(name).cast(pl.Float64) for name in columns)
    except pl.exceptions.PolarsError as error:
        reason = str(error).splitlines()[0]
        raise UserError(
            f"{path} is not a table of {', '.join(columns)} ({reason}); run `dvc repro -f {stage}`"
        ) from None


if __name__ == "__main__":
    typer.run(report_user_errors(main))
