import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells of processes in /proc")

STAGE = """
import os, signal, time
from pathlib import Path
from pipeline.core.atomic import atomic_folder, write_text

if {stubborn}:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
Path("process").write_text(str(os.getpid()))
while not Path("go").exists():
    time.sleep(0.05)
with atomic_folder(Path("folder")) as folder:
    (folder / "file").write_text("old run")
write_text(Path("out"), "old run")
"""
RUN = f"{sys.executable} -m pipeline.core.timed time.json stage"
STARTS = {
    "the parent": f"import subprocess; subprocess.run({RUN!r}.split())",
    "a shell that stays": f"import subprocess; subprocess.run({RUN + '; true'!r}, shell=True)",
    "a process of torchrun's": "import subprocess, sys; subprocess.run([sys.executable, 'torchrun'])",
}
"""What a `dvc` does."""


@pytest.fixture
def start(tmp_path, repository):
    """Start a `dvc` that runs a stage; its process, and the stage's number once that runs."""
    started = []

    def run(how: str, *, stubborn: bool = False, name: str = "dvc", stderr: int | None = None):
        (tmp_path / "stage.py").write_text(STAGE.format(stubborn=stubborn))
        (tmp_path / name).write_text(STARTS[how])
        (tmp_path / "torchrun").write_text(STARTS["the parent"])
        environment = {**os.environ, "PYTHONPATH": f"{repository}{os.pathsep}{tmp_path}"}
        process = subprocess.Popen([sys.executable, name], cwd=tmp_path, env=environment, stderr=stderr)
        started.append(process)
        until(lambda: (tmp_path / "process").exists() and (tmp_path / "process").read_text())
        return process, int((tmp_path / "process").read_text())

    yield run
    for process in started:
        process.kill()
        process.wait()


def until(is_so) -> None:
    for _ in range(600):
        if is_so():
            return
        time.sleep(0.05)
    raise AssertionError("it does not come true")


def runs(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("how", STARTS)
def test_a_stage_ends_with_the_dvc_that_started_it(tmp_path, start, how):
    dvc, stage = start(how)
    assert runs(stage)
    dvc.kill()
    until(lambda: not runs(stage))
    (tmp_path / "go").touch()
    assert not (tmp_path / "out").exists()


def test_a_stage_that_nobody_hears_ends_all_the_same(tmp_path, start):
    """As where `dvc repro 2>&1 | tee log` is killed."""
    reader, writer = os.pipe()
    os.close(reader)
    dvc, stage = start("the parent", stderr=writer)
    os.close(writer)
    dvc.kill()
    until(lambda: not runs(stage))


def test_what_cannot_be_stopped_at_once_publishes_nothing(tmp_path, start):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/file").write_text("new run")
    (tmp_path / "out").write_text("new run")
    dvc, stage = start("a shell that stays", stubborn=True)
    dvc.kill()
    dvc.wait()
    (tmp_path / "go").touch()
    until(lambda: not runs(stage))
    assert (tmp_path / "folder/file").read_text() == "new run"
    assert (tmp_path / "out").read_text() == "new run"
    assert not (tmp_path / "time.json").exists()


@pytest.mark.parametrize("how", STARTS)
def test_a_stage_whose_dvc_lives_publishes(tmp_path, start, how):
    dvc, _ = start(how)
    (tmp_path / "go").touch()
    assert dvc.wait(timeout=60) == 0
    assert (tmp_path / "out").read_text() == (tmp_path / "folder/file").read_text() == "old run"


def test_who_started_the_parent_may_go_where_that_is_no_dvc(tmp_path, start):
    other, stage = start("a process of torchrun's", name="other")
    os.kill(other.pid, signal.SIGKILL)
    other.wait()
    (tmp_path / "go").touch()
    until(lambda: (tmp_path / "time.json").exists())
    assert (tmp_path / "out").read_text() == "old run"
    until(lambda: not runs(stage))
