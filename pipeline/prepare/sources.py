"""The texts of each kind of source that params.yaml can name."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import polars as pl

from pipeline.params.base import Role
from pipeline.params.corpus import Documents, FileSource, HubSource, Source, WordNetSource
from pipeline.prepare.documents import Cut, packer
from pipeline.prepare.readers.hub_datasets import load
from pipeline.prepare.readers.remote import named_files
from pipeline.prepare.readers.user_files import dataset_columns, texts_in_parts
from pipeline.prepare.rows import Rows, SourceTexts
from pipeline.prepare.window import Window
from pipeline.prepare.wordnet.families import Families, corpus_texts


def read_sources(
    sources: Sequence[Source],
    wordnet: Callable[[], Families],
    window: Callable[[], Window],
    cache: Path,
) -> Iterator[SourceTexts]:
    """Read one source after the other.

    Args:
        sources: `corpus.sources` of params.
        wordnet: opens WordNet; called only if a source needs it.
        window: reads the teacher's; called only if a source is cut into passages.
        cache: where copies of files at an address are kept.

    Raises:
        UserError: a file or a dataset cannot be read.
    """
    times: Counter[str] = Counter()
    for index, source in enumerate(sources):
        match source:
            case WordNetSource():
                name, rows = "wordnet", iter([Rows(pl.Series("text", corpus_texts(wordnet())))])
            case FileSource():
                name = source.path
                named = named_files(source.path, f"corpus.sources.{index}.path", cache)
                key = f"corpus.sources.{index}.column" if source.has_column else None
                rows = _of_files(named, source.column, key)
            case HubSource():
                name, rows = source.dataset, map(Rows, _hub_texts(source))
        times[name] += 1
        joined, cut = 1, None
        role: Role = "text"
        if isinstance(source, Documents):
            joined, role = source.join, source.role
            cut = _cut(source, f"corpus.sources.{index}", window)
        numbered = f"{name} #{times[name]}" if times[name] > 1 else name
        yield SourceTexts(numbered, rows, source.limit, joined, cut, role)


def _of_files(named: Sequence[tuple[str, Path]], column: str, key: str | None) -> Iterator[Rows]:
    """The rows of one file after the other, under their names."""
    for name, path in named:
        for number, part in enumerate(texts_in_parts(path, column, key)):
            yield Rows(part, name, begins=number == 0)


def _cut(source: Documents, key: str, window: Callable[[], Window]) -> Cut | None:
    """How a source's documents are cut; `key` is where params.yaml names it."""
    match source.split:
        case "none":
            return None
        case "sentences":
            return Cut(source.language, None)
        case "passages":
            return Cut(source.language, packer(source, key, window()))


def _hub_texts(source: HubSource) -> Iterator[pl.Series]:
    options = {"config": source.config, "split": source.dataset_split, "revision": source.revision}
    dataset = load(f"corpus.sources: {source.dataset}", source.dataset, options)
    tables = dataset_columns(dataset, [source.column], f"corpus.sources: {source.dataset}")
    return (table[source.column] for table in tables)
