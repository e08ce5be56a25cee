"""What a stage took: a tiny stage in a process of its own."""

import json
import signal
import subprocess
import sys
import time

import pytest

STAGE = """
import multiprocessing, subprocess, sys, time
from pipeline.core.errors import UserError, report_user_errors

def twice(number):
    return 2 * number

def main() -> None:
    what, number = sys.argv[1], int(sys.argv[2])
    print(f"{__name__} {sys.argv} {__spec__.name} {__file__}", flush=True)
    match what:
        case "sleep":
            time.sleep(number)
        case "exit":
            sys.exit(number)
        case "raise":
            raise ValueError("not the user's")
        case "mistake":
            raise UserError("texts.csv is missing; bring it")
        case "hold":
            b"x" * (number * 1_000_000)
        case "start":
            child = f"b'x' * ({number} * 1_000_000)"
            subprocess.run([sys.executable, "-c", child], check=True)
        case "spawn":
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                print(pool.map(twice, [number]))

if __name__ == "__main__":
    report_user_errors(main)()
"""


@pytest.fixture(autouse=True)
def folder(written):
    return written(STAGE)


@pytest.fixture
def run(environment):
    def run(*args, command=("-m", "pipeline.core.timed", "timings/tiny.json", "tiny")):
        return subprocess.run(
            [sys.executable, *command, *map(str, args)], env=environment, capture_output=True, text=True
        )

    return run


def took(folder):
    assert [path.name for path in (folder / "timings").iterdir()] == ["tiny.json"]
    return json.loads((folder / "timings/tiny.json").read_text())


def test_what_a_stage_took(folder, run):
    started = time.monotonic()
    done = run("sleep", 1)
    assert done.returncode == 0, done.stderr
    found = took(folder)
    assert found.keys() == {"seconds", "peak_megabytes", "machine", "precision", "seal"}
    assert 1 <= found["seconds"] <= time.monotonic() - started


def test_a_stage_runs_as_it_does_alone(folder, run):
    alone = run("spawn", 4, command=("-m", "tiny"))
    done = run("spawn", 4)
    assert done.stdout == alone.stdout
    assert "__main__" in done.stdout
    assert done.stdout.endswith("[8]\n")
    assert took(folder)


@pytest.mark.parametrize("end", ["pass", "sys.exit()", "sys.exit(0)"])
def test_every_end_that_is_none_of_failure_counts(folder, run, end):
    (folder / "tiny.py").write_text(f"import sys\n{end}\n")
    assert run().returncode == 0
    assert took(folder)


def test_the_time_of_an_earlier_run_is_replaced(folder, run):
    (folder / "timings").mkdir()
    (folder / "timings/tiny.json").write_text("{}" + " " * 1000)
    run("sleep", 0)
    assert took(folder)["seconds"] < 60


@pytest.mark.parametrize(
    ("what", "code", "said"),
    [
        ("exit", 3, ""),
        ("raise", 1, "ValueError: not the user's\n"),
        ("mistake", 1, "error: texts.csv is missing; bring it\n"),
    ],
)
def test_a_stage_that_fails_says_what_it_says_alone_and_has_no_time(folder, run, what, code, said):
    done = run(what, 3)
    assert done.returncode == code
    assert done.stderr.endswith(said)
    assert done.stderr == said or what == "raise"
    assert not (folder / "timings").exists()


def test_the_time_of_an_earlier_run_stays_that_of_its_result(folder, run):
    run("sleep", 0)
    before = took(folder)
    run("raise", 0)
    assert took(folder) == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_killed_stage_has_no_time(folder, environment, number):
    command = [sys.executable, "-m", "pipeline.core.timed", "timings/tiny.json", "tiny", "sleep", "600"]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout.readline().startswith(b"__main__")
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode == -number
    assert not (folder / "timings").exists()


@pytest.mark.parametrize("what", ["hold", "start"])
def test_memory_is_that_of_the_largest_process(folder, run, what):
    run("sleep", 0)
    empty = took(folder)["peak_megabytes"]
    run(what, 300)
    assert 300 <= took(folder)["peak_megabytes"] <= 300 + empty


@pytest.mark.skipif(sys.platform != "linux", reason="`ru_maxrss` is a process' own there")
def test_memory_is_not_that_of_who_started_the_stage(folder, run):
    held = b"x" * 400_000_000
    run("sleep", 0)
    assert 5 < took(folder)["peak_megabytes"] < 400
    del held


def test_a_time_that_cannot_be_written_is_one_line(folder, run):
    (folder / "timings").write_text("a file")
    done = run("sleep", 0)
    assert done.returncode == 1
    assert done.stderr.startswith("error: timings/tiny.json cannot be written (")
    assert done.stderr.count("\n") == 1


def test_too_few_arguments_are_said(run):
    done = run(command=("-m", "pipeline.core.timed", "out.json"))
    assert (done.returncode, done.stderr) == (
        1,
        "usage: python -m pipeline.core.timed OUT MODULE [ARGUMENT ...]\n",
    )


def test_it_imports_nothing_that_a_stage_would_pay_for(run):
    done = run(command=("-S", "-c", "import pipeline.core.timed"))  # without site: no installed package
    assert done.returncode == 0, done.stderr
