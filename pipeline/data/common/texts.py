"""Text sets: data/corpus/*.parquet, data/augmented/*.parquet and data/gated/*.parquet."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import combinations
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import ArrayLike, NDArray

from pipeline.core import memory
from pipeline.core.errors import UserError
from pipeline.data.common.files.tables import (
    Range,
    Schema,
    check_table,
    lies,
    read_table,
    readable,
    table_writer,
)
from pipeline.params.base import ROLES

IDENTITY = {"text_id": pl.UInt64, "text": pl.String, "role": pl.String}
"""What every text set has: the id is `text_id` of the text, by `in_role` in its role."""
LABELLED_SCHEMA = IDENTITY
"""corpus/eval.parquet and corpus/finetune.parquet: the texts that the pairs name; role is a `Role`.
augmented/transfer.parquet: those that the rows of the transfer set name."""
CORPUS_SCHEMA = {**LABELLED_SCHEMA, "source": pl.String, "split": pl.String}
"""corpus/corpus.parquet: unlabelled texts; split is train or dev."""
AUGMENTED_SCHEMA = {**LABELLED_SCHEMA, "parent_id": pl.UInt64, "method": pl.String}
"""augmented/METHOD.parquet: parent_id is the corpus text's text_id, whose role the new text has."""
GATED_SCHEMA = {**AUGMENTED_SCHEMA, "similarity": pl.Float32}
"""gated/METHOD.parquet: similarity is the teacher's cosine to the parent; null where there is no gate."""
SAMPLE_SCHEMA = {"parent": pl.String, "text": pl.String, "similarity": pl.Float32, "dropped": pl.String}
"""gated_sample/METHOD.parquet: some texts beside their parents; dropped is why, null for a kept text."""

TRANSFER = "transfer"
"""The text set, and the stage, of the transfer set."""
ROWS_AT_A_TIME = 65_536
IDS_AT_A_TIME = 1 << 20
UNSPACED = r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}&&\p{L}]"
"""A letter of a script that is written without spaces."""
WORD = rf"[^ \p{{L}}\p{{N}}]*{UNSPACED}[^ \p{{L}}\p{{N}}]*|[^ {UNSPACED}]+"
"""A word of a normalised text: such a letter with the marks and punctuation around it, or what else stands
between spaces."""
ACCENT = r"[\p{Inherited}\p{Greek}\p{Cyrillic}\p{Hebrew}\p{Arabic}&&\p{Mn}--[\u{3099}\u{309A}]]"
"""A mark that a letter may do without. Inherited are those of no one script, as the acute and the diaeresis;
U+3099 and U+309A voice kana."""


