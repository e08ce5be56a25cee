"""How many texts a source of the corpus gives, estimated from the first of them."""

from pathlib import Path

import polars as pl

from pipeline.core.errors import UserError
from pipeline.data.common.texts import WORD
from pipeline.params.base import scheme_of
from pipeline.params.corpus import Corpus, Documents, FileSource, HubSource, Source, WordNetSource
from pipeline.planning.heads import Head, head_of
from pipeline.prepare.readers.named import expand
from pipeline.prepare.readers.remote import LOCAL
from pipeline.prepare.shared.cleaning import normalise

CHARACTERS_A_TOKEN = 4.5
OF_WORDNET = 160_000
"""Texts of WordNet that are left of its glosses and examples."""
PASSAGE_WORDS, SENTENCE = 200, 100
STAND_IN = (
    "This sentence stands for every text that nobody has fetched so far, and is about as long as they are."
)
"""Of sources that are not here yet."""


def _unread(place: str, limit: int | None, key: str) -> Head:
    """Of what is not here yet: as many texts as are wanted, of a sentence's length."""
    if limit is None:
        raise UserError(
            f"{key}: how many texts {place} has is known once it is read; give it a `limit`, or run "
            "`dvc repro prepare` and plan again"
        )
    return Head(limit, (STAND_IN,))


def head_of_source(source: Source, index: int, corpus: Corpus, root: Path) -> Head:
    """How many texts a source gives, and the first of them, normalised.

    Args:
        source: one of `corpus.sources`.
        index: its place there, for messages.
        corpus: the lengths.
        root: the checkout.

    Raises:
        UserError: it is not there, or says nothing of its size.
    """
    key = f"corpus.sources.{index}"
    match source:
        case WordNetSource():
            rows, found = OF_WORDNET, head_of(root / "data/raw/nltk_data", None)
        case HubSource():
            return _unread(source.dataset, source.limit, key)
        case FileSource():
            if scheme_of(source.path) not in (None, "file"):
                return _unread(source.path, source.limit, key)
            files = expand(source.path.removeprefix(LOCAL), f"{key}.path", root)
            named = f"{key}.column" if source.has_column else None
            parts = [head_of(path, source.column, named) for path in files]
            rows = sum(part.rows for part in parts)
            found = Head(rows, tuple(text for part in parts for text in part.texts))
    if isinstance(source, Documents):
        rows, found = _cut(source, rows, found)
    texts = normalise(pl.Series(found.texts, dtype=pl.String))
    is_kept = texts.str.count_matches(WORD).is_between(corpus.min_words, corpus.max_words)
    is_kept &= texts.str.len_chars() <= corpus.max_chars
    kept = texts.filter((texts != "") if _passages(source) else is_kept)
    if len(texts) and source.kind != "wordnet":
        rows = round(rows * len(kept) / len(texts))
    return Head(min(rows, source.limit or rows), tuple(kept))


def _passages(source: Source) -> bool:
    return isinstance(source, Documents) and source.split == "passages"


def _cut(source: Documents, rows: int, found: Head) -> tuple[int, Head]:
    """Rows and texts once documents are cut or joined."""
    if source.join > 1:
        joined = [" ".join(found.texts[i : i + source.join]) for i in range(0, len(found.texts), source.join)]
        return rows // source.join, Head(rows, tuple(joined))
    if source.split == "none":
        return rows, found
    longest = (
        SENTENCE
        if source.split == "sentences"
        else CHARACTERS_A_TOKEN * (source.passage_tokens or PASSAGE_WORDS)
    )
    length = round(longest)
    pieces = [text[i : i + length] for text in found.texts for i in range(0, max(len(text), 1), length)]
    return round(rows * len(pieces) / max(1, len(found.texts))), Head(rows, tuple(pieces))
