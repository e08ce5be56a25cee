"""The corpus from its sources' texts: cleaned, deduplicated, filtered, decontaminated, split."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pipeline.core.errors import UserError
from pipeline.data.common.texts import CORPUS_SCHEMA, WORD, fold
from pipeline.params.base import Role
from pipeline.params.corpus import Corpus
from pipeline.prepare.documents import Cut, passages, sentences
from pipeline.prepare.sampling import keep_first, share
from pipeline.prepare.shared.cleaning import JOINED, LIMIT, check_ids, ids, normalise, say_loss

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


@dataclass(frozen=True)
class SourceTexts:
    """The raw texts of one source."""

    name: str
    """Goes into the corpus's `source` column."""
    texts: pl.Series
    """As read; null is a missing text."""
    limit: int | None
    """Keep this many, chosen by hash."""
    joined: int = 1
    """So many successive texts of a file become one; an empty one between them ends it."""
    lengths: tuple[int, ...] = ()
    """Rows of each file; (): there is one."""
    files: tuple[str, ...] = ()
    """Name of each file; (): the texts come from none."""
    cut: Cut | None = None
    """How documents are cut; None: a row is a text."""
    role: Role = "text"


@dataclass(frozen=True)
class Report:
    """What became of one source's rows.

    The sum of `rows_in` and `added_by_split` is that of `rows_out` and all that was dropped.
    """

    source: str
    rows_in: int
    rows_out: int
    dropped: dict[str, int]
    """Rows by reason."""
    added_by_split: int = 0
    """How many more texts than rows there are, since documents are cut."""


def build(
    sources: Iterable[SourceTexts], params: Corpus, held_out: pl.Series
) -> tuple[pl.DataFrame, list[Report]]:
    """Make the corpus.

    Args:
        sources: in the order of params: of equal texts the first is kept.
        params: limits and dev share.
        held_out: folded evaluation texts, which no text may equal.

    Returns:
        A table with the columns of `texts.CORPUS_SCHEMA` and of `PROVENANCE_SCHEMA`, and a report on every
        source.

    Raises:
        UserError: no text is left, or two different texts have one text_id.
    """
    corpus = pl.DataFrame(schema={"text": pl.String, "role": pl.String, **PROVENANCE_SCHEMA})
    reports = []
    for source in sources:
        texts, report = _filtered(source, corpus, params, held_out)
        corpus = pl.concat([corpus, texts])
        reports.append(report)
        say_loss(source.name, report.rows_in + report.added_by_split, report.dropped)
    if corpus.is_empty():
        raise UserError(
            f"the corpus is empty after filtering; {_describe(reports)}; see `corpus:` in params.yaml"
        )
    is_dev = share(corpus["text_id"], params.dev_fraction, "dev")
    folded = fold(corpus["text"])
    twins = ~is_dev & folded.is_in(folded.filter(is_dev).implode())
    reports = [
        _without(report, int(twins.filter(corpus["source"] == report.source).sum())) for report in reports
    ]
    split = pl.when("dev").then(pl.lit("dev")).otherwise(pl.lit("train")).alias("split")
    table = corpus.with_columns(is_dev.alias("dev")).filter(~twins).with_columns(split)
    return table.select({**CORPUS_SCHEMA, **PROVENANCE_SCHEMA}.keys()), reports