def text_id(text: str) -> int:
    """64-bit content hash of a text: its identity in every artifact, where its role is `text`."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


def text_ids(texts: Iterable[str]) -> NDArray[np.uint64]:
    """`text_id` of each text, (n,)."""
    return np.array([text_id(text) for text in texts], np.uint64)


def in_role(ids: NDArray[np.uint64], roles: ArrayLike) -> NDArray[np.uint64]:
    """The ids (n,) of texts in these roles (n,), or in one, from those of the texts alone; and back again.

    So one text in two roles has two ids and two vectors, and its own hash is never lost.
    """
    names, which = np.unique(roles, return_inverse=True)
    masks = [0 if name == "text" else text_id(f"role {name}") for name in names]
    return ids ^ np.array(masks, np.uint64)[which]


def first_of_same(ids: NDArray[np.uint64]) -> NDArray[np.int64]:
    """For each of the ascending ids (n,) the first row of the same text in any role: mostly its own."""
    first = np.arange(len(ids))
    masks = in_role(np.zeros(len(ROLES), np.uint64), ROLES)
    for one, other in combinations(masks, 2):
        for start in range(0, len(ids), IDS_AT_A_TIME):
            sought = ids[start : start + IDS_AT_A_TIME] ^ one ^ other
            order = np.argsort(sought)
            at = np.minimum(np.searchsorted(ids, sought[order]), len(ids) - 1)
            known = ids[at] == sought[order]
            rows = start + order[known]
            first[rows] = np.minimum(first[rows], at[known])
    return first


def fold(texts: pl.Series) -> pl.Series:
    """Normalised texts without case, accents and punctuation, for comparison.

    Accents are the marks of Latin, Greek and Cyrillic letters, and the vowel points of Hebrew and Arabic.
    Others make another letter and stay: those that voice kana, the vowel signs of Thai and Devanagari.
    A text of nothing but punctuation is its own folded form, so that two such texts are not taken for equal.
    """
    folded = (
        # Upper case first, as one small letter can be two capitals: ß is SS.
        texts.str.to_uppercase()
        .str.to_lowercase()
        .str.normalize("NFKD")
        .str.replace_all(f"{ACCENT}+", "")
        .str.replace_all(r"[^\p{L}\p{N}\p{M}]+", " ")
        .str.strip_chars(" ")
    )
    return folded.zip_with(folded != "", texts)


class HeldOut:
    """A set of texts, 8 bytes each, in which others are looked for: hashes of their folded forms."""

    def __init__(self, texts: Iterable[pl.Series]) -> None:
        hashes = [fold(part).hash().unique().to_numpy() for part in texts]
        self._hashes = np.unique(np.concatenate([np.empty(0, np.uint64), *hashes]))

    def has(self, texts: pl.Series) -> pl.Series:
        """Whether each text is in the set but for case, accents and punctuation."""
        hashes = fold(texts).hash().to_numpy()
        first, after = (np.searchsorted(self._hashes, hashes, side) for side in ("left", "right"))
        return pl.Series(after > first, dtype=pl.Boolean)


def read_corpus(path: Path) -> pl.DataFrame:
    """Read corpus/corpus.parquet, sorted by text_id."""
    return _checked(read_table(path, CORPUS_SCHEMA, "prepare"), path, "prepare")


def read_labelled(path: Path) -> pl.DataFrame:
    """Read corpus/eval.parquet, corpus/finetune.parquet or augmented/transfer.parquet, sorted by text_id."""
    stage = TRANSFER if path.stem == TRANSFER else "prepare"
    return _checked(read_table(path, LABELLED_SCHEMA, stage), path, stage)


def labelled(path: Path, prompts: Mapping[str, str]) -> Iterator[pl.DataFrame]:
    """The rows of the same files, some at a time, checked alike; each text after the prompt of its role."""
    check_table(path, LABELLED_SCHEMA, "prepare")
    return (with_prompts(part, prompts) for part in parts(path, LABELLED_SCHEMA))


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
    _check_order(found, path, stage)
    return found


def roles(path: Path, start: int, stop: int) -> NDArray[np.str_]:
    """The roles (n,) of rows `start` to `stop` of any text set."""
    with readable(path, _columns(path, None)[0]):
        rows = pl.scan_parquet(path).select("role").slice(start, stop - start).collect()
    return rows["role"].to_numpy().astype(np.str_)


def read_slice(path: Path, start: int, stop: int) -> list[str]:
    """The texts of rows `start` to `stop` of any text set; the others are not kept in memory."""
    stage, _ = _columns(path, None)
    with readable(path, stage):
        table = pl.scan_parquet(path).select(*IDENTITY).slice(start, stop - start).collect()
    return _checked_texts(table, path, stage)["text"].to_list()


def stream(path: Path, split: str | None, prompts: Mapping[str, str] | None = None) -> Iterator[list[str]]:
    """The texts of the same rows, in the same order, some at a time, each after the prompt of its role."""
    stage, schema = _columns(path, split)
    for batch in _stream(path, {**IDENTITY, **schema}, split, stage):
        table = _checked_texts(pl.DataFrame(pl.from_arrow(batch)), path, stage)
        yield with_prompts(table, prompts or {})["text"].to_list()


def parts(path: Path, schema: Schema) -> Iterator[pl.DataFrame]:
    """The rows of a text set, ROWS_AT_A_TIME at a time, with the columns of `schema`; as `read_corpus`."""
    stage, _ = _columns(path, None)
    last = np.empty(0, np.uint64)
    for batch in _stream(path, schema, None, stage):
        table = _checked(pl.DataFrame(pl.from_arrow(batch)), path, stage)
        first = table["text_id"].to_numpy()[:1]
        _check_order(np.concatenate([last, first]), path, stage)
        last = table["text_id"].to_numpy()[-1:]
        yield table


def head(path: Path, split: str, count: int) -> pl.DataFrame:
    """The first `count` rows of a split, `LABELLED_SCHEMA`; those after them are not read."""
    stage, chosen_by = _columns(path, split)
    found = pl.DataFrame(schema=LABELLED_SCHEMA)
    for batch in _stream(path, {**LABELLED_SCHEMA, **chosen_by}, split, stage):
        found.extend(pl.DataFrame(pl.from_arrow(batch)).select(*LABELLED_SCHEMA))
        if len(found) >= count:
            break
    return _checked(found.head(count), path, stage)


def within(path: Path, among: Range) -> pl.DataFrame:
    """text_id and text of a text set's rows in a range of ids; the others are not kept in memory."""
    with readable(path, _columns(path, None)[0]):
        return pl.scan_parquet(path, glob=False).select("text_id", "text").filter(lies(among)).collect()


