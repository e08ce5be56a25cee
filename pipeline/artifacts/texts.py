"""Text sets: data/corpus/*.parquet and data/augmented/*.parquet."""

import hashlib
from pathlib import Path

import polars as pl

from pipeline.artifacts.tables import read_table, write_table
from pipeline.core.errors import UserError

SEED_SCHEMA = {"text_id": pl.UInt64, "text": pl.String, "source": pl.String, "split": pl.String}
"""corpus/seed.parquet: unlabelled texts; split is train or dev."""
LABELLED_SCHEMA = {"text_id": pl.UInt64, "text": pl.String}
"""corpus/eval.parquet and corpus/finetune.parquet: the texts that the pairs name."""
AUGMENTED_SCHEMA = {"text_id": pl.UInt64, "parent_id": pl.UInt64, "text": pl.String, "method": pl.String}
"""augmented/METHOD.parquet: parent_id is the seed text's text_id."""


def text_id(text: str) -> int:
    """64-bit content hash of a text: its identity in every artifact."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


def read_seed(path: Path) -> pl.DataFrame:
    """Read corpus/seed.parquet, sorted by text_id."""
    return _checked(read_table(path, SEED_SCHEMA, "prepare"), path, "prepare")


def read_labelled(path: Path) -> pl.DataFrame:
    """Read corpus/eval.parquet or corpus/finetune.parquet, sorted by text_id."""
    return _checked(read_table(path, LABELLED_SCHEMA, "prepare"), path, "prepare")


def read_augmented(path: Path) -> pl.DataFrame:
    """Read augmented/METHOD.parquet, sorted by text_id."""
    stage = f"augment@{path.stem}"
    return _checked(read_table(path, AUGMENTED_SCHEMA, stage), path, stage)


def read_any(path: Path) -> pl.DataFrame:
    """Read text_id and text of any text set, sorted by text_id."""
    stages = "prepare augment"
    return _checked(read_table(path, LABELLED_SCHEMA, stages, exact=False), path, stages)


def write(texts: pl.DataFrame, schema: dict[str, type[pl.DataType]], path: Path) -> None:
    """Write a text set with `schema`, sorted by text_id.

    Raises:
        UserError: two rows have one text_id.
    """
    write_table(_checked(texts.sort("text_id"), path, "prepare"), schema, path)


def _checked(texts: pl.DataFrame, path: Path, stage: str) -> pl.DataFrame:
    ids = texts["text_id"]
    if ids.n_unique() != len(ids):
        raise UserError(
            f"{path}: two texts have the text_id {ids.filter(ids.is_duplicated())[0]}; "
            f"run `dvc repro -f {stage}`"
        )
    if not ids.is_sorted():
        raise UserError(f"{path} is not sorted by text_id; run `dvc repro -f {stage}`")
    return texts
