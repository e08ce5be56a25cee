"""Runs of the stage `distill` on a small corpus: in this process, and in processes that are killed."""

import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from ruamel.yaml import YAML
from small_corpus import DEV, write_corpus
from small_corpus import TRAIN as TRAIN_TEXTS
from small_params import small_params
from small_students import write_facts, write_parts

from pipeline.core.errors import report_user_errors
from pipeline.train.distillation.distill import main
from pipeline.train.distillation.distillation import Distillation
from pipeline.train.loop import data
from pipeline.train.loop.objective import Step
from pipeline.train.students.kinds import static, transformer  # noqa: F401 (so that a forked process has them)

INPUTS = {"corpus": "data/corpus.parquet", "gated": "data", "vectors": "data", "pca": "data"}
OUTS = {"out": "distilled", "untrained": "untrained", "curve": "curve.tsv", "metrics_file": "metrics.json"}
TRAIN = {"texts": ["corpus", "wordnet"], "epochs": 3, "batch_size": 6, "lr": 0.01, "evaluations": 3}

WORDS = sorted({word for text in TRAIN_TEXTS + DEV for word in text.lower().split()})
WORD_VECTORS = dict(
    zip(WORDS, np.random.default_rng(0).standard_normal((len(WORDS), 8)).round(3).tolist(), strict=True)
)
"""Of words.txt, for students that start from a file."""


def write_project(folder: Path, student: dict[str, Any] | None = None, **train: Any) -> None:
    """Inputs and params of a student in a folder."""
    folder.mkdir(exist_ok=True)
    (folder / "data").mkdir()
    (folder / "teacher").mkdir()
    write_corpus(folder / "data")
    write_parts(folder / "teacher")
    write_facts(folder / "facts.json")
    (folder / "words.txt").write_text(
        "".join(f"{word} {' '.join(map(str, numbers))}\n" for word, numbers in WORD_VECTORS.items())
    )
    (folder / "list.txt").write_text("\n".join([*WORDS, "a cat"]))
    tiny = small_params()["students"]["tiny"] | (student or {})
    if tiny["train"] is not None:
        tiny["train"] = {**TRAIN, **train}
    params = small_params(students={"tiny": tiny})
    with (folder / "params.yaml").open("w") as file:
        YAML().dump(params, file)


def distill() -> None:
    """Run the stage in the working folder."""
    inputs = {name: Path(path) for name, path in INPUTS.items()}
    main(
        "tiny",
        teacher=Path("teacher"),
        facts=Path("facts.json"),
        vocabulary=Path("teacher"),
        **inputs,
        **{name: Path(path) for name, path in OUTS.items()},
    )


def made(folder: Path) -> dict[str, bytes]:
    """What the stage has made, but for how fast it was."""
    files = [file for name in OUTS.values() for file in (folder / name, *(folder / name).rglob("*"))]
    found = {str(file.relative_to(folder)): file.read_bytes() for file in files if file.is_file()}
    if "curve.tsv" in found:
        lines = found["curve.tsv"].decode().splitlines()
        assert lines[0].endswith("\texamples_per_second")
        found["curve.tsv"] = "\n".join(line.rpartition("\t")[0] for line in lines).encode()
    return found


def kept(folder: Path) -> list[str]:
    """What interrupted trainings have left in the cache."""
    return sorted(str(path.relative_to(folder)) for path in (folder / ".cache").glob("training/*"))


def run_slowly(folder: Path, log: Path, seconds: float) -> None:
    """In a process of its own: the stage, saving its state after every step, and noting what it does."""
    os.chdir(folder)
    torch.set_num_threads(1)
    sys.stderr = (folder / "stderr").open("a")
    write, backward, run = data._append, Step.backward, Distillation.run

    def note(what: str) -> None:
        with log.open("a") as file:
            file.write(f"{what}\n")
        time.sleep(seconds)

    def slow_write(array: Any, file: Any) -> None:
        note("file")
        write(array, file)

    def slow_backward(self: Step, rows: Any) -> dict[str, float]:
        note("step")
        return backward(self, rows)

    data._append, Step.backward = slow_write, slow_backward
    Distillation.run = lambda self, name, checkpoint, _seconds: run(self, name, checkpoint, 0)
    report_user_errors(distill)()


def noted(log: Path) -> list[str]:
    """What a run has noted."""
    return log.read_text().split() if log.exists() else []
