"""CONTRIBUTING's example of a new student works in a copy of the repository as it is written there."""

import os
import re
import shutil
import subprocess
import sys
from textwrap import dedent

import dvc_contract
import pytest

IGNORED = shutil.ignore_patterns("__pycache__")
UNION = "Student = Annotated["
TRAINED = """
import os, sys
from pathlib import Path

sys.path.insert(0, "tests")
from distill_runs import distill, write_project
from sentence_transformers import SentenceTransformer

write_project(Path("project"), {"kind": "averaging", "init": {"hidden": 64}})
os.chdir("project")
distill()
print(SentenceTransformer("distilled", device="cpu").encode("a text").shape)
"""


@pytest.fixture(scope="module")
def copy(repository, tmp_path_factory):
    """The repository with the example's three blocks where they say that they go."""
    root = tmp_path_factory.mktemp("contributing")
    (root / ".dvc").mkdir()
    (root / ".dvc/config").write_text("[core]\nno_scm = true\n")
    for name in (".dvcignore", "dvc.yaml", "params.yaml", "pyproject.toml"):
        shutil.copy(repository / name, root / name)
    for name in ("pipeline", "tests"):
        shutil.copytree(repository / name, root / name, ignore=IGNORED)
    blocks = re.findall(
        r"^   ```python\n   # (\S+)\n(.*?)^   ```$",
        (repository / "CONTRIBUTING.md").read_text(),
        flags=re.DOTALL | re.MULTILINE,
    )
    assert len(blocks) == 3
    for name, code in blocks:
        path, code = root / name, dedent(code)
        if path.exists():
            text = path.read_text()
            assert UNION in text
            added = re.findall(r"^class (\w+)\(StudentBlock\)", code, flags=re.MULTILINE)[0]
            code = text.replace(UNION, f"{code}\n\n{UNION}\n    {added} |")
        path.write_text(code)
    return root


def run(copy, *command: str) -> str:
    """What Python prints in the copy."""
    environment = {**os.environ, "PYTHONPATH": str(copy)}
    done = subprocess.run(
        [sys.executable, *command],
        cwd=copy,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_the_new_students_test_passes(copy):
    said = run(copy, "-m", "pytest", "tests/train/students/test_averaging_student.py")
    assert "2 passed" in said


def test_its_code_is_clean(copy):
    run(copy, "-m", "ruff", "check", "pipeline/train/students/kinds/averaging.py")
    run(copy, "-m", "ruff", "format", "--check", "pipeline/train/students/kinds/averaging.py")


def test_the_stage_trains_it(copy):
    assert run(copy, "-c", TRAINED).endswith("(8,)\n")


def test_dvc_yaml_needs_no_change(copy):
    params = copy / "params.yaml"
    params.write_text(params.read_text().replace("kind: bilstm", "kind: averaging", 1))
    assert dvc_contract.faults(copy) == []
