"""The Makefile: which Python it takes, and paths with spaces."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

OLD = """#!/bin/sh
case "$*" in
  --version) echo "Python 3.9.1" ;;
  *"version_info < (3, 11)"*) exit 1 ;;
esac
"""
NEW = '#!/bin/sh\ntest "$2" = venv && { echo "made $3 with $(basename "$0")"; exit 0; }\nexit 0\n'


@pytest.fixture
def make(repository, tmp_path):
    """Runs a target of the Makefile where PATH has these Pythons alone."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("make", "sh", "test", "basename", "echo"):
        if found := shutil.which(name):
            (tools / name).symlink_to(found)

    def run(target: str, *arguments: str, **pythons: str) -> subprocess.CompletedProcess[str]:
        for name, script in pythons.items():
            place = tools / name.replace("_", ".")
            place.write_text(script)
            place.chmod(0o755)
        command = ["make", "--no-print-directory", "-C", repository, target, *arguments]
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "PYTHON"))}
        return subprocess.run(
            command, env={**clean, "PATH": str(tools)}, capture_output=True, text=True, check=False
        )

    return run


def test_the_first_python_that_is_new_enough_is_taken(make, tmp_path):
    place = tmp_path / "a folder/wïth spaces"
    done = make("python", f"VENV={place}", python3_11=OLD, python3_12=NEW, python3_13=NEW, python3=OLD)
    assert done.stdout == f"made {place} with python3.12\n", done.stderr


def test_a_named_python_is_taken(make, tmp_path):
    done = make("python", f"VENV={tmp_path / 'v'}", "PYTHON=python3.13", python3_12=NEW, python3_13=NEW)
    assert done.stdout.endswith("with python3.13\n"), done.stderr


def test_one_too_old_is_told(make, tmp_path):
    done = make("python", f"VENV={tmp_path / 'v'}", "PYTHON=python3", python3=OLD)
    assert done.returncode
    assert "python3 is Python 3.9.1, and 3.11 or newer is needed: make setup PYTHON=" in done.stderr


@pytest.mark.parametrize("pythons", [{}, {"python3": OLD}])
def test_none_is_told(make, tmp_path, pythons):
    done = make("python", f"VENV={tmp_path / 'v'}", **pythons)
    assert done.returncode
    assert "there is no Python 3.11 or newer on the PATH; name one" in done.stderr


def test_one_that_is_not_there_is_told(make, tmp_path):
    done = make("python", f"VENV={tmp_path / 'v'}", "PYTHON=python9")
    assert "python9 is no Python; name a Python 3.11 or newer" in done.stderr


def test_an_environment_in_a_path_with_spaces_runs_its_commands(repository, tmp_path):
    place = tmp_path / "an environment/hérè"
    made = subprocess.run(
        ["make", "python", f"VENV={place}", f"PYTHON={sys.executable}"],
        cwd=repository,
        env={**os.environ, "MAKEFLAGS": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    script = place / "bin/pip"
    found = subprocess.run([script, "--version"], capture_output=True, text=True, check=True)
    assert str(Path(place)) in found.stdout
