"""The corpus from its sources' texts: cleaned, deduplicated, filtered, decontaminated, split.

Memory is that of some rows as they are read, and then of a range of text ids: equal texts have equal ids.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from pipeline.core.errors import UserError
from pipeline.data.common.files.tables import Range, Spool, ranges
from pipeline.data.common.texts import CORPUS_SCHEMA, fold
from pipeline.params.corpus import Corpus
from pipeline.prepare.folded import HASHED, FoldedTexts, with_hash
from pipeline.prepare.rows import PROVENANCE_SCHEMA, ROWS_SCHEMA, SourceTexts, Told, texts_of
from pipeline.prepare.sampling import rank_of_limit, ranks, share
from pipeline.prepare.shared.cleaning import LIMIT, check_ids, say_loss

KEPT_SCHEMA = {**ROWS_SCHEMA, **HASHED, "number": pl.UInt32}
"""`number`: of the source, from 0."""


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


@dataclass(frozen=True)
class Built:
    """A corpus that lies in a folder."""

    texts: Spool
    """Columns of `texts.CORPUS_SCHEMA` and of `PROVENANCE_SCHEMA`."""
    reports: list[Report]
    """On every source."""
    splits: dict[str, int]
    """Texts of each."""
    digests: dict[str, str]
    """SHA-256 (hex) of each source's texts: of their ids in ascending order, as `origins.of_texts`."""

    def parts(self) -> Iterator[pl.DataFrame]:
        """The texts by rising id, some at a time."""
        return self.texts.parts()


def build(sources: Iterable[SourceTexts], params: Corpus, held_out: pl.Series, folder: Path) -> Built:
    """Make the corpus.

    Args:
        sources: in the order of params: of equal texts the first is kept.
        params: limits and dev share.
        held_out: folded evaluation texts, which no text may equal.
        folder: where it lies, and what it is made from as long as that is needed.

    Raises:
        UserError: no text is left, or two different texts have one text_id.
    """
    apart = FoldedTexts(held_out)
    read = [_read(source, params, apart, folder / f"read-{n}") for n, source in enumerate(sources)]
    kept = _Kept(ranges(sum(one.texts.rows for one in read)), folder / "kept")
    for one in read:
        _keep(one, kept, params, apart)
        one.texts.remove()
        say_loss(one.name, one.told.rows_in + one.told.added, one.told.dropped)
    if not any(one.rows_out for one in read):
        described = _describe([one.report() for one in read])
        raise UserError(f"the corpus is empty after filtering; {described}; see `corpus:` in params.yaml")
    return _split(read, kept, params, folder / "corpus")


@dataclass
class _Read:
    """A source's texts, equal ones among them."""

    name: str
    limit: int | None
    texts: Spool
    told: Told
    rows_out: int = 0
    """How many of them are kept so far."""

    def report(self) -> Report:
        dropped = {reason: count for reason, count in self.told.dropped.items() if count}
        return Report(self.name, self.told.rows_in, self.rows_out, dropped, self.told.added)


class _Kept:
    """What is kept of the sources that have been looked at, range by range of ids."""

    def __init__(self, among: Sequence[Range], folder: Path) -> None:
        self.among = among
        self.parts = [Spool(folder / str(number), KEPT_SCHEMA) for number in range(len(among))]
        self.last: list[np.uint64] = []
        """Of each source the last rank by LIMIT that is kept."""
        self.dev: list[pl.DataFrame] = []
        """Columns text_id, number and text, folded, of the texts that are in the dev split."""

    def below(self, table: pl.DataFrame) -> pl.DataFrame:
        """The texts within the limits of their sources."""
        last = np.array(self.last, np.uint64)[table["number"].to_numpy()]
        return table.filter(pl.Series(ranks(table["text_id"], "limit") <= last))

    def ids(self, number: int) -> Iterator[pl.Series]:
        """The ids of a source's texts, a range at a time."""
        for part in self.parts:
            yield part.all("text_id", "number").filter(number=number)["text_id"]


