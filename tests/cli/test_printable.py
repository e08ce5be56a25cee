"""No text of the user's tells a terminal what to do."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import test_search
from hypothesis import given
from hypothesis import strategies as st
from small_params import small_params
from terminal import Terminal
from typer.testing import CliRunner

from pipeline.cli import tabular
from pipeline.cli.__main__ import app
from pipeline.core.errors import UserError, report_user_errors
from pipeline.core.printable import CONTROL, printable
from pipeline.core.progress import progress, say
from pipeline.data.common import texts

TITLE, CLEAR, BIDI, RING = "\x1b]0;owned\x07", "\x9b2J", "\u202e", "\x7f"
EVIL = f"red {TITLE}{CLEAR}{BIDI}{RING} herring"
SPELLED = "red \\x1b]0;owned\\x07\\x9b2J\\u202e\\x7f herring"


@pytest.fixture
def student(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("params.yaml").write_text(json.dumps(small_params()))
    Path("corpus.txt").write_text(f"{EVIL}\na plain text\n")
    test_search.save_student(Path("data/finetuned/tiny"), seed=0)


def run(*arguments):
    return CliRunner().invoke(app, [*map(str, arguments)])


@given(st.text())
def test_only_control_characters_change(text):
    shown = printable(text)
    assert not CONTROL.search(shown)
    if not CONTROL.search(text):
        assert shown == text


def test_lines_and_tabs_stay_and_others_are_spelled():
    assert printable(f"a\n\tb é 東 🙂 {EVIL}") == f"a\n\tb é 東 🙂 {SPELLED}"


@pytest.mark.parametrize("arguments", [["red"], ["red", "plain"], [EVIL, "plain"]])
def test_texts_and_queries(student, arguments):
    shown = run("search", "corpus.txt", *arguments, "--device", "cpu").stdout
    assert SPELLED in shown
    assert not CONTROL.search(shown)


def test_a_table_on_a_terminal(monkeypatch):
    terminal = Terminal()
    monkeypatch.setenv("COLUMNS", "200")
    with os.fdopen(os.dup(terminal.writer), "w") as screen, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", screen)
        tabular.table(["text"], [[EVIL]], left={"text"}, title=EVIL)
    shown = terminal.shown()
    assert shown.count(SPELLED) == 2
    assert TITLE not in shown
    assert CLEAR not in shown


def test_embed_on_stdout_gives_json_of_the_same_texts(student):
    command = [sys.executable, "-m", "pipeline.cli.__main__", "embed", "--student", "tiny", "corpus.txt"]
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [*command, "--device", "cpu"],
        capture_output=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(root)},
    )
    shown = done.stdout.decode()
    assert json.loads(shown.splitlines()[0])["text"] == EVIL
    assert not any(part in shown for part in (TITLE, CLEAR, RING))


def test_inspect(folder):
    rows = texts.pl.DataFrame({"text_id": texts.text_ids([EVIL]), "text": [EVIL]})
    texts.write(rows, texts.LABELLED_SCHEMA, Path("texts.parquet"))
    Path("metrics.json").write_text(json.dumps({EVIL: EVIL}))
    for name in ("texts.parquet", "metrics.json"):
        shown = run("inspect", name).stdout
        assert SPELLED in shown
        assert not CONTROL.search(shown)


def test_errors_and_what_is_said(capsys):
    @report_user_errors
    def fail():
        raise UserError(EVIL)

    @report_user_errors
    def full():
        raise PermissionError(13, "no", EVIL)

    for command in (fail, full):
        with pytest.raises(SystemExit):
            command()
    say(EVIL)
    with progress(EVIL, 1, "texts") as advance:
        advance(1)
    shown = capsys.readouterr().err
    assert shown.count(SPELLED) == 4
    assert not CONTROL.search(shown)


def test_a_file_name_in_doctor_and_cache(student):
    params = small_params(corpus={"sources": [{"kind": "files", "path": f"{EVIL}.txt"}], "dev_fraction": 0.1})
    Path("params.yaml").write_text(json.dumps(params))
    shown = run("doctor").output
    assert SPELLED in shown
    assert not CONTROL.search(shown)