def _filtered(
    source: SourceTexts, corpus: pl.DataFrame, params: Corpus, held_out: pl.Series
) -> tuple[pl.DataFrame, Report]:
    """What is kept of one source, and the count of every reason for dropping the rest."""
    table = _rows(source)
    words = pl.col("text").str.count_matches(WORD)
    dropped: dict[str, int] = {}
    added = 0

    def keep(reason: str, kept: pl.DataFrame) -> pl.DataFrame:
        dropped[reason] = dropped.get(reason, 0) + len(table) - len(kept)
        return kept

    def filled() -> pl.DataFrame:
        return keep("empty", table.filter(pl.col("text") != ""))

    def unseen() -> pl.DataFrame:
        return keep("evaluation_text", table.filter(~fold(table["text"]).is_in(held_out.implode())))

    if source.joined > 1:
        of_file = pl.Series("file", _files(table, source)[0])
        table = table.with_columns(of_file, (pl.col("text") == "").cum_sum().alias("block"))
        table = filled()
        table = unseen()
        table = keep(JOINED, _joined(table, source.joined))
    if source.cut:
        added = len(table) - len(source.texts)
        if source.cut.pack:
            table = filled()
            table = unseen()
            packed = passages(table, source.cut.pack)
            added, table = added + len(packed) - len(table), packed
    table = _numbered(table, source)
    table = filled()
    table = keep("too_few_words", table.filter(words >= params.min_words))
    if not (source.cut and source.cut.pack):
        table = keep("too_many_words", table.filter(words <= params.max_words))
        table = keep("too_many_chars", table.filter(pl.col("text").str.len_chars() <= params.max_chars))
    table = keep("duplicate", table.unique("text", keep="first", maintain_order=True))
    table = table.with_columns(ids(table["text"], source.role), role=pl.lit(source.role))
    check_ids(pl.concat([corpus.select("text_id", "text"), table.select("text_id", "text")]))
    table = keep(
        "duplicate_of_earlier_source", table.join(corpus, on="text_id", how="anti", maintain_order="left")
    )
    table = unseen()
    table = keep(LIMIT, keep_first(table, "text_id", source.limit, "limit"))
    report = Report(
        source.name, len(source.texts), len(table), {k: n for k, n in dropped.items() if n}, added
    )
    return table.select("text", "role", *PROVENANCE_SCHEMA), report


def _rows(source: SourceTexts) -> pl.DataFrame:
    """A source's normalised texts, or the sentences of its documents, each with its row's number."""
    rows = pl.DataFrame({"text": source.texts}).with_row_index("document")
    if source.cut:
        return sentences(rows, source.cut.language)
    return rows.with_columns(normalise(rows["text"]).fill_null(""))


def _numbered(table: pl.DataFrame, source: SourceTexts) -> pl.DataFrame:
    """The texts with the columns of `PROVENANCE_SCHEMA` but for the id."""
    of_file, before = _files(table, source)
    part = pl.int_range(pl.len()).over("document") + 1 if source.cut else pl.lit(None)
    return table.with_columns(
        pl.lit(source.name).alias("source"),
        pl.Series("file", source.files or [None] * max(1, len(source.lengths)), dtype=pl.String)[of_file],
        (pl.col("document") - pl.Series(before) + 1).alias("row"),
        part.alias("part"),
    ).cast({name: kind for name, kind in PROVENANCE_SCHEMA.items() if name != "text_id"})


def _files(table: pl.DataFrame, source: SourceTexts) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Of each text the number of its file, and how many rows the files before that have."""
    starts = np.cumsum([0, *source.lengths[:-1]])
    of_file = np.searchsorted(starts, table["document"].to_numpy(), side="right") - 1
    return of_file, starts[of_file]


def _joined(table: pl.DataFrame, count: int) -> pl.DataFrame:
    """Every `count` successive texts of a file's block as one, the last ones of it too."""
    part = (pl.int_range(pl.len()).over("file", "block") // count).alias("part")
    groups = table.group_by("file", "block", part, maintain_order=True)
    return groups.agg(pl.col("text").str.join(" "), pl.col("document").first()).select("document", "text")


def _without(report: Report, twins: int) -> Report:
    """A source's report once its training texts are gone that are dev texts but for case and punctuation."""
    if not twins:
        return report
    return replace(report, rows_out=report.rows_out - twins, dropped={**report.dropped, "dev_text": twins})


def _describe(reports: list[Report]) -> str:
    counts = (", ".join(f"{n:,} {reason}" for reason, n in report.dropped.items()) for report in reports)
    return "; ".join(
        f"{report.source}: {report.rows_in:,} rows in, dropped {dropped or 'none'}"
        for report, dropped in zip(reports, counts, strict=True)
    )
