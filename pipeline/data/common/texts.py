"""Text sets: data/corpus/*.parquet, data/augmented/*.parquet and data/gated/*.parquet."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pipeline.core.errors import UserError
from pipeline.data.common.tables import Schema, check_table, read_table, readable, write_table

CORPUS_SCHEMA = {"text_id": pl.UInt64, "text": pl.String, "source": pl.String, "split": pl.String}
"""corpus/corpus.parquet: unlabelled texts; split is train or dev."""
LABELLED_SCHEMA = {"text_id": pl.UInt64, "text": pl.String}
"""corpus/eval.parquet and corpus/finetune.parquet: the texts that the pairs name."""
AUGMENTED_SCHEMA = {"text_id": pl.UInt64, "parent_id": pl.UInt64, "text": pl.String, "method": pl.String}
"""augmented/METHOD.parquet: parent_id is the corpus text's text_id."""
GATED_SCHEMA = {**AUGMENTED_SCHEMA, "similarity": pl.Float32}
"""gated/METHOD.parquet: similarity is the teacher's cosine to the parent; null where there is no gate."""
SAMPLE_SCHEMA = {"parent": pl.String, "text": pl.String, "similarity": pl.Float32, "dropped": pl.String}
"""gated_sample/METHOD.parquet: some texts beside their parents; dropped is why, null for a kept text."""

ROWS_AT_A_TIME = 65_536


def text_id(text: str) -> int:
    """64-bit content hash of a text: its identity in every artifact."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


def read_corpus(path: Path) -> pl.DataFrame:
    """Read corpus/corpus.parquet, sorted by text_id."""
    return _checked(read_table(path, CORPUS_SCHEMA, "prepare"), path, "prepare")


def read_labelled(path: Path) -> pl.DataFrame:
    """Read corpus/eval.parquet or corpus/finetune.parquet, sorted by text_id."""
    return _checked(read_table(path, LABELLED_SCHEMA, "prepare"), path, "prepare")


def read_augmented(path: Path) -> pl.DataFrame:
    """Read augmented/METHOD.parquet, sorted by text_id."""
    stage = f"augment@{path.stem}"
    return _checked(read_table(path, AUGMENTED_SCHEMA, stage), path, stage)


def read_sample(path: Path) -> pl.DataFrame:
    """Read gated_sample/METHOD.parquet."""
    return read_table(path, SAMPLE_SCHEMA, f"gate@{path.stem}")


def ids(path: Path, split: str | None) -> NDArray[np.uint64]:
    """Ascending ids (n,) of a text set's rows, or of those of one split."""
    stage, schema = _columns(path, split)
    batches = _stream(path, {"text_id": pl.UInt64, **schema}, split, stage)
    parts = [batch["text_id"].to_numpy() for batch in batches]
    found = np.concatenate([np.empty(0, np.uint64), *parts])
    _check_ids(found, path, stage)
    return found


def read_slice(path: Path, start: int, stop: int) -> list[str]:
    """The texts of rows `start` to `stop` of any text set; the others are not kept in memory."""
    with readable(path, _columns(path, None)[0]):
        return pl.scan_parquet(path).select("text").slice(start, stop - start).collect()["text"].to_list()


def stream(path: Path, split: str | None) -> Iterator[list[str]]:
    """The texts of the same rows, in the same order, some at a time."""
    stage, schema = _columns(path, split)
    for batch in _stream(path, {"text": pl.String, **schema}, split, stage):
        yield batch["text"].to_pylist()


def _stream(path: Path, schema: Schema, split: str | None, stage: str) -> Iterator[pa.RecordBatch]:
    """Some rows at a time of these columns."""
    check_table(path, schema, stage, exact=False)
    with readable(path, stage), pq.ParquetFile(path) as file:
        for batch in file.iter_batches(ROWS_AT_A_TIME, columns=list(schema)):
            yield batch if split is None else batch.filter(pc.equal(batch["split"], split))


def _columns(path: Path, split: str | None) -> tuple[str, dict[str, type[pl.DataType]]]:
    """The stage that writes a text set, and the columns that choose its rows."""
    if split is not None:
        return "prepare", {"split": pl.String}
    stage = {"augmented": "augment", "gated": "gate"}.get(path.parent.name)
    return f"{stage}@{path.stem}" if stage else "prepare", {}


def write(texts: pl.DataFrame, schema: dict[str, type[pl.DataType]], path: Path) -> None:
    """Write a text set with `schema`, sorted by text_id.

    Raises:
        UserError: two rows have one text_id.
    """
    write_table(_checked(texts.sort("text_id"), path, "prepare"), schema, path)


def _checked(texts: pl.DataFrame, path: Path, stage: str) -> pl.DataFrame:
    _check_ids(texts["text_id"].to_numpy(), path, stage)
    return texts


def _check_ids(ids: NDArray[np.uint64], path: Path, stage: str) -> None:
    """Fail unless they ascend."""
    if (ids[1:] > ids[:-1]).all():
        return
    series = pl.Series(ids)
    if len(duplicated := series.filter(series.is_duplicated())):
        raise UserError(f"{path}: two texts have the text_id {duplicated[0]}; run `dvc repro -f {stage}`")
    raise UserError(f"{path} is not sorted by text_id; run `dvc repro -f {stage}`")