def _stream(path: Path, schema: Schema, split: str | None, stage: str) -> Iterator[pa.RecordBatch]:
    """Some rows at a time of these columns."""
    check_table(path, schema, stage, exact=False)
    # With the buffer, which is pyarrow's default, all row groups that were read stay in memory to the end.
    with readable(path, stage), pq.ParquetFile(path, pre_buffer=False) as file:
        for batch in file.iter_batches(memory.at_a_time(ROWS_AT_A_TIME), columns=list(schema)):
            batch.validate(full=True)  # polars panics at a text that is not UTF-8
            yield batch if split is None else batch.filter(pc.equal(batch["split"], split))


def _columns(path: Path, split: str | None) -> tuple[str, dict[str, type[pl.DataType]]]:
    """The stage that writes a text set, and the columns that choose its rows."""
    if split is not None:
        return "prepare", {"split": pl.String}
    if path.stem == TRANSFER:
        return TRANSFER, {}
    stage = {"augmented": "augment", "gated": "gate"}.get(path.parent.name)
    return f"{stage}@{path.stem}" if stage else "prepare", {}


def with_prompts(table: pl.DataFrame, prompts: Mapping[str, str]) -> pl.DataFrame:
    """A text set with each text after the prompt of its role."""
    before = pl.col("role").replace_strict(prompts, default="", return_dtype=pl.String)
    return table.with_columns(pl.concat_str(before, "text").alias("text"))


def write(texts: pl.DataFrame, schema: dict[str, type[pl.DataType]], path: Path) -> None:
    """Write a text set with `schema`, sorted by text_id; without a column `role`, the role is `text`.

    Raises:
        UserError: two rows have one text_id.
    """
    with writer(schema, path) as put:
        put(texts.sort("text_id"))


@contextmanager
def writer(schema: dict[str, type[pl.DataType]], path: Path) -> Iterator[Callable[[pl.DataFrame], None]]:
    """Yield what takes the rows of a text set, some at a time, in the order of their ids; as `write`."""
    last = -1
    with table_writer(schema, path) as put:

        def checked(texts: pl.DataFrame) -> None:
            nonlocal last
            if texts.is_empty():
                return
            if "role" not in texts.columns:
                texts = texts.with_columns(role=pl.lit("text"))
            put(_checked(texts, path, "prepare"))
            if texts["text_id"][0] <= last:
                raise ValueError(f"{path}: texts are given out of the order of their ids")
            last = texts["text_id"][-1]

        yield checked


def _checked(texts: pl.DataFrame, path: Path, stage: str) -> pl.DataFrame:
    _check_order(texts["text_id"].to_numpy(), path, stage)
    return _checked_texts(texts, path, stage)


def _checked_texts(texts: pl.DataFrame, path: Path, stage: str) -> pl.DataFrame:
    """Fail where an id is not that of its text in its role: rows were mixed up."""
    ids = texts["text_id"].to_numpy()
    wrong = ids[in_role(text_ids(texts["text"]), texts["role"].to_numpy()) != ids]
    if len(wrong):
        raise UserError(
            f"{path}: {len(wrong):,} texts have the text_id of another text, the first {wrong[0]}; "
            f"run `dvc repro -f {stage}`"
        )
    return texts


def _check_order(ids: NDArray[np.uint64], path: Path, stage: str) -> None:
    """Fail unless they ascend."""
    if (ids[1:] > ids[:-1]).all():
        return
    series = pl.Series(ids)
    if len(duplicated := series.filter(series.is_duplicated())):
        raise UserError(f"{path}: two texts have the text_id {duplicated[0]}; run `dvc repro -f {stage}`")
    raise UserError(f"{path} is not sorted by text_id; run `dvc repro -f {stage}`")
