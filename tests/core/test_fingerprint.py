import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.core import fingerprint


def folder(root: Path, files: dict[str, str]) -> Path:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)
    return root


FILES = {"a.txt": "one", "deep/b.txt": "two"}


def test_bytes_and_files_are_sha256(tmp_path):
    content = bytes(range(256))
    (tmp_path / "file").write_bytes(content)
    expected = hashlib.sha256(content).hexdigest()
    assert fingerprint.of_bytes(content) == fingerprint.of_file(tmp_path / "file") == expected


def test_json_does_not_depend_on_the_order_of_keys():
    one = {"b": {"y": 1, "x": "ü"}, "a": [1, 2]}
    assert fingerprint.of_json(one) == fingerprint.of_json({"a": [1, 2], "b": {"x": "ü", "y": 1}})
    # Fixed, since a change would make every cached vector stale.
    assert fingerprint.of_json({"b": 1, "a": None}) == hashlib.sha256(b'{"a":null,"b":1}').hexdigest()


@pytest.mark.parametrize("other", [{"a": [2, 1]}, {"a": [1, 2.5]}, {"a": ["1", "2"]}, {"b": [1, 2]}])
def test_another_value_is_another_fingerprint(other):
    assert fingerprint.of_json(other) != fingerprint.of_json({"a": [1, 2]})


def test_a_folders_place_dates_and_modes_do_not_count(tmp_path):
    one, other = folder(tmp_path / "one", FILES), folder(tmp_path / "other", dict(reversed(FILES.items())))
    os.utime(other / "a.txt", (1, 1))
    (other / "a.txt").chmod(0o600)
    assert fingerprint.of_folder(one) == fingerprint.of_folder(other)


@pytest.mark.parametrize(
    "files",
    [
        {**FILES, "a.txt": "other"},
        {**FILES, "c.txt": ""},
        {"a.txt": "one"},
        {"a.txt": "one", "b.txt": "two"},
        {"a.txt": "two", "deep/b.txt": "one"},
    ],
    ids=["content", "new", "gone", "moved", "swapped"],
)
def test_a_folders_names_and_contents_count(tmp_path, files):
    expected = fingerprint.of_folder(folder(tmp_path / "one", FILES))
    assert fingerprint.of_folder(folder(tmp_path / "other", files)) != expected


def test_the_code_is_that_of_all_modules_and_of_the_stage_that_runs(tmp_path, repository):
    command = [sys.executable, "-m", "pipeline.core.timed", "timings.json", "stage"]
    environment = {**os.environ, "PYTHONPATH": str(repository)}
    found = []
    for imported in ("", "", "# another stage", "import pipeline.core.registry"):
        code = f"from pipeline.core.fingerprint import of_code\n{imported}\nprint(of_code())\n"
        (tmp_path / "stage.py").write_text(code)
        found.append(subprocess.check_output(command, cwd=tmp_path, env=environment, text=True))
    assert found[0] == found[1]
    assert len(set(found)) == 3
