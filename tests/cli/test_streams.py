"""Commands and stages whose standard streams are closed, or of another encoding than UTF-8."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import test_search
from small_params import small_params

TEXTS = ["caf\u00e9", "\u65e5\u672c", "cat"]
SEARCH = ("search", "corpus.txt", "cat", "--device", "cpu")
EMBED = ("embed", "corpus.txt", "--student", "tiny", "--out", "vectors.jsonl", "--device", "cpu")
STAGE = """
from pipeline.core.progress import progress
with progress("stage", 1, "texts") as advance:
    advance(1)
"""


@pytest.fixture(autouse=True)
def student(folder: Path) -> None:
    Path("params.yaml").write_text(json.dumps(small_params()))
    Path("corpus.txt").write_text("\n\n".join(TEXTS), encoding="utf-8")  # empty lines are told on stderr
    test_search.save_student(Path("data/finetuned/tiny"), seed=0)


def run(*args: str, closed: str = "", **environment: str) -> subprocess.CompletedProcess[bytes]:
    path = os.pathsep.join([str(Path(__file__).resolve().parents[2]), str(Path.cwd())])
    return subprocess.run(
        ["sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, "-m", *args],
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONPATH": path, **environment},
    )


def cli(*args: str, closed: str = "", **environment: str) -> subprocess.CompletedProcess[bytes]:
    return run("pipeline.cli", *args, closed=closed, **environment)


def found(done: subprocess.CompletedProcess[bytes], encoding: str) -> set[str]:
    assert done.returncode == 0, done.stderr.decode()
    return {line.split("\t")[2] for line in done.stdout.decode(encoding).splitlines()}


def test_a_character_that_the_encoding_of_stdout_lacks_is_spelled():
    assert found(cli(*SEARCH, PYTHONIOENCODING="latin-1"), "latin-1") == {
        "caf\u00e9",
        "\\u65e5\\u672c",
        "cat",
    }
    assert found(cli(*SEARCH, PYTHONIOENCODING="utf-8"), "utf-8") == set(TEXTS)


def test_a_closed_stderr_takes_no_output_away():
    assert cli(*EMBED, closed="2>&-").returncode == 0
    rows = Path("vectors.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(row)["text"] for row in rows] == TEXTS
    assert found(cli(*SEARCH, closed="2>&-"), "utf-8") == set(TEXTS)
    assert cli("search", "nowhere.txt", "cat", closed="2>&-").returncode == 1


@pytest.mark.parametrize("closed", [">&-", "<&- >&-"])
def test_a_closed_stdout_gives_no_traceback(closed: str):
    done = cli(*SEARCH, closed=closed)
    assert done.returncode == 0
    assert "index with tiny: 3 of 3 texts" in done.stderr.decode()
    assert b"Traceback" not in done.stderr


def test_a_closed_stdin_is_an_empty_one():
    done = cli("embed", "--student", "tiny", closed="<&-")
    assert done.returncode == 1
    assert "stdin: there is no text" in done.stderr.decode()


def test_a_stage_runs_with_all_of_them_closed():
    Path("small_stage.py").write_text(STAGE)
    done = run("pipeline.core.timed", "timing.json", "small_stage", closed="<&- >&- 2>&-")
    assert done.returncode == 0
    assert json.loads(Path("timing.json").read_text())["seconds"] >= 0
