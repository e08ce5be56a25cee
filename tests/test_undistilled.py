"""A student of `train: null` through a real `dvc repro`: every stage, the report and the exports."""

import json

import numpy as np
from sentence_transformers import SentenceTransformer

from pipeline.core import fingerprint


def test_a_student_without_distillation_is_fine_tuned_whitened_scored_shown_and_exported(project):
    tuned = project.params["students"]["hpd"]
    alone = {**tuned, "train": None, "loss": None, "whitening": {"dim": 8}}
    alone["init"] = {"layers": [1], "projection": "random"}
    table = project.params["students"]["potion"] | {"train": None, "loss": None, "view": "sentence"}
    project.params["students"] |= {"simcse": alone, "table": table}
    project.params["export"]["formats"] = [
        "sentence-transformers"
    ]  # tests/train/test_whitening.py has the graphs
    ran, said = project.repro("report", "export@simcse", "export@table")
    assert {f"{stage}@simcse" for stage in ("distill", "finetune", "evaluate", "export")} <= ran, said
    assert not {"distill@hpd", "finetune@hpd", "evaluate@hpd"} & ran
    scores = json.loads((project.root / "reports/metrics/simcse.json").read_text())
    assert scores["scores"]["untrained"] == scores["scores"]["distilled"]
    assert [scores["dims"][step] for step in ("untrained", "distilled", "finetuned")] == [16, 16, 8]
    assert scores["asymmetric_left_out"] == "it is not trained on the teacher's vectors"
    for name in ("simcse", "table", "hpd", "potion"):
        folders = (project.root / f"data/{state}/{name}" for state in ("distilled", "finetuned"))
        before, after = (fingerprint.of_folder(folder) for folder in folders)
        ships = json.loads((project.root / f"reports/metrics/{name}.json").read_text())["ships"]
        assert ships == ("distilled" if before == after else "finetuned")
    assert scores["ships"] == "finetuned"
    page = (project.root / "reports/index.html").read_text()
    assert ", whitened" in page
    for name, dim in (("simcse", 8), ("table", 16)):
        card = (project.root / f"data/exported/{name}/README.md").read_text()
        assert f"of {dim} dimensions, not distilled" in card
        shipped = SentenceTransformer(str(project.root / f"data/exported/{name}"), device="cpu")
        assert np.shape(shipped.encode("red cat")) == (dim,)
    project.params["students"]["simcse"]["whitening"]["dim"] = 4
    ran, _ = project.repro("--dry", "finetune@simcse")
    assert ran == {"look", "finetune@simcse"}
