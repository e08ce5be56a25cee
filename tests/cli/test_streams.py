"""Commands and stages whose standard streams are closed, or of another encoding than UTF-8."""

import json
import os
import signal
import subprocess
import sys
import time
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


SAYS_WITHIN = """
from pathlib import Path
from pipeline.core.atomic import atomic_file
from pipeline.core.progress import progress, say
with atomic_file(Path("out.txt")) as out:
    with progress("stage", 1, "texts") as advance:
        advance(1)
    say("it is made")
    out.write_text("made")
"""
INTERRUPTED = {
    "for standard input": """
import polars
from pathlib import Path
from pipeline.cli.embed import read_texts
print("waits", flush=True)
read_texts([Path("-")])
""",
    "for another run": """
import fcntl, polars
from pathlib import Path
from pipeline.core.resumable import Resumable
Path("cache/training").mkdir(parents=True)
kept = Resumable(Path("cache/training/distill-tiny-0123456789abcdef.safetensors"))
with open("cache/training/distill-tiny-0123456789abcdef.lock", "w") as held:
    fcntl.flock(held, fcntl.LOCK_EX)
    print("waits", flush=True)
    kept.hold()
""",
}
"""Programs that wait, and say so before. polars has blocking calls go on after a signal."""


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


@pytest.fixture
def nobody():
    """A pipe whose reader has ended."""
    reader, writer = os.pipe()
    os.close(reader)
    yield writer
    os.close(writer)


def unheard(nobody: int, *args: str) -> subprocess.CompletedProcess[bytes]:
    """Run it with nobody at the other end of stderr."""
    path = os.pathsep.join([str(Path(__file__).resolve().parents[2]), str(Path.cwd())])
    environment = {**os.environ, "PYTHONPATH": path}
    return subprocess.run(
        [sys.executable, "-m", *args], stdout=subprocess.PIPE, stderr=nobody, env=environment, check=False
    )


def test_a_reader_of_stderr_that_has_ended_takes_no_output_away(nobody: int):
    assert unheard(nobody, "pipeline.cli", *EMBED).returncode == 0
    rows = Path("vectors.jsonl").read_text(encoding="utf-8").splitlines()
    done = unheard(nobody, "pipeline.cli", *EMBED[:-4], "--device", "cpu")
    assert (done.returncode, done.stdout.decode().splitlines()) == (0, rows)
    assert [json.loads(row)["text"] for row in rows] == TEXTS


def test_a_mistake_that_nobody_hears_of_is_one_by_its_status(nobody: int):
    assert unheard(nobody, "pipeline.cli", "search", "nowhere.txt", "cat").returncode == 1


def test_a_stage_that_nobody_hears_writes_what_it_makes(nobody: int):
    Path("small_stage.py").write_text(SAYS_WITHIN)
    assert unheard(nobody, "pipeline.core.timed", "timing.json", "small_stage").returncode == 0
    assert Path("out.txt").read_text() == "made"


@pytest.mark.parametrize("what", INTERRUPTED)
def test_ctrl_c_ends_what_waits(what: str):
    path = str(Path(__file__).resolve().parents[2])
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED[what]],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path},
    )
    try:
        assert process.stdout.readline() == b"waits\n"
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=20) == -signal.SIGINT
    finally:
        process.kill()
