"""The stage `export`, run on a student of each kind."""

import contextlib
import json
import shutil
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from exported_students import BLOCKS, COMPARED
from ruamel.yaml import YAML
from small_params import small_params
from small_students import TEXTS, targets

from pipeline.core.registry import implementation
from pipeline.data.common import texts
from pipeline.data.common.files import metrics
from pipeline.data.common.texts import text_id
from pipeline.data.student import student_folder
from pipeline.export import export as stage
from pipeline.look import model_cards
from pipeline.params.load import check
from pipeline.tasks import pairs

Metrics = dict[str, Any]


def run_stage(
    parts: Path,
    kind: str,
    teacher: Path | None = None,
    source: dict[str, str] | None = None,
    prompts: dict[str, str] | None = None,
    **export: object,
) -> Metrics:
    """Run the stage on a student of a kind in the working folder; the metrics."""
    block = BLOCKS[kind]
    made = implementation("train.students.kinds", kind).build(block, parts)
    made.fit_projection(made.tokenise(TEXTS), targets())
    student_folder.write(made, "the student's own card", Path("finetuned"), prompts)
    tasks = {
        "alike": {"kind": "sts", "path": "dev.tsv", "split": "dev"},
        "reported": {"kind": "sts", "path": "test.tsv"},
    }
    whole = small_params(
        students={"tiny": block.model_dump(mode="json")}, evaluate={"tasks": tasks}, export=export
    )
    whole["corpus"]["sources"][0] |= source or {}
    if teacher:
        whole["teacher"] = {"kind": "transformer", "model": str(teacher)}
    YAML().dump(whole, Path("params.yaml"))
    named = sorted({*TEXTS, *COMPARED})
    ids = pl.Series([text_id(text) for text in named], dtype=pl.UInt64)
    table = pl.DataFrame({"text_id": ids, "text": named})
    texts.write(table, texts.LABELLED_SCHEMA, Path("eval.parquet"))
    rows = [(TEXTS[one], TEXTS[two]) for one in range(8) for two in range(one)]
    # Scored by the student itself, so that the score is positive.
    left, right = (
        student_folder.read(Path("finetuned"), "x").encode(list(side)) for side in zip(*rows, strict=True)
    )
    scores = (left * right).sum(1) / np.linalg.norm(left, axis=1) / np.linalg.norm(right, axis=1)
    columns = {
        "left_id": [text_id(row[0]) for row in rows],
        "right_id": [text_id(row[1]) for row in rows],
        "score": np.round(scores, 2).tolist(),
    }
    pairs.write(pairs.make("alike", "dev", columns), Path("tasks.parquet"))
    found = {"alike": {"spearman": 0.5}}
    report = {
        "ships": "distilled",
        "dim": 8,
        "main": {"alike": "spearman"},
        "builtin": [],
        "scores": {"teacher": {"alike": {"spearman": 0.625}}, "distilled": found, "finetuned": found},
        "retention": {"finetuned": 0.8},
    }
    metrics.write(report, Path("scores.json"))
    model_cards.write(check(whole, Path("params.yaml")), Path("cards"))
    counted = {"rows_in": 9, "rows": 8, "files": [], "datasets": []}
    metrics.write({"origins": {"corpus.sources.0": counted}, "tables": {}}, Path("origins.json"))
    stage.main(
        "tiny",
        finetuned=Path("finetuned"),
        tasks=Path("tasks.parquet"),
        eval_texts=Path("eval.parquet"),
        scores=Path("scores.json"),
        cards=Path("cards"),
        origins_file=Path("origins.json"),
        pca_folder=Path("pca"),
        teacher_view="sentence",
        out=Path("out"),
        metrics_file=Path("metrics.json"),
    )
    return json.loads(Path("metrics.json").read_text())


@pytest.fixture
def work(tmp_path: Path, parts: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Metrics]:
    """Run the stage on a student of a kind in a folder of its own; the metrics."""
    monkeypatch.chdir(tmp_path)
    return partial(run_stage, parts)


@pytest.fixture(scope="session")
def usual(parts: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder in which the stage ran on a student of a kind, once, without any settings."""

    @cache
    def of(kind: str) -> Path:
        folder = tmp_path_factory.mktemp(kind)
        with contextlib.chdir(folder):
            run_stage(parts, kind)
        return folder

    return of


@pytest.fixture
def ran(
    usual: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], Metrics]:
    """What `work` does without settings, as a copy of what was made once."""
    monkeypatch.chdir(tmp_path)

    def of(kind: str) -> Metrics:
        shutil.copytree(usual(kind), tmp_path, dirs_exist_ok=True)
        return json.loads(Path("metrics.json").read_text())

    return of
