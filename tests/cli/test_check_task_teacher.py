"""`pipeline check` tells which model teaches a classifier, and what of it cannot be learned."""

from pathlib import Path

import pytest
from refusals import refuses
from ruamel.yaml import YAML
from small_params import small_params

from pipeline.cli.check import check


def write(bert: Path, model: Path | str | None = None, **kd: object) -> None:
    params = small_params(
        teacher={"kind": "transformer", "model": str(bert), "pooling": "mean"},
        evaluate={"tasks": {"pairs": {"kind": "mrpc", "path": "MRPC"}}},
    )
    block = {"kind": "transformer", "init": {"layers": None, "projection": "none"}, "dim": 16}
    params["students"]["tiny"] |= {**block, "loss": None, "train": None}
    taught = {"teacher": {"model": str(model or bert)}, "patience": {"layers": "last"}, **kd}
    one = {"student": "tiny", "start": "untrained", "task": "pairs", "read": "together", "kd": taught}
    params["classifiers"] = {"one": one}
    with Path("params.yaml").open("w") as file:
        YAML().dump(params, file)


def test_its_layers_are_named(folder, bert, capfd):
    write(bert)
    check(Path("params.yaml"))
    said = f"its task teacher: {bert}, 2 layers of 16 dimensions; the student learns from its layers 0"
    assert said in " ".join(capfd.readouterr().err.split())


def test_without_patience_no_layer_is(folder, bert, capfd):
    write(bert, patience=None)
    check(Path("params.yaml"))
    said = capfd.readouterr().err
    assert "its task teacher" in said
    assert "learns from" not in said


def test_a_model_of_the_hub_is_not_fetched(folder, bert, capfd):
    write(bert, "nobody/has-this")
    check(Path("params.yaml"))
    assert "its task teacher: nobody/has-this, not downloaded yet" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("teacher", "said"),
    [
        ({"layers": [1]}, ("classifiers.one: kd.patience", "2 layers and the task teacher 1")),
        ({"max_length": 999}, ("classifiers.one.kd.teacher.max_length is 999", "128 positions")),
        ({"model": "./nowhere"}, ("classifiers.one.kd.teacher.model", "./nowhere")),
    ],
)
def test_faults_come_before_a_run(folder, bert, teacher, said):
    write(bert, teacher={"model": str(bert), **teacher})
    with refuses(*said):
        check(Path("params.yaml"))