def _read(source: SourceTexts, params: Corpus, held_out: FoldedTexts, folder: Path) -> _Read:
    """Read a source to the disk."""
    texts, told = Spool(folder, ROWS_SCHEMA), Told()
    for part in texts_of(source, params, held_out, told):
        texts.add(part)
    return _Read(source.name, source.limit, texts, told)


def _keep(read: _Read, kept: _Kept, params: Corpus, held_out: FoldedTexts) -> None:
    """Keep what is new of one source beside those before it."""
    keep, number = read.told.keep, len(kept.last)
    for among, part in zip(kept.among, kept.parts, strict=True):
        table = read.texts.within(among)
        table = keep("duplicate", table, table.unique("text", keep="first", maintain_order=True))
        check_ids(table.filter(pl.col("text_id").is_duplicated()))
        table = keep("duplicate_of_earlier_source", table, _unlike(table, part, kept))
        table = with_hash(table).with_columns(number=pl.lit(number, pl.UInt32))
        table = keep("evaluation_text", table, table.filter(~held_out.has(table)))
        part.add(table)
        read.rows_out += len(table)
        dev = table.filter(share(table["text_id"], params.dev_fraction, "dev"))
        kept.dev.append(dev.select("text_id", "number", fold(dev["text"])))
    kept.last.append(np.uint64(2**64 - 1))
    if read.limit is not None and read.rows_out > read.limit:
        kept.last[number] = rank_of_limit(lambda: kept.ids(number), read.limit, "limit")
        read.told.dropped[LIMIT] += read.rows_out - read.limit
        read.rows_out = read.limit


def _unlike(table: pl.DataFrame, earlier: Spool, kept: _Kept) -> pl.DataFrame:
    """The texts of a range that are none of an earlier source's.

    Raises:
        UserError: two different texts have one text_id.
    """
    if table.is_empty() or not earlier.rows:
        return table
    known = kept.below(earlier.all("text_id", "number"))["text_id"].implode()
    again = table.filter(pl.col("text_id").is_in(known))
    if again.is_empty():
        return table
    theirs = kept.below(earlier.all("text_id", "number", "text"))
    theirs = theirs.filter(pl.col("text_id").is_in(again["text_id"].implode()))
    check_ids(pl.concat([theirs.select("text_id", "text"), again.select("text_id", "text")]))
    return table.filter(~pl.col("text_id").is_in(known))


def _split(read: Sequence[_Read], kept: _Kept, params: Corpus, folder: Path) -> Built:
    """The texts of all sources, a dev text's twins left out: they are equal but for case and punctuation."""
    dev = FoldedTexts(kept.below(pl.concat(kept.dev))["text"].unique())
    built = Spool(folder, {**CORPUS_SCHEMA, **PROVENANCE_SCHEMA})
    splits, digests = Counter[str](), [hashlib.sha256() for _ in read]
    for part in kept.parts:
        table = kept.below(part.all())
        is_dev = share(table["text_id"], params.dev_fraction, "dev")
        split = pl.when(is_dev).then(pl.lit("dev")).otherwise(pl.lit("train")).alias("split")
        twins = ~is_dev & dev.has(table)
        for number, count in table.filter(twins)["number"].value_counts().iter_rows():
            read[number].rows_out -= count
            read[number].told.dropped["dev_text"] += count
        table = table.with_columns(split).filter(~twins)
        splits.update(dict(table["split"].value_counts().iter_rows()))
        for (number,), own in table.select("number", "text_id").group_by("number"):
            digests[number].update(own["text_id"].sort().to_numpy().astype("<u8").tobytes())
        built.add(table.select(built.schema.keys()))
        part.remove()
    told = {one.name: digest.hexdigest() for one, digest in zip(read, digests, strict=True)}
    return Built(built, [one.report() for one in read], dict(splits), told)


def _describe(reports: list[Report]) -> str:
    counts = (", ".join(f"{n:,} {reason}" for reason, n in report.dropped.items()) for report in reports)
    return "; ".join(
        f"{report.source}: {report.rows_in:,} rows in, dropped {dropped or 'none'}"
        for report, dropped in zip(reports, counts, strict=True)
    )
