"""A copy of the repository with small data, the hashing teacher and a DVC of its own."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import warm_python
from ruamel.yaml import YAML

PARAMS = {
    "teacher": {"kind": "hashing", "dim": 32},
    "corpus": {
        "sources": [{"kind": "files", "path": "data/raw/texts.txt"}],
        "dev_fraction": 0.1,
    },
    "augment": {"wordnet": {"enabled": False}, "back_translation": {"enabled": False}},
    "encode": {"views": ["sentence", "token_mean"]},
    "gate": {"wordnet": {}, "back_translation": None},
    "pca": {"centre": True},
    "finetune": {
        "data": {"mine": {"kind": "triplets", "path": "data/raw/triplets.tsv"}},
        "mine": {"top_k": 20, "negatives": 2},
    },
    "students": {
        "hpd": {
            "kind": "transformer",
            "view": "sentence",
            "dim": 16,
            "init": {"layers": [1]},
            "loss": {"kind": "mse"},
            "train": {"epochs": 2, "batch_size": 32, "lr": 1e-3},
            "finetune": {"data": ["mine"], "batch_size": 8, "lr": 1e-3},
        },
        "potion": {
            "kind": "static",
            "view": "token_mean",
            "dim": 16,
            "init": {},
            "loss": {"kind": "cosine"},
            "train": {"epochs": 2, "batch_size": 32, "lr": 1e-3},
            "finetune": None,
        },
    },
    "classifiers": {},
    "evaluate": {
        "tasks": {
            "similar": {"kind": "sts", "path": "data/raw/dev.tsv", "split": "dev"},
            "alike": {"kind": "sts", "path": "data/raw/test.tsv"},
        }
    },
    "significance": {"samples": 100},
    "footprint": {"sentences": 8, "rounds": 1, "single": 2},
    "export": {"parity_texts": 50},
}
WORDS = "red green blue small large old new dog cat bird car tree house river sings runs sleeps".split()


def sentence(number: int) -> str:
    """Four words, another choice for every number below 17 ** 4."""
    return " ".join(WORDS[number // 17**place % 17] for place in range(4))


class Project:
    """The copy.

    Attributes:
        root: its folder.
        params: what params.yaml will say.
        warm: whether `dvc` and the stages start at once, see `warm_python` (Linux); else as a user's do.
    """

    def __init__(self, root: Path, *, warm: bool = True) -> None:
        self.root = root
        self.warm = warm and sys.platform == "linux"
        self.params = json.loads(json.dumps(PARAMS))

    @classmethod
    def start(cls, repository: Path, root: Path, *, warm: bool = True) -> "Project":
        """A new one in an empty folder, in which nothing has run."""
        made = cls(root, warm=warm)
        for name in ("dvc.yaml", ".dvcignore", ".gitignore", "README.md"):
            shutil.copy(repository / name, root / name)
        without = shutil.ignore_patterns("__pycache__")
        shutil.copytree(repository / "pipeline", root / "pipeline", ignore=without)
        (root / ".dvc").mkdir()
        shutil.copy(repository / ".dvc/config", root / ".dvc/config")
        _write_data(root / "data/raw")
        made.write_params()
        made.shell("git init -q && git add . && git -c user.name=t -c user.email=t@t commit -qm start")
        return made

    def write_params(self) -> None:
        """Write `params` to params.yaml."""
        with (self.root / "params.yaml").open("w") as file:
            YAML().dump(self.params, file)

    def shell(self, command: str) -> str:
        """Run a command in the copy, which must succeed; all that it printed."""
        path = os.pathsep.join(
            [
                *([str(warm_python.folder())] if self.warm else []),
                str(Path(sys.executable).parent),
                os.environ["PATH"],
            ]
        )
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command],
            cwd=self.root,
            env={**os.environ, "PATH": path},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=600,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout

    def repro(self, *args: str) -> tuple[set[str], str]:
        """Run `dvc repro`; the stages whose command ran, and all that was printed."""
        self.write_params()
        said = self.shell(" ".join(["dvc repro", *args]))
        return set(re.findall(r"Running stage '([^']+)'", said)), said


def _write_data(raw: Path) -> None:
    (raw / "nltk_data").mkdir(parents=True)
    (raw / "texts.txt").write_text("\n".join(sentence(31 * i) for i in range(400)))
    for name, start in (("dev", 20_000), ("test", 30_000)):
        pairs = [
            f"{sentence(start + i)}\t{sentence(start + i + i % 7 * 300)}\t{7 - i % 7}" for i in range(60)
        ]
        (raw / f"{name}.tsv").write_text("\n".join(["sentence1\tsentence2\tscore", *pairs]))
    triplets = [f"{sentence(40_000 + i)}\t{sentence(40_001 + i)}" for i in range(40)]
    (raw / "triplets.tsv").write_text("\n".join(["anchor\tpositive", *triplets]))
