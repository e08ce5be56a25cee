"""The project whose runs `kills.py` kills: the tests' small project with more texts, up to distillation."""

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import psutil
from ruamel.yaml import YAML

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(REPOSITORY), str(REPOSITORY / "tests")]

from project import Project, sentence  # noqa: E402

from pipeline.core import fingerprint  # noqa: E402
from pipeline.core.atomic import PARTIAL  # noqa: E402

TEXTS = 24_000
STUDENT = "potion"
LEFT_OUT = "mine"
"""The project has neither this stage of dvc.yaml nor later ones: equal inputs give them equal outs."""
NOT_COMPARED = ("data/raw", "data/timings")
"""It was not made, or holds times. The last column of curves does, too."""


class Small:
    """The project, all of whose outs are there between two kills."""

    def __init__(self, root: Path) -> None:
        (root / "project").mkdir()
        self.project = Project.start(REPOSITORY, root / "project")
        self.root, self.log = self.project.root, root / "log"
        lines = (sentence(3 * number) for number in range(TEXTS))
        (self.root / "data/raw/texts.txt").write_text("\n".join(lines))
        self.project.params["encode"]["shard_rows"] = TEXTS // 3
        self.project.params["runtime"] = {"checkpoint_seconds": 1, "device": "cpu"}
        student = self.project.params["students"][STUDENT]
        self.project.params["students"] = {STUDENT: student}
        student["train"] |= {"epochs": 2, "batch_size": 128}
        stages = (self.root / "dvc.yaml").read_text()
        (self.root / "dvc.yaml").write_text(stages[: stages.index(f"\n  {LEFT_OUT}:") + 1])
        self.project.repro()
        self.digests = self.made()
        self.intact = root / "intact"
        shutil.copytree(self.root, self.intact, symlinks=True)

    def made(self) -> dict[str, str]:
        """The digest of each file of the outs, but for what a clock says."""
        found = {}
        for file in (path for top in ("data", "reports") for path in sorted((self.root / top).rglob("*"))):
            name = file.relative_to(self.root).as_posix()
            if file.is_file() and not name.startswith(NOT_COMPARED) and PARTIAL not in name:
                content = file.read_bytes()
                if name.startswith("reports/curves/"):
                    content = b"\n".join(line.rpartition(b"\t")[0] for line in content.splitlines())
                found[name] = fingerprint.of_bytes(content)
        return found

    def forget(self, stages: Sequence[str]) -> None:
        """As if these stages had never run: no outs, nothing in the lock, in DVC's run cache or in ours."""
        lock = self.root / "dvc.lock"
        content = YAML(typ="safe").load(lock)
        for stage in stages:
            entry = content["stages"].pop(stage)
            for out in entry["outs"]:
                _remove(self.root / out["path"])
            for run in self.root.glob(".dvc/cache/runs/*/*/*"):
                if YAML(typ="safe").load(run)["cmd"] == entry["cmd"]:
                    _remove(run.parent)  # DVC fails on an empty folder there
        YAML(typ="safe").dump(content, lock)
        _remove(self.root / ".cache")

    def restore(self) -> None:
        """Start again from the undisturbed run."""
        _remove(self.root)
        shutil.copytree(self.intact, self.root, symlinks=True)

    def start(self) -> psutil.Popen:
        """A running `dvc repro`."""
        command = Path(sys.executable).with_name("dvc")
        environment = {**os.environ, "PATH": f"{command.parent}{os.pathsep}{os.environ['PATH']}"}
        with self.log.open("w") as log:
            return psutil.Popen([command, "repro"], cwd=self.root, env=environment, stdout=log, stderr=log)

    def partials(self, folders: Sequence[str]) -> set[str]:
        """The partial files and folders in some folders."""
        found = set()
        for folder in folders:
            try:
                found |= {
                    entry.path for entry in os.scandir(self.root / folder) if entry.name.startswith(PARTIAL)
                }
            except FileNotFoundError:
                continue
        return found

    def is_working(self) -> bool:
        """Whether a stage has begun to write what it keeps for the next try."""
        return any(file.is_file() for file in (self.root / ".cache").rglob("*"))

    def folders(self, stages: Sequence[str]) -> list[str]:
        """Where the outs of these stages lie."""
        lock = YAML(typ="safe").load(self.intact / "dvc.lock")
        return sorted(
            {str(Path(out["path"]).parent) for stage in stages for out in lock["stages"][stage]["outs"]}
        )

    def left(self) -> int:
        """How many partial files and folders there are."""
        return sum(1 for top in ("data", "reports", ".cache") for _ in (self.root / top).rglob(f"{PARTIAL}*"))


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
