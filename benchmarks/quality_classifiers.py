"""What `quality.py` tells of a file's classifiers: scores on the test rows, by what each one learned from."""

import json
from pathlib import Path

from quality_table import Row


def classifier_rows(folder: Path, params: Row) -> list[Row]:
    """A row of each classifier that was trained in a project's folder; scores times 100.

    `teacher` is a head on the teacher's vectors, where knowledge distillation trained one. Minutes are those
    of all trainings: of each learning rate and seed.
    """
    found = []
    for name, block in params["classifiers"].items():
        told = json.loads((folder / "reports" / "stages" / f"classify_{name}.json").read_text())
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
                "epochs": block["train"]["epochs"],
                "minutes": timing["seconds"] / 60,
                "parameters_without_embeddings": told["parameters_without_embeddings"],
            }
        )
    return found
