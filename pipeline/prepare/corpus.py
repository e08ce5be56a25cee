"""The corpus from its sources' texts: cleaned, deduplicated, filtered, decontaminated, split."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from pipeline.core.errors import UserError
from pipeline.data.common.texts import CORPUS_SCHEMA, LABELLED_SCHEMA
from pipeline.params.base import Role
from pipeline.params.corpus import Corpus
from pipeline.prepare.cleaning import JOINED, LIMIT, WORD, check_ids, fold, ids, normalise, say_loss
from pipeline.prepare.sampling import keep_first, share


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
    role: Role = "text"


@dataclass(frozen=True)
class Report:
    """What became of one source's rows; `rows_in` is the sum of `rows_out` and all that was dropped."""

    source: str
    rows_in: int
    rows_out: int
    dropped: dict[str, int]
    """Rows by reason."""


def build(
    sources: Iterable[SourceTexts], params: Corpus, held_out: pl.Series
) -> tuple[pl.DataFrame, list[Report]]:
    """Make the corpus.

    Args:
        sources: in the order of params: of equal texts the first is kept.
        params: limits and dev share.
        held_out: folded evaluation texts, which no text may equal.

    Returns:
        A table of `texts.CORPUS_SCHEMA`, and a report on every source.

    Raises:
        UserError: no text is left, or two different texts have one text_id.
    """
    corpus = pl.DataFrame(schema={**LABELLED_SCHEMA, "source": pl.String})
    reports = []
    for source in sources:
        texts, report = _filtered(source, corpus, params, held_out)
        corpus = pl.concat([corpus, texts])
        reports.append(report)
        say_loss(source.name, report.rows_in, report.dropped)
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
    return table.select(list(CORPUS_SCHEMA)), reports


def _filtered(
    source: SourceTexts, corpus: pl.DataFrame, params: Corpus, held_out: pl.Series
) -> tuple[pl.DataFrame, Report]:
    """What is kept of one source, and the count of every reason for dropping the rest."""
    table = pl.DataFrame({"text": normalise(source.texts).fill_null("")})
    words = pl.col("text").str.count_matches(WORD)
    dropped: dict[str, int] = {}

    def keep(reason: str, kept: pl.DataFrame) -> pl.DataFrame:
        dropped[reason] = dropped.get(reason, 0) + len(table) - len(kept)
        return kept

    if source.joined > 1:
        lengths = source.lengths or (len(table),)
        file = pl.Series("file", np.repeat(np.arange(len(lengths)), lengths))
        blocks = table.with_columns(file, (pl.col("text") == "").cum_sum().alias("block"))
        table = keep("empty", blocks.filter(pl.col("text") != ""))
        table = keep("evaluation_text", table.filter(~fold(table["text"]).is_in(held_out.implode())))
        table = keep(JOINED, _joined(table, source.joined))
    table = keep("empty", table.filter(pl.col("text") != ""))
    table = keep("too_few_words", table.filter(words >= params.min_words))
    table = keep("too_many_words", table.filter(words <= params.max_words))
    table = keep("too_many_chars", table.filter(pl.col("text").str.len_chars() <= params.max_chars))
    table = keep("duplicate", table.unique("text", maintain_order=True))
    table = table.with_columns(ids(table["text"], source.role), role=pl.lit(source.role))
    check_ids(pl.concat([corpus.select("text_id", "text"), table.select("text_id", "text")]))
    table = keep(
        "duplicate_of_earlier_source", table.join(corpus, on="text_id", how="anti", maintain_order="left")
    )
    table = keep("evaluation_text", table.filter(~fold(table["text"]).is_in(held_out.implode())))
    table = keep(LIMIT, keep_first(table, "text_id", source.limit, "limit"))
    report = Report(source.name, len(source.texts), len(table), {k: n for k, n in dropped.items() if n})
    return table.select(*LABELLED_SCHEMA, pl.lit(source.name).alias("source")), report


def _joined(table: pl.DataFrame, count: int) -> pl.DataFrame:
    """Every `count` successive texts of a file's block as one, the last ones of it too."""
    part = (pl.int_range(pl.len()).over("file", "block") // count).alias("part")
    groups = table.group_by("file", "block", part, maintain_order=True)
    return groups.agg(pl.col("text").str.join(" ")).select("text")


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
