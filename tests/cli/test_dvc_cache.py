import shlex
import subprocess
from pathlib import Path

import pytest
from flipped import flip
from stored import cache, lines

STAGES = """
stages:
  one: {cmd: echo one > one.txt, deps: [raw.txt], outs: [one.txt]}
  two: {cmd: mkdir -p two && echo a > two/a && echo b > two/b, deps: [one.txt], outs: [two]}
"""
ONE, RAW, B = "one\n", "raw\n", "b\n"


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """A project of two stages and a file of the user's, all of which ran."""
    root = tmp_path_factory.mktemp("project")
    (root / ".dvc").mkdir()
    (root / ".dvc/config").write_text("[core]\n    no_scm = true\n    analytics = false\n")
    (root / "dvc.yaml").write_text(STAGES)
    (root / "raw.txt").write_text(RAW)
    for command in ("dvc add -q raw.txt", "dvc repro -q"):
        subprocess.run(shlex.split(command), cwd=root, check=True)
    return root


@pytest.fixture
def project(made, monkeypatch) -> Path:
    monkeypatch.chdir(made)
    Path(".cache").mkdir(exist_ok=True)
    assert verify().exit_code == 0
    return made


def verify(*args: str):
    return cache("verify", "--cache", ".cache", *args)


def holding(content: str) -> Path:
    """The object of this content, or the one list of a folder."""
    files = [path for path in Path(".dvc/cache/files/md5").glob("??/*") if path.is_file()]
    [found] = [
        path for path in files if path.read_text() == content or (not content and path.suffix == ".dir")
    ]
    return found


@pytest.mark.parametrize(
    ("content", "command"),
    [
        (ONE, "dvc repro -f -s one"),
        (B, "dvc repro -f -s two"),
        ("", "dvc repro -f -s two"),
        (RAW, "dvc add raw.txt"),
    ],
)
def test_a_flipped_bit_of_an_object_is_told_with_the_command_that_makes_it_again(project, content, command):
    path = holding(content)
    intact = path.read_bytes()
    path.chmod(0o644)
    flip(path, 3)
    path.chmod(0o444)  # which DVC takes for whole
    result = verify()
    assert result.exit_code == 1
    assert lines(result) == [["damaged", str(path.absolute()), command]]
    assert f"`pipeline cache verify --drop` removes them, then run `{command}`" in result.stderr
    result = verify("--drop")
    assert result.exit_code == 0
    assert f"run `{command}`" in result.stderr
    assert not path.exists()
    subprocess.run([*shlex.split(command), "-q"], check=True)
    assert path.read_bytes() == intact


@pytest.mark.parametrize("bit", [3, 100, -9])
def test_a_run_that_says_something_else_is_dropped(project, bit):
    [path] = [path for path in Path(".dvc/cache/runs").glob("??/*/*") if "two" in path.read_text()]
    intact, mode = path.read_bytes(), path.stat().st_mode
    path.chmod(0o644)
    flip(path, bit)
    assert lines(verify()) == [["damaged", str(path.absolute())]]
    assert verify("--drop").exit_code == 0
    assert not path.exists()
    path.write_bytes(intact)
    path.chmod(mode)


def test_what_no_result_of_now_needs_has_no_command(project):
    path = Path(".dvc/cache/files/md5/00") / ("0" * 30)
    path.parent.mkdir()
    path.write_text("an old result")
    assert lines(verify()) == [["damaged", str(path.absolute())]]
    assert verify("--drop").exit_code == 0


def test_files_of_dvc_that_cannot_be_read_are_told(project):
    lock = Path("dvc.lock").read_text()
    Path("dvc.lock").write_text(f"<<<<<<< ours\n{lock}=======\n>>>>>>> theirs\n")
    try:
        result = verify()
    finally:
        Path("dvc.lock").write_text(lock)
    assert result.exit_code == 1
    assert "dvc.lock" in result.stderr
    assert "Traceback" not in result.output
