"""`encode.hidden` and the loss that reads it: what does not go together."""

from pathlib import Path

import pytest
from refusals import refuses
from small_params import small_params

from pipeline.params.load import check

HIDDEN = {"kind": "hidden_states"}
ENSEMBLE = {"kind": "ensemble", "members": [{"teacher": {"kind": "hashing"}}]}
API = {"kind": "openai_api", "url": "http://localhost/v1", "model": "m", "parts": "m"}


def params(
    *,
    loss: dict | None = None,
    kind: str = "transformer",
    init: dict | None = None,
    hidden: dict | None = None,
    teacher: dict | None = None,
    **train,
) -> dict:
    found = small_params(teacher=teacher or {"kind": "transformer", "model": "m"})
    found["encode"]["hidden"] = hidden
    tiny = found["students"]["tiny"]
    terms = [{"weight": 1.0, "loss": {"kind": "mse"}}, {"weight": 1.0, "loss": loss or HIDDEN}]
    tiny |= {"kind": kind, "init": init or {}, "loss": {"kind": "sum", "terms": terms}}
    tiny["train"] |= train
    return found


@pytest.mark.parametrize(
    "given",
    [
        {"hidden": {}},
        {"hidden": {"texts": 5, "layers": [0, 3], "max_tokens": 1}},
        {"hidden": {}, "loss": {**HIDDEN, "layers": [[0, 1], [2, 1]], "projection": "none"}},
        {"hidden": {}, "kind": "compact", "init": {"table_dim": 4}},
        {"hidden": {}, "init": {"hidden": 4, "weights": "random"}},
        {
            "hidden": {},
            "teacher": {"kind": "ensemble", "members": [{"teacher": {"kind": "transformer", "model": "m"}}]},
        },
    ],
)
def test_what_goes_together(given):
    check(params(**given), Path("params.yaml"))


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({}, ("loss", "encode.hidden is null", "set encode.hidden to {}")),
        ({"kind": "bilstm"}, ("loss", "bilstm student", "transformer or compact")),
        ({"kind": "static"}, ("loss", "static student", "transformer or compact")),
        ({"init": {"model": "other"}}, ("loss", "other has its own", "init.model")),
        ({"init": {"tokens": 9}}, ("loss", "init.tokens")),
        ({"init": {"prompts": "teacher"}}, ("loss", "set init.prompts to none")),
        ({"texts": ["wordnet"]}, ("loss", "add corpus to train.texts")),
    ],
)
def test_a_student_without_states_to_compare(given, named):
    hidden = {} if given else None
    with refuses("students.tiny", "hidden_states", *named):
        check(params(hidden=hidden, **given), Path("params.yaml"))


def test_alone_it_has_no_dev_loss():
    found = params(hidden={})
    found["students"]["tiny"]["loss"] = HIDDEN
    with refuses("students.tiny.loss", "set train.select: agreement"):
        check(found, Path("params.yaml"))
    found["students"]["tiny"]["train"]["select"] = "agreement"
    check(found, Path("params.yaml"))


@pytest.mark.parametrize(
    ("teacher", "named"),
    [
        ({"kind": "hashing"}, ("teacher.kind hashing", "set it to null")),
        (API, ("teacher.kind openai_api", "set it to null")),
        (ENSEMBLE, ("teacher.members.0.teacher.kind hashing", "set it to null")),
        (
            {"kind": "transformer", "model": "m", "trust_remote_code": True},
            ("code of its own", "set it to null"),
        ),
    ],
)
def test_a_teacher_without_layers_that_may_be_read(teacher, named):
    with refuses("params.yaml", "encode.hidden", *named):
        check(params(hidden={}, teacher=teacher), Path("params.yaml"))


@pytest.mark.parametrize(
    ("hidden", "named"),
    [
        ({"layers": [2, 1]}, ("encode.hidden.layers", "[2, 1]", "once, in order")),
        ({"layers": [1, 1]}, ("encode.hidden.layers", "[1, 1]", "once, in order")),
        ({"layers": []}, ("encode.hidden.layers", "empty")),
        ({"texts": 0}, ("encode.hidden.texts", "0")),
        ({"tokens": 5}, ("encode.hidden.tokens", "max_tokens")),
    ],
)
def test_layers_and_numbers_that_are_none(hidden, named):
    with refuses("params.yaml", *named):
        check(params(hidden=hidden), Path("params.yaml"))


@pytest.mark.parametrize("layers", [[], [[1]], [[1, -1]], [1, 2]])
def test_pairs_that_are_none(layers):
    with refuses("students.tiny.loss.terms.1.loss.layers"):
        check(params(hidden={}, loss={**HIDDEN, "layers": layers}), Path("params.yaml"))
