import subprocess
from pathlib import Path

from pipeline.report import earlier


def git(folder, *args):
    subprocess.run(["git", "-c", "user.name=t", "-c", "user.email=t@t", *args], cwd=folder, check=True)


def test_a_file_is_read_from_the_last_commit_though_it_is_changed_or_deleted(tmp_path):
    git(tmp_path, "init", "-q")
    path = tmp_path / "reports/params.json"
    path.parent.mkdir()
    path.write_text("été\n", encoding="utf-8")
    assert earlier.committed(path) is None
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "one")
    path.write_text("later")
    assert earlier.committed(path) == "été\n"
    path.unlink()
    assert earlier.committed(path) == "été\n"


def test_without_a_repository_or_without_git_there_is_none(tmp_path, monkeypatch):
    assert earlier.committed(tmp_path / "params.json") is None
    monkeypatch.setenv("PATH", str(tmp_path))
    assert earlier.committed(tmp_path / "params.json") is None


def test_a_relative_path_in_a_folder_that_does_not_exist_is_read_too(tmp_path, monkeypatch):
    git(tmp_path, "init", "-q")
    (tmp_path / "reports").mkdir()
    (tmp_path / "reports/params.json").write_text("{}")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "one")
    (tmp_path / "reports/params.json").unlink()
    (tmp_path / "reports").rmdir()
    monkeypatch.chdir(tmp_path)
    assert earlier.committed(Path("reports/params.json")) == "{}"
