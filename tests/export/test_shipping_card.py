"""What the card of a student's exports says of its training."""

from pathlib import Path

import pytest
from small_params import small_params

from pipeline.export.card import card
from pipeline.params.load import check

FINETUNE = {"data": ["nli"], "epochs": 1, "batch_size": 8, "lr": 0.1}


@pytest.mark.parametrize(("after", "told"), [(0.6, True), (0.5, False)])
def test_fine_tuning_is_told_where_it_changed_the_student(after, told):
    student = small_params()["students"]["tiny"]
    params = small_params(
        students={"tiny": {**student, "finetune": FINETUNE}},
        finetune={"data": {"nli": {"kind": "triplets", "path": "nli.tsv"}}, "mine": None},
        evaluate={"tasks": {"dev": {"kind": "wordnet_relatedness"}}},
    )
    scores = {"teacher": 0.8, "distilled": 0.5, "finetuned": after}
    metrics = {
        "dim": 8,
        "main": {"sts": "spearman"},
        "builtin": [],
        "scores": {model: {"sts": {"spearman": score}} for model, score in scores.items()},
        "retention": {"finetuned": after / 0.8},
    }
    measure = {"split": "dev", "tasks": ["pairs"], "measure": "sts"}
    text = card("tiny", check(params, Path("params.yaml")), {}, measure, metrics, [])
    assert ("- fine-tuning: triplets of nli.tsv" in text) == told
    assert "texts.csv" in text
