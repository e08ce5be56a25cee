"""The texts of each kind of source that params.yaml can name."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import polars as pl

from pipeline.params.base import Role
from pipeline.params.corpus import Documents, FileSource, HubSource, Source, WordNetSource
from pipeline.prepare.corpus import SourceTexts
from pipeline.prepare.documents import Cut, packer
from pipeline.prepare.readers.hub_datasets import load
from pipeline.prepare.readers.remote import named_files
from pipeline.prepare.readers.user_files import dataset_columns, read_texts
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
        lengths: tuple[int, ...] = ()
        names: tuple[str, ...] = ()
        match source:
            case WordNetSource():
                name, texts = "wordnet", pl.Series("text", corpus_texts(wordnet()))
            case FileSource():
                name = source.path
                named = named_files(source.path, f"corpus.sources.{index}.path", cache)
                files = [read_texts(path, source.column) for _, path in named]
                texts, lengths = pl.concat(files), tuple(map(len, files))
                names = tuple(name for name, _ in named)
            case HubSource():
                name, texts = source.dataset, _hub_texts(source)
        times[name] += 1
        joined, cut = 1, None
        role: Role = "text"
        if isinstance(source, Documents):
            joined, role = source.join, source.role
            cut = _cut(source, f"corpus.sources.{index}", window)
        numbered = f"{name} #{times[name]}" if times[name] > 1 else name
        yield SourceTexts(numbered, texts, source.limit, joined, lengths, names, cut, role)


def _cut(source: Documents, key: str, window: Callable[[], Window]) -> Cut | None:
    """How a source's documents are cut; `key` is where params.yaml names it."""
    match source.split:
        case "none":
            return None
        case "sentences":
            return Cut(source.language, None)
        case "passages":
            return Cut(source.language, packer(source, key, window()))


def _hub_texts(source: HubSource) -> pl.Series:
    options = {"config": source.config, "split": source.dataset_split, "revision": source.revision}
    dataset = load(f"corpus.sources: {source.dataset}", source.dataset, options)
    return dataset_columns(dataset, [source.column], f"corpus.sources: {source.dataset}")[source.column]
