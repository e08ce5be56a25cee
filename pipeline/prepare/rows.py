"""The rows of one source as texts: normalised, cut or joined, some at a time."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import polars as pl

from pipeline.data.common.texts import WORD
from pipeline.params.base import Role
from pipeline.params.corpus import Corpus
from pipeline.prepare.documents import Cut, passages, sentences
from pipeline.prepare.folded import FoldedTexts, with_hash
from pipeline.prepare.shared.cleaning import JOINED, ids, normalise

PROVENANCE_SCHEMA = {
    "text_id": pl.UInt64,
    "source": pl.String,
    "file": pl.String,
    "row": pl.Int64,
    "part": pl.Int64,
}
"""corpus/provenance.parquet: where a text is first found. `file` is null where a source has no files, `row`
counts the rows of the file from 1 (of joined rows it is the first), `part` the texts of a document that is
split."""
ROWS_SCHEMA = {"text": pl.String, "role": pl.String, **PROVENANCE_SCHEMA}


@dataclass(frozen=True)
class Rows:
    """Some successive rows of one file, or of a source without files."""

    texts: pl.Series
    """As read; null is a missing text."""
    file: str | None = None
    """Its name."""
    begins: bool = False
    """Whether they are the first of a file."""


@dataclass(frozen=True)
class SourceTexts:
    """The raw texts of one source."""

    name: str
    """Goes into the corpus's `source` column."""
    rows: Iterable[Rows]
    """Of the files in turn; they are read as they are asked for."""
    limit: int | None
    """Keep this many, chosen by hash."""
    joined: int = 1
    """So many successive texts of a file become one; an empty one between them ends it."""
    cut: Cut | None = None
    """How documents are cut; None: a row is a text."""
    role: Role = "text"


@dataclass
class Told:
    """Counts of a source's rows."""

    rows_in: int = 0
    added: int = 0
    """How many more texts than rows there are, since documents are cut."""
    dropped: Counter[str] = field(default_factory=Counter)
    """Rows by reason."""

    def keep(self, reason: str, table: pl.DataFrame, kept: pl.DataFrame) -> pl.DataFrame:
        """What is kept of a table, the rest being counted."""
        self.dropped[reason] += len(table) - len(kept)
        return kept


def texts_of(
    source: SourceTexts, params: Corpus, held_out: FoldedTexts, told: Told
) -> Iterator[pl.DataFrame]:
    """Texts of the right length, by `ROWS_SCHEMA`, some at a time; equal ones are not looked for.

    Args:
        source: the source.
        params: the lengths.
        held_out: evaluation texts, none of which is joined to another text or goes into a passage.
        told: counts what is read and dropped.
    """
    words = pl.col("text").str.count_matches(WORD)
    for file, table in _tables(source, held_out, told):
        part = pl.int_range(pl.len()).over("document") + 1 if source.cut else pl.lit(None)
        table = table.with_columns(part.alias("part"))
        found = told.keep("empty", table, table.filter(pl.col("text") != ""))
        found = told.keep("too_few_words", found, found.filter(words >= params.min_words))
        if not (source.cut and source.cut.pack):
            found = told.keep("too_many_words", found, found.filter(words <= params.max_words))
            short = pl.col("text").str.len_chars() <= params.max_chars
            found = told.keep("too_many_chars", found, found.filter(short))
        columns = {"role": source.role, "source": source.name, "file": file}
        named = found.with_columns(
            ids(found["text"], source.role),
            (pl.col("document") + 1).alias("row"),
            **{name: pl.lit(value, pl.String) for name, value in columns.items()},
        )
        yield named.select(pl.col(name).cast(kind) for name, kind in ROWS_SCHEMA.items())


def _tables(
    source: SourceTexts, held_out: FoldedTexts, told: Told
) -> Iterator[tuple[str | None, pl.DataFrame]]:
    """The texts of a file's rows, joined or cut, and in `document` their row's number in the file from 0."""
    before, joiner = 0, _Joiner(source.joined)
    file: str | None = None
    for rows in source.rows:
        if rows.begins:
            if source.joined > 1:
                yield file, joiner.rest(told)
            before, file = 0, rows.file
        table = pl.DataFrame(
            {"document": pl.int_range(before, before + len(rows.texts), eager=True), "text": rows.texts}
        )
        before += len(table)
        told.rows_in += len(table)
        if source.cut:
            yield file, _cut(table, source.cut, held_out, told)
            continue
        table = table.with_columns(normalise(table["text"]).fill_null(""))
        yield file, joiner.joined(table, held_out, told) if source.joined > 1 else table
    if source.joined > 1:
        yield file, joiner.rest(told)


def _cut(table: pl.DataFrame, cut: Cut, held_out: FoldedTexts, told: Told) -> pl.DataFrame:
    """The sentences or passages of documents."""
    found = sentences(table, cut.language)
    told.added += len(found) - len(table)
    if not cut.pack:
        return found
    found = _clean(found, held_out, told)
    packed = passages(found, cut.pack)
    told.added += len(packed) - len(found)
    return packed


def _clean(table: pl.DataFrame, held_out: FoldedTexts, told: Told) -> pl.DataFrame:
    """Without empty texts and those of evaluation."""
    filled = told.keep("empty", table, table.filter(pl.col("text") != ""))
    return told.keep("evaluation_text", filled, filled.filter(~held_out.has(with_hash(filled))))


class _Joiner:
    """Joins every `count` successive texts of a file's block, the last ones of it too.

    The texts that do not make a whole one yet wait for those that follow.
    """

    def __init__(self, count: int) -> None:
        self._count, self._block = count, 0
        self._waiting: list[pl.DataFrame] = []

    def joined(self, table: pl.DataFrame, held_out: FoldedTexts, told: Told) -> pl.DataFrame:
        """What can be joined of the next texts."""
        block = (pl.col("text") == "").cum_sum().cast(pl.Int64) + self._block
        table = table.with_columns(block.alias("block"))
        self._block = table["block"][-1]
        table = pl.concat([*self._waiting, _clean(table, held_out, told)])
        surplus = int((table["block"] == self._block).sum()) % self._count
        self._waiting = [table[len(table) - surplus :]]
        return self._join(table[: len(table) - surplus], told)

    def rest(self, told: Told) -> pl.DataFrame:
        """What is left at the end of a file."""
        table = pl.concat(self._waiting) if self._waiting else pl.DataFrame(schema=_BLOCKS)
        self._waiting = []
        return self._join(table, told)

    def _join(self, table: pl.DataFrame, told: Told) -> pl.DataFrame:
        part = (pl.int_range(pl.len()).over("block") // self._count).alias("part")
        groups = table.group_by("block", part, maintain_order=True)
        found = groups.agg(pl.col("text").str.join(" "), pl.col("document").first())
        return told.keep(JOINED, table, found.select("document", "text"))


_BLOCKS = {"document": pl.Int64, "text": pl.String, "block": pl.Int64}
