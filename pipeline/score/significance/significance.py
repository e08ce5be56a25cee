"""significance: how sure the scores are, and which differences the test items can tell from chance.

The items of every task are drawn again, jointly for all models and independently for each task. So the
intervals are about the choice of test items; another training might differ by more. Each student is compared
with the teacher and with its runner-up, the student whose average is next below its own; the best student,
which a report recommends, is compared with all others. A p-value is that of one comparison: of twenty
students that are no better than another, one has p < 0.05 by chance, and no correction is made for that.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import polars as pl
import typer
from pydantic import BaseModel, ConfigDict, ValidationError

from pipeline.core.errors import UserError, report_user_errors
from pipeline.data.common.files import metrics
from pipeline.data.common.files.metrics import FINETUNED, TEACHER
from pipeline.params.load import load
from pipeline.params.significance import Significance
from pipeline.score.significance import comparison
from pipeline.score.statistics import bootstrap, examined
from pipeline.score.statistics.bootstrap import Row

TOLERANCE = 1e-5
"""How far a score in the metrics, which are rounded, may be from that of its items."""

ByModel = dict[str, dict[str, Row]]
"""Student -> task -> headline scores, of the students or of the teacher beside each."""
ByMetric = dict[str, dict[str, list[float]]]
"""Task -> metric -> the ends of its interval."""


class Scored(BaseModel):
    """What is read of reports/metrics/NAME.json."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    main: dict[str, str]
    """The headline metric of each test task."""
    averaged: tuple[str, ...]
    """The tasks that an average is of."""
    scores: dict[str, dict[str, dict[str, float]]]
    """Model -> task -> metric -> value."""

    def measure(self, model: str, task: str, metric: str) -> float | None:
        """None where it was not measured."""
        return self.scores.get(model, {}).get(task, {}).get(metric)


def main(
    examined_folder: Annotated[Path, typer.Option("--examined", help="Folder of what evaluate@NAME saw")],
    metrics_folder: Annotated[Path, typer.Option(help="NAME.json of each student, by evaluate")],
    out: Annotated[Path, typer.Option(help="reports/significance.json")],
    params_file: Annotated[Path, typer.Option("--params")] = Path("params.yaml"),
) -> None:
    """Resample the test items of the students of the params file; files of other students are left out."""
    params = load(params_file)
    names = [name for name in params.students if not _is_refused(metrics_folder, name)]
    if not names:
        raise UserError(f"{metrics_folder}: the teacher can give none of the students; run `pipeline check`")
    scored = {n: _read_scored(metrics_folder, n) for n in names}
    items = {n: examined.read_scores(examined_folder / n, n) for n in names}
    _check_shared(items, scored)
    settings = params.significance
    (students, by_metric), (teachers, beside) = (
        _resampled(items, scored, model, settings) for model in (FINETUNED, TEACHER)
    )
    # The teacher is the same beside all students; what is shown of it is taken from beside the first.
    by_metric[TEACHER] = beside[names[0]]
    averaged = scored[names[0]].averaged
    metrics.write({**_summary(students, teachers, averaged, settings), "metrics": by_metric}, out)


def _is_refused(folder: Path, name: str) -> bool:
    return metrics.REFUSED in metrics.read(folder / f"{name}.json", f"evaluate@{name}")


def _read_scored(folder: Path, name: str) -> Scored:
    stage = f"evaluate@{name}"
    try:
        return Scored.model_validate(metrics.read(folder / f"{name}.json", stage))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise UserError(
            f"{folder / name}.json cannot be read ({where}: {first['msg']}); run `dvc repro -f {stage}`"
        ) from None


def _check_shared(items: Mapping[str, pl.DataFrame], scored: Mapping[str, Scored]) -> None:
    """All students have the tasks of their metrics, and the first student's items.

    Raises:
        UserError: naming those that have not.
    """
    first, expected = "", None
    for name, table in items.items():
        tasks = set(table["task"].unique())
        if surplus := tasks ^ set(scored[name].main):
            raise UserError(
                f"{name}: either its metrics or its test items lack {', '.join(sorted(surplus))}; "
                f"run `dvc repro -f evaluate@{name}`"
            )
        own = table.filter(model=TEACHER).select(examined.KEY)
        if expected is None:
            first, expected = name, own
        elif not own.equals(expected):
            raise UserError(
                f"{first} and {name} are not scored on the same test items; "
                f"run `dvc repro -f evaluate@{first} evaluate@{name}`"
            )


def _resampled(
    items: Mapping[str, pl.DataFrame],
    scored: Mapping[str, Scored],
    model: str,
    settings: Significance,
) -> tuple[ByModel, dict[str, ByMetric]]:
    """The scores of one model of each student on the resamples, which are the same for every model.

    Returns:
        Of each student the headline scores by task, and the interval of every score.

    Raises:
        UserError: a score in the metrics is not that of the items.
    """
    rows: ByModel = {name: {} for name in items}
    intervals: dict[str, ByMetric] = {name: {} for name in items}
    for task, main in next(iter(scored.values())).main.items():
        parts = {name: table.filter(task=task, model=model) for name, table in items.items()}
        statistics = {
            (name, metric): statistic
            for name, part in parts.items()
            for metric, statistic in bootstrap.statistics(
                part, int(scored[name].measure(model, task, "labels") or 0)
            ).items()
        }
        within = [*bootstrap.strata(next(iter(parts.values()))).values()]
        found = bootstrap.resampled(statistics, within, settings.samples, (settings.seed, *task.encode()))
        for (name, metric), row in found.items():
            score = scored[name].measure(model, task, metric)
            if score is None or abs(score - row[0]) > TOLERANCE:
                raise UserError(
                    f"{task} of {name}: its metrics give the {model} {metric} {score}, its test items "
                    f"{row[0]:.6g}; run `dvc repro -f evaluate@{name}`"
                )
            if metric == main:
                rows[name][task] = row
            intervals[name].setdefault(task, {})[metric] = [*bootstrap.interval(row, settings.confidence)]
    return rows, intervals


def _summary(
    students: ByModel, teachers: ByModel, averaged: tuple[str, ...], settings: Significance
) -> dict[str, Any]:
    """The intervals of the headline scores, of their average and of what is kept, and the paired tests."""
    confidence = settings.confidence
    teacher = next(iter(teachers.values()))
    found = {TEACHER: comparison.intervals(teacher, teacher, averaged, confidence)}
    tests: list[dict[str, Any]] = []
    opponents = comparison.opponents(students, averaged)
    for name, rows in students.items():
        found[name] = comparison.intervals(rows, teachers[name], averaged, confidence)
        tests += comparison.paired(name, TEACHER, (rows, teachers[name]), averaged, confidence)
        for other in opponents[name]:
            tests += comparison.paired(name, other, (rows, students[other]), averaged, confidence)
    return {"samples": settings.samples, "confidence": confidence, "intervals": found, "paired": tests}


if __name__ == "__main__":
    typer.run(report_user_errors(main))
