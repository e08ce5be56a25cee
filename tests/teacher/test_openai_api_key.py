"""The key goes to the server and nowhere else."""

import html
import json
import logging
import traceback
from urllib.parse import quote

import pytest
from embeddings_server import change, refuse
from refusals import refuses
from small_params import small_params
from typer.testing import CliRunner

from pipeline.cli.__main__ import app
from pipeline.core.errors import UserError
from pipeline.params.load import check

KEY = "sk-Very/Secret+0123456789=="
VARIABLE = "TINY_API_KEY"
ECHO = [
    json.dumps({"error": {"message": f"Incorrect API key provided: {KEY}."}}),
    json.dumps({"error": {"code": "invalid", "key": KEY}}),
    json.dumps([KEY]).replace("/", "\\/"),
    f"<p>{KEY}</p>",
    "x" * 290 + KEY,
]


@pytest.fixture
def keyed(api, monkeypatch):
    monkeypatch.setenv(VARIABLE, f"{KEY}\n")
    return api(key_variable=VARIABLE, dimensions=8, retries=1)


def test_it_is_sent_as_a_bearer_token(api, keyed, server):
    keyed.encode(["a"], ["sentence"])
    api().encode(["a"], ["sentence"])
    assert [headers.get("Authorization") for headers in server.headers] == [f"Bearer {KEY}", None, None]


@pytest.mark.parametrize("body", ECHO)
@pytest.mark.parametrize("status", [200, 401, 429])
def test_a_server_that_echoes_it_does_not_get_it_into_an_error_or_a_log(
    keyed, server, capsys, caplog, status, body
):
    caplog.set_level(logging.DEBUG)
    server.faults += [refuse(status, body)] * 2
    with pytest.raises(UserError) as refused:
        keyed.encode(["a"], ["sentence"])
    said = "".join(traceback.format_exception(refused.value)) + capsys.readouterr().err + caplog.text
    assert "teacher.key_variable" in said or status != 401
    assert "sk-Very" not in said


@pytest.mark.parametrize(
    "echo",
    [
        change(lambda answer: answer["data"][0].update(index=KEY)),
        change(lambda answer: answer["data"][0].update(index=[{"key": KEY}])),
        refuse(404, "", Location=f"http://elsewhere/{quote(KEY, safe='')}"),
        refuse(404, '["' + KEY.replace("/", "\\/")),
        refuse(404, f"<p>{html.escape(KEY)}"),
    ],
)
def test_no_part_of_an_answer_gets_it_into_an_error(keyed, server, echo):
    server.faults.append(echo)
    with refuses("/v1", "***") as refused:
        keyed.encode(["a"], ["sentence"])
    assert "sk-Very" not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "is_told"),
    [
        ("http://example.org/v1", True),
        ("http://10.0.0.7:8000/v1", True),
        ("https://example.org/v1", False),
        ("http://localhost:8000/v1", False),
        ("http://127.1.2.3/v1", False),
        ("http://[::1]:8000/v1", False),
    ],
)
def test_one_that_others_can_read_on_the_way_is_told(api, monkeypatch, capsys, url, is_told):
    monkeypatch.setenv(VARIABLE, KEY)
    assert api(url=url, key_variable=VARIABLE).endpoint
    assert api(url=url).endpoint
    said = capsys.readouterr().err
    assert said.count(f"the key in {VARIABLE}") == is_told
    assert (url in said and "https" in said) == is_told
    assert KEY not in said


def test_it_is_in_neither_recipe_nor_repr(keyed):
    keyed.encode(["a"], ["sentence"])
    assert "sk-Very" not in f"{keyed.recipes} {keyed.params!r} {vars(keyed)} {vars(keyed.endpoint)}"


@pytest.mark.parametrize(
    ("value", "named"),
    [("", "`export TINY_API_KEY="), (" \n", "`export TINY_API_KEY="), ("sk-Very secret", "a space")],
)
def test_a_missing_or_broken_key_is_told_before_a_request(api, server, monkeypatch, value, named):
    monkeypatch.setenv(VARIABLE, value)
    with refuses("teacher.key_variable", VARIABLE, named) as told:
        api(key_variable=VARIABLE).encode(["a"], ["sentence"])
    assert "sk-Very" not in str(told.value)
    assert server.bodies == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"key_variable": KEY},
        {"key_variable": "skVery1234567890"},
        {"url": "https://me:sk-Very@host/v1"},
        {"url": "https://host/v1?key=sk-Very"},
        {"url": "host/sk-Very"},
    ],
)
def test_a_key_in_the_params_is_refused_without_showing_it(wrong):
    teacher = {"kind": "openai_api", "url": "https://host/v1", "model": "m", "parts": "p", **wrong}
    with refuses("params.yaml", f"teacher.{next(iter(wrong))}: ") as told:
        check(small_params(teacher=teacher), "params.yaml")
    assert "Very" not in str(told.value)


@pytest.mark.parametrize(("key", "parts"), [(KEY, "here"), ("", "here"), (KEY, "./nowhere")])
def test_doctor_says_whether_it_is_set(bert, tmp_path, monkeypatch, key, parts):
    monkeypatch.setenv(VARIABLE, key)
    teacher = {
        "kind": "openai_api",
        "url": "https://host/v1",
        "model": "tiny",
        "key_variable": VARIABLE,
        "parts": str(bert) if parts == "here" else parts,
    }
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".dvc").mkdir()
    for name in ("texts.csv", "pairs.tsv"):
        (tmp_path / name).touch()
    (tmp_path / "params.yaml").write_text(json.dumps(small_params(teacher=teacher)))
    result = CliRunner().invoke(app, ["doctor"])
    line = next(line for line in result.stdout.splitlines() if "\tteacher\t" in line)
    is_set = "is set" if key else "is not set"
    assert f"\ttiny at https://host/v1, key in {VARIABLE}, which {is_set}; " in line
    fine = key and parts == "here"
    assert line.startswith("ok" if fine else "missing")
    assert result.exit_code == (0 if fine else 1)
    assert ("export TINY_API_KEY=..." in line) == (not key)
    assert ("teacher.parts: there is no folder" in line) == (parts != "here")
    assert "sk-Very" not in result.output
