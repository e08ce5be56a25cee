"""`pipeline check` tells what hidden states take, and which student cannot read them."""

from pathlib import Path

import pytest
from refusals import refuses
from ruamel.yaml import YAML
from small_params import small_params

from pipeline.cli.check import check


def write(bert: Path, hidden: dict | None, **loss) -> None:
    params = small_params(teacher={"kind": "transformer", "model": str(bert), "pooling": "mean"})
    params["encode"]["hidden"] = hidden
    terms = [{"weight": 1.0, "loss": {"kind": "mse"}}]
    if hidden is not None:
        terms.append({"weight": 1.0, "loss": {"kind": "hidden_states", **loss}})
    narrow = {"layers": None, "hidden": 8}
    params["students"]["tiny"] |= {
        "kind": "transformer",
        "init": narrow,
        "loss": {"kind": "sum", "terms": terms},
    }
    with Path("params.yaml").open("w") as file:
        YAML().dump(params, file)


@pytest.mark.parametrize(("hidden", "layers"), [({"layers": [1]}, 1), ({"texts": 100, "max_tokens": 7}, 2)])
def test_the_bytes_come_first(folder, bert, capfd, hidden, layers):
    write(bert, hidden)
    check(Path("params.yaml"))
    texts, most = hidden.get("texts", 20_000), hidden.get("max_tokens", 64)
    said = capfd.readouterr().err
    assert f"{texts:,} texts x {most} tokens x {layers} layers x 16 dimensions" in said
    assert f"{texts * most * layers * (16 + 4):,} bytes at most" in said


def test_nothing_is_said_where_nothing_is_kept(folder, bert, capfd):
    write(bert, None)
    check(Path("params.yaml"))
    assert "hidden" not in capfd.readouterr().err


@pytest.mark.parametrize(
    ("hidden", "loss", "named"),
    [
        ({"layers": [0]}, {"layers": [[1, 1]]}, ("layer 1 of the teacher", "encode.hidden keeps 0")),
        ({}, {"layers": [[2, 1]]}, ("layer 2 of the student", "0 to 1")),
        ({}, {"projection": "none"}, ("8 and 16 dimensions", "projection to learned")),
        ({"layers": [5]}, {}, ("encode.hidden.layers", "layer 5", "0 to 1")),
    ],
)
def test_layers_that_are_not_there(folder, bert, hidden, loss, named):
    write(bert, hidden, **loss)
    with refuses(*named):
        check(Path("params.yaml"))
