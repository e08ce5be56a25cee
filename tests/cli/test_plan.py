"""`pipeline plan`."""

import json
from pathlib import Path

import pytest
from ruamel.yaml import YAML
from small_params import small_params
from typer.testing import CliRunner, Result

from pipeline.cli import plan as command
from pipeline.cli.__main__ import app
from pipeline.planning import saved

STAGE = {
    "stage": str,
    "seconds": float,
    "peak_megabytes": int,
    "over_bound": bool,
    "result_bytes": int,
    "cache_bytes": int,
    "store_bytes": int,
    "scratch_bytes": int,
    "tokens": int,
    "money": type(None),
}


@pytest.fixture
def checkout(folder: Path) -> Path:
    Path("texts.csv").write_text("text\n" + "".join(f"some words of text {i}\n" for i in range(60)))
    Path("pairs.tsv").write_text("sentence1\tsentence2\tscore\na\tb\t1\n")
    with Path("params.yaml").open("w") as file:
        YAML().dump(small_params(), file)
    return folder


def called(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["plan", *arguments])


def test_json_has_every_stage_and_their_sums(checkout):
    result = called("--json", "--engine", "ray", "--workers", "64")
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert (found["engine"], found["workers"], found["texts"]["corpus"]) == ("ray", 64, 60)
    rows = {row["stage"]: row for row in found["stages"]}
    assert {"prepare", "encode@corpus", "distill@tiny", "report", "export@tiny"} <= set(rows)
    for row in rows.values():
        assert {key: type(value) for key, value in row.items()} == STAGE
    total = found["total"]
    assert total.keys() == {"dvc_seconds", *STAGE} - {"stage"}
    for key in ("result_bytes", "cache_bytes", "store_bytes", "tokens"):
        assert total[key] == sum(row[key] for row in rows.values())
    assert total["seconds"] > sum(row["seconds"] for row in rows.values())
    assert found["probe_seconds"] < 20
    assert not (checkout / saved.PLACE).exists()  # no checkout of DVC's


def test_a_table_has_a_row_a_stage_and_the_total(checkout):
    result = called()
    lines = [line.split("\t") for line in result.stdout.splitlines()]
    assert lines[0] == ["stage", "time", "memory MB", "disk MB", "tokens", "money"]
    assert [line[0] for line in lines[-2:]] == ["dvc", "all"]
    assert "`pipeline cache share`, after the run, keeps up to 0 MB" in result.stderr


def test_stages_over_the_bound_of_memory_are_marked(checkout):
    with Path("params.yaml").open("w") as file:
        YAML().dump(small_params(runtime={"memory": 0.5}), file)
    result = called()
    marked = {line.split("\t")[0]: line.split("\t")[2].endswith("*") for line in result.stdout.splitlines()}
    assert marked["distill@tiny"]
    assert marked["encode@corpus"]
    assert not marked["prepare"]
    assert not marked["all"]
    assert "* more than runtime.memory, 0.5 GB" in result.stderr
    assert json.loads(called("--json").stdout)["total"]["over_bound"]


def test_faults_are_told_before_anything_is_measured(checkout):
    document = small_params()
    document["students"]["tiny"]["dim"] = 0
    with Path("params.yaml").open("w") as file:
        YAML().dump(document, file)
    result = called()
    assert result.exit_code == 1
    assert "students.tiny.dim" in result.stderr
    assert "Traceback" not in result.stderr
    away = small_params(teacher={"kind": "transformer", "model": "owner/not-here"})
    with Path("params.yaml").open("w") as file:
        YAML().dump(away, file)
    result = called()
    assert result.exit_code == 1
    assert "params.yaml" in result.stderr
    assert "dvc repro look" in result.stderr
    for wrong in (("--workers", "0"), ("--engine", "slurm"), ("--price", "-1")):
        assert called(*wrong).exit_code == 2


def test_a_plan_that_cannot_be_kept_is_shown_all_the_same(checkout, monkeypatch):
    monkeypatch.setattr(command.stale, "out_of_date", lambda root: frozenset({"prepare"}))
    Path("data").mkdir()
    Path("data/timings").write_text("in the way")
    result = called("--json")
    assert result.exit_code == 1, result.exception
    assert [row["stage"] for row in json.loads(result.stdout)["stages"]] == ["prepare"]
    assert "data/timings" in result.stderr
