import json
import re
from copy import deepcopy
from pathlib import Path

import jsonschema
import pytest
from ruamel.yaml import YAML
from typer.testing import CliRunner

from pipeline.cli.__main__ import app
from pipeline.cli.schema import render


@pytest.fixture(scope="module")
def document(repository: Path) -> dict:
    return YAML(typ="safe").load((repository / "params.yaml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def schema() -> dict:
    return json.loads(render())


def test_the_committed_schema_is_fresh(repository: Path) -> None:
    committed = (repository / "params.schema.json").read_text(encoding="utf-8")
    assert committed == render(), "params.schema.json is stale; run `pipeline schema`"


def test_a_stale_schema_fails_the_check_and_is_left_alone(tmp_path: Path) -> None:
    stale = tmp_path / "params.schema.json"
    stale.write_text("{}\n")
    result = CliRunner().invoke(app, ["schema", "--check", "--out", str(stale)])
    assert result.exit_code == 1
    assert "is stale" in result.stderr
    assert stale.read_text() == "{}\n"


def test_a_written_schema_passes_the_check(tmp_path: Path) -> None:
    out = tmp_path / "params.schema.json"
    assert CliRunner().invoke(app, ["schema", "--out", str(out)]).exit_code == 0
    assert CliRunner().invoke(app, ["schema", "--check", "--out", str(out)]).exit_code == 0


def test_the_schema_accepts_the_default_params(document: dict, schema: dict) -> None:
    jsonschema.validate(document, schema)


@pytest.mark.parametrize(
    ("block", "key", "value"),
    [
        ("teacher", "poolng", "mean"),
        ("encode", "views", ["sentense"]),
        ("corpus", "dev_fraction", 2.0),
        ("runtime", "tokens_per_batch", "many"),
    ],
)
def test_the_schema_refuses_what_the_params_refuse(
    document: dict, schema: dict, block: str, key: str, value: object
) -> None:
    wrong = deepcopy(document)
    wrong[block][key] = value
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(wrong, schema)


def test_every_field_has_a_description_for_the_editor(schema: dict) -> None:
    definitions = schema["$defs"]
    bare = [
        f"{name}.{field}"
        for name in (
            "Corpus",
            "Train",
            "Finetune",
            "Evaluate",
            "Budget",
            "IvfIndex",
            "HnswIndex",
            "Runtime",
            "Api",
            "TransformerTeacher",
            "OpenAiApiTeacher",
        )
        for field, said in definitions[name]["properties"].items()
        if field != "kind" and "description" not in said
    ]
    assert bare == []


def schema_of(path: Path) -> dict:
    """What an editor finds by the first line of a params file, `$ref` to another file included."""
    named = re.match(r"# yaml-language-server: \$schema=(\S+)\n", path.read_text(encoding="utf-8"))
    assert named, f"{path} names no schema"
    place = path.parent / named[1]
    found = json.loads(place.read_text(encoding="utf-8"))
    while list(found) == ["$ref"]:
        place = place.parent / found["$ref"]
        found = json.loads(place.read_text(encoding="utf-8"))
    return found


def test_the_editors_schema_of_every_params_file_resolves(repository: Path) -> None:
    files = [repository / "params.yaml", *(repository / "recipes").glob("*.yaml")]
    assert len(files) >= 10
    for path in files:
        jsonschema.validate(YAML(typ="safe").load(path), schema_of(path))
        assert "teacher" in schema_of(path)["properties"]


def test_what_is_no_text_is_stale_and_a_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes(b"caf\xe9")
    for place, said in ((tmp_path / "latin", "is stale"), (tmp_path, "Is a directory")):
        result = CliRunner().invoke(app, ["schema", "--check", "--out", str(place)])
        assert (result.exit_code, said in result.stderr) == (1, True), result.output
