"""What `quality.py` tells of a file's classifiers: scores on the test rows, by what each one learned from."""

import json
from collections.abc import Iterable
from pathlib import Path

from measuring import RESULTS, machine, report
from quality_table import Row


def classifier_rows(folder: Path, params: Row) -> list[Row]:
    """A row of each classifier that was trained in a project's folder; scores times 100.

    `teacher` is the task teacher of knowledge distillation. Minutes are those
    of all trainings: of each learning rate and seed. A classifier of a student that was refused has no row.
    """
    found = []
    for name in params["classifiers"]:
        told = json.loads((folder / "reports" / "stages" / f"classify_{name}.json").read_text())
        if "refused" in told:
            continue
        timing = json.loads((folder / "data" / "timings" / f"classify_{name}.json").read_text())
        scores, metric = told["scores"], told["metric"]
        teacher = told["task_teacher"]
        found.append(
            {
                "classifier": name,
                "task": told["task"],
                "start": told["start"],
                "kd": told["kd"],
                "rows": scores["train"],
                "transfer_rows": told["transfer_rows"],
                "accuracy": 100 * scores["accuracy"],
                "f1": 100 * scores["f1"],
                "metric": metric,
                "sd": 100 * scores["spread"],
                "seeds": told["seeds"],
                "teacher": 100 * teacher[metric] if teacher else None,
                "lr": told["lr"],
                "epochs": told["settings"]["epochs"],
                "minutes": timing["seconds"] / 60,
                "parameters_without_embeddings": told["parameters_without_embeddings"],
            }
        )
    return found


def report_classifiers(name: str, folder: Path, params: Row, order: Iterable[str], command: str) -> None:
    """Write the rows of a project's classifiers to results/classifiers_NAME.json, beside those of other ones.

    Args:
        name: of the benchmark.
        folder: the project's.
        params: its params.
        order: the file's classifiers, all of them.
        command: that makes the rows.
    """
    path = RESULTS / f"classifiers_{name}.json"
    known = {row["classifier"]: row for row in json.loads(path.read_text())["rows"]} if path.exists() else {}
    for row in classifier_rows(folder, params):
        known[row["classifier"]] = {**row, **machine()}
    report(path.stem, [known[one] for one in order if one in known], command)
