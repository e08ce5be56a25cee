"""Corpora made of a few texts, and files of texts read whole."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from pipeline.params.corpus import Corpus
from pipeline.prepare import corpus
from pipeline.prepare.corpus import Report
from pipeline.prepare.readers.user_files import texts_in_parts
from pipeline.prepare.rows import Rows, SourceTexts

NOTHING = pl.Series([], dtype=pl.String)


def source(*texts, name="a", limit=None, lengths=(), files=(None,), at_a_time=1000, **options) -> SourceTexts:
    """A source of these texts, in files of so many rows each, of which some rows are read at a time."""
    rows, start = [], 0
    for length, file in zip(lengths or (len(texts),), files * (len(lengths) or 1), strict=False):
        for at in range(start, start + length, at_a_time):
            part = pl.Series("text", texts[at : min(at + at_a_time, start + length)], dtype=pl.String)
            rows.append(Rows(part, file, begins=at == start))
        start += length
    return SourceTexts(name, rows, limit, **options)


def build(
    sources: Sequence[SourceTexts], params: Corpus, held_out: pl.Series = NOTHING
) -> tuple[pl.DataFrame, list[Report]]:
    """The corpus as one table, by rising id, and the reports."""
    with tempfile.TemporaryDirectory() as folder:
        built = corpus.build(sources, params, held_out, Path(folder))
        return pl.concat(built.parts()), built.reports


def read_texts(path: Path, column: str, key: str | None = None) -> pl.Series:
    """All texts of a user's file."""
    return pl.concat(texts_in_parts(path, column, key))
