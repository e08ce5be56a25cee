"""`pipeline inspect` shows the texts of tasks, triplets and mined negatives."""

from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from pipeline.cli.__main__ import app
from pipeline.data.common import texts
from pipeline.data.common.texts import text_id
from pipeline.tasks import pairs


def keep(path: Path, *named: str) -> None:
    ids = pl.Series([text_id(text) for text in named], dtype=pl.UInt64)
    texts.write(pl.DataFrame({"text_id": ids, "text": named}), texts.LABELLED_SCHEMA, path)


def inspect(path: Path) -> str:
    result = CliRunner().invoke(app, ["inspect", str(path)])
    assert result.exit_code == 0, result.stderr
    return result.stdout


@pytest.mark.parametrize(
    ("rows", "known"),
    [
        ("corpus/triplets.parquet", "corpus/finetune.parquet"),
        ("mined/triplets.parquet", "corpus/finetune.parquet"),
        ("corpus/tasks.parquet", "corpus/eval.parquet"),
        ("corpus/dev/tasks.parquet", "corpus/dev/texts.parquet"),
    ],
)
def test_texts_stand_where_the_ids_are(tmp_path, rows, known):
    names = ["an anchor", "its positive", "one negative", "another negative"]
    ids = [text_id(name) for name in names]
    columns = {"left_id": ids[:1], "right_id": ids[1:2], "negative_ids": [ids[2:]]}
    pairs.write(pairs.make("mine", "train", columns), tmp_path / rows)
    keep(tmp_path / known, *names)
    said = inspect(tmp_path / rows)
    assert [name for name in names if name not in said.replace("\n", " ")] == []
    assert str(ids[0]) not in said


def test_every_task_is_shown_and_an_unknown_text_by_its_id(tmp_path):
    ids = [text_id(name) for name in ("known", "gone")]
    table = pl.concat(
        [
            pairs.make(task, "test", {"left_id": ids[:1] * 9, "right_id": ids[1:] * 9, "score": [1.0] * 9})
            for task in ("first", "second")
        ]
    )
    pairs.write(table, tmp_path / "tasks.parquet")
    keep(tmp_path / "eval.parquet", "known")
    said = inspect(tmp_path / "tasks.parquet")
    assert all(word in said for word in ("first", "second", "known", str(ids[1])))
