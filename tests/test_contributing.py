"""The examples of a new student and a new loss in docs/ work in a copy of the repository as written."""

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dvc_contract
import pytest
from pages import example_blocks, example_files, pages
from ruamel.yaml import YAML

IGNORED = shutil.ignore_patterns("__pycache__")
UNIONS = {
    "pipeline/params/students.py": "Student = Annotated[\n    ",
    "pipeline/params/losses.py": "Term = ",
}
"""Where a params block's name is added to those of its file."""
EXAMPLES = ["docs/add-a-student.md", "docs/students-and-losses.md"]
TRAINED = """
import json, os, sys
from pathlib import Path

sys.path.insert(0, "tests")
from distill_runs import distill, write_project
from sentence_transformers import SentenceTransformer

write_project(Path("project"), json.loads(sys.argv[1]))
os.chdir("project")
distill()
print(SentenceTransformer("distilled", device="cpu").encode("a text").shape)
"""


@dataclass(frozen=True)
class Copy:
    """The repository with a page's example where its blocks say that it goes."""

    root: Path
    files: tuple[str, ...]
    commands: tuple[str, ...]
    params: dict[str, Any]
    """The example's `students:`."""

    def run(self, *command: str) -> str:
        """What a command prints, which must succeed."""
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            command,
            cwd=self.root,
            env={**os.environ, "PATH": path, "PYTHONPATH": str(self.root)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout


@pytest.fixture(scope="module", params=EXAMPLES)
def copy(request, repository, tmp_path_factory):
    root, page = tmp_path_factory.mktemp("example"), repository / request.param
    (root / ".dvc").mkdir()
    (root / ".dvc/config").write_text("[core]\nno_scm = true\n")
    for name in (".dvcignore", "dvc.yaml", "params.yaml", "pyproject.toml"):
        shutil.copy(repository / name, root / name)
    for name in ("pipeline", "tests"):
        shutil.copytree(repository / name, root / name, ignore=IGNORED)
    files = example_files(page)
    for name, code in files:
        (root / name).write_text(
            added((root / name).read_text(), code, UNIONS[name]) if name in UNIONS else code
        )
    yaml = YAML(typ="safe")
    (snippet,) = map(yaml.load, example_blocks(page, "yaml"))
    with (root / "params.yaml").open("w") as file:
        yaml.dump(yaml.load(repository / "params.yaml") | snippet, file)
    commands = example_blocks(page, "sh")
    return Copy(root, tuple(name for name, _ in files), tuple(commands), snippet["students"])


def added(text: str, code: str, union: str) -> str:
    """A params file with a block before the union, and the name of the block's last class in it."""
    assert text.count(union) == 1
    name = re.findall(r"^class (\w+)\(", code, flags=re.MULTILINE)[-1]
    return text.replace(union, f"{code}\n\n{union}{name} | ")


def test_every_page_with_files_is_run(repository):
    assert [name for name, page in pages(repository).items() if example_files(page)] == EXAMPLES


def test_its_commands_run_and_its_test_passes(copy):
    assert len(copy.files) == 3
    said = copy.run("bash", "-euo", "pipefail", "-c", "\n".join(copy.commands))
    assert re.search(r"^[1-9]\d* passed", said, flags=re.MULTILINE)


def test_its_code_is_written_as_ruff_formats_it(copy):
    apart = [name for name in copy.files if name not in UNIONS]
    copy.run("ruff", "format", "--check", *apart)


def test_its_params_are_in_order(copy):
    copy.run("pipeline", "check")


def test_the_stage_trains_it(copy):
    (block,) = copy.params.values()
    student = {key: block[key] for key in ("kind", "init", "loss")}
    assert copy.run(sys.executable, "-c", TRAINED, json.dumps(student)).endswith("(8,)\n")


def test_dvc_yaml_needs_no_change(copy):
    assert dvc_contract.faults(copy.root) == []
