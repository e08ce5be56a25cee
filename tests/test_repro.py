"""A real `dvc repro` on the hashing teacher, in a copy of the repository: what runs, and what does not."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML

PARAMS = {
    "teacher": {"kind": "hashing", "dim": 32},
    "corpus": {
        "sources": [{"kind": "files", "path": "data/raw/texts.txt"}],
        "dev_fraction": 0.1,
    },
    "augment": {"wordnet": {"enabled": False}},
    "encode": {"views": ["sentence", "token_mean"]},
    "pca": {"centre": True},
    "finetune": {"data": {"mine": {"kind": "triplets", "path": "data/raw/triplets.tsv"}}},
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
    "evaluate": {
        "tasks": {
            "similar": {"kind": "sts", "path": "data/raw/dev.tsv", "split": "dev"},
            "alike": {"kind": "sts", "path": "data/raw/test.tsv"},
        }
    },
    "footprint": {"sentences": 8, "rounds": 1, "single": 2},
}
WORDS = "red green blue small large old new dog cat bird car tree house river sings runs sleeps".split()
ALL_STAGES = {
    "prepare",
    "augment@wordnet",
    "encode@seed",
    "encode@wordnet",
    "encode@eval",
    "teacher_parts",
    "fit_pca",
    *(f"{stage}@{name}" for stage in ("distill", "finetune", "evaluate") for name in ("hpd", "potion")),
    "footprint",
    "report",
}


def sentence(number: int) -> str:
    """Four words, another choice for every number below 17 ** 4."""
    return " ".join(WORDS[number // 17**place % 17] for place in range(4))


class Project:
    """A copy of the repository with small data and a DVC of its own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.params = json.loads(json.dumps(PARAMS))

    def repro(self, *args: str) -> tuple[set[str], str]:
        """Run `dvc repro`; the stages whose command ran, and all that was printed."""
        with (self.root / "params.yaml").open("w") as file:
            YAML().dump(self.params, file)
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            [sys.executable, "-m", "dvc", "repro", *args],
            cwd=self.root,
            env={**os.environ, "PATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            timeout=300,
        )
        said = done.stdout + done.stderr
        assert done.returncode == 0, said
        return set(re.findall(r"Running stage '([^']+)'", said)), said


@pytest.fixture(scope="module")
def project(repository, tmp_path_factory):
    """The copy, after its first `dvc repro`."""
    root = tmp_path_factory.mktemp("project")
    for name in ("dvc.yaml", ".dvcignore"):
        shutil.copy(repository / name, root / name)
    shutil.copytree(repository / "pipeline", root / "pipeline", ignore=shutil.ignore_patterns("__pycache__"))
    (root / ".dvc").mkdir()
    (root / ".dvc/config").write_text((repository / ".dvc/config").read_text() + "    no_scm = true\n")
    raw = root / "data/raw"
    (raw / "nltk_data").mkdir(parents=True)
    (raw / "texts.txt").write_text("\n".join(sentence(31 * i) for i in range(400)))
    for name, start in (("dev", 20_000), ("test", 30_000)):
        pairs = [
            f"{sentence(start + i)}\t{sentence(start + i + i % 7 * 300)}\t{7 - i % 7}" for i in range(60)
        ]
        (raw / f"{name}.tsv").write_text("\n".join(["sentence1\tsentence2\tscore", *pairs]))
    triplets = [f"{sentence(40_000 + i)}\t{sentence(40_001 + i)}" for i in range(40)]
    (raw / "triplets.tsv").write_text("\n".join(["anchor\tpositive", *triplets]))
    made = Project(root)
    ran, _ = made.repro()
    assert ran == ALL_STAGES
    return made


def test_the_first_run_ends_with_a_report_of_every_model(project):
    leaderboard = (project.root / "reports/leaderboard.md").read_text()
    for model in ("teacher", "hpd", "potion"):
        assert model in leaderboard
    page = (project.root / "reports/index.html").read_text()
    assert page.count("<svg") >= 3
    scores = json.loads((project.root / "reports/metrics/hpd.json").read_text())["scores"]
    assert set(scores) == {"teacher", "teacher_pca", "untrained", "distilled", "finetuned"}


def test_a_second_run_runs_nothing(project):
    ran, said = project.repro()
    assert ran == set(), said


def test_editing_a_student_reruns_its_stages_and_the_report(project):
    project.params["students"]["potion"]["train"]["lr"] = 2e-3
    ran, _ = project.repro()
    assert ran == {"distill@potion", "finetune@potion", "evaluate@potion", "footprint", "report"}


def test_editing_the_fine_tuning_keeps_the_distilled_student(project):
    project.params["students"]["hpd"]["finetune"]["temperature"] = 0.1
    ran, _ = project.repro("finetune@hpd")
    assert ran == {"finetune@hpd"}


def test_another_teacher_and_back_encodes_nothing_twice(project):
    sets = ("encode@seed", "encode@wordnet", "encode@eval")
    before = published(project.root)
    project.params["teacher"]["seed"] = 1
    ran, said = project.repro(*sets)
    assert ran == set(sets)
    assert "encode seed: 400 encoded, 0 taken from the store" in said
    assert published(project.root) != before

    del project.params["teacher"]["seed"]
    # DVC's run-cache would not even start the stage: without it, the store alone has to answer.
    ran, said = project.repro("--no-run-cache", *sets)
    assert ran == set(sets)
    assert "encode seed: 0 encoded, 400 taken from the store" in said
    assert published(project.root) == before
    ran, _ = project.repro(*sets)
    assert ran == set()


def test_a_grown_corpus_encodes_its_new_texts_alone(project):
    texts = project.root / "data/raw/texts.txt"
    texts.write_text("\n".join([texts.read_text(), *(sentence(50_000 + i) for i in range(5))]))
    _, said = project.repro("encode@seed")
    assert "encode seed: 5 encoded, 400 taken from the store" in said


def published(root: Path) -> dict[str, bytes]:
    """Every file of the published vectors."""
    files = (root / "data/vectors").rglob("*")
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in files if path.is_file()}
