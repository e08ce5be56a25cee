"""What `pipeline` lists, and what a command imports."""

import importlib
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from pipeline.cli import __main__

HEAVY = (
    "torch",
    "transformers",
    "sentence_transformers",
    "scipy",
    "sklearn",
    "onnxruntime",
    "faiss",
    "altair",
)


@pytest.mark.parametrize("name", __main__.COMMANDS)
def test_the_listed_help_begins_that_of_the_command(name):
    module = importlib.import_module(f"pipeline.cli.{name}")
    if name != "cache":
        first = " ".join(getattr(module, name).__doc__.split("\n\n")[0].split())
        assert __main__.COMMANDS[name] == first
    result = CliRunner().invoke(__main__.app, [name, "--help"])
    assert result.exit_code == 0
    assert result.stdout.split()[:3] == ["Usage:", result.stdout.split()[1], name]


def test_every_command_is_listed():
    said = CliRunner().invoke(__main__.app, ["--help"]).stdout
    assert all(f" {name} " in said for name in __main__.COMMANDS)


def test_a_command_that_is_not_there_is_told_with_its_likeness():
    result = CliRunner().invoke(__main__.app, ["chek"])
    assert result.exit_code == 2
    assert "Did you mean 'check'" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "left_out"),
    [
        ("--help", (*HEAVY, "numpy", "polars", "pydantic", "pyarrow")),
        ("check --params no/such/params.yaml", HEAVY),  # it looks at the teacher where params are in order
        ("doctor", HEAVY),
        ("cache list", HEAVY),
        ("inspect reports", HEAVY),
    ],
)
def test_a_command_imports_what_it_needs(repository, arguments, left_out):
    code = (
        "import sys; from pipeline.cli.__main__ import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        f"print('imported:', *(name for name in {left_out} if name in sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments.split()], cwd=repository, capture_output=True, text=True
    )
    assert done.stdout.splitlines()[-1] == "imported:", done.stderr
