"""Documents cut into sentences, or into passages that the teacher reads whole."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import polars as pl

from pipeline.core.errors import UserError
from pipeline.params.corpus import Documents
from pipeline.prepare.shared.cleaning import normalise
from pipeline.prepare.window import Window

EXTRA = "run `pip install -e '.[split]'`"
UNSPACED_STOPS = "。！？｡"
BORDER = "\n"
"""Between the sentences of a document that is cut into passages; no normalised text holds it."""

Pack = Callable[[Sequence[str]], list[str]]
"""A document's sentences -> its passages."""


@dataclass(frozen=True)
class Cut:
    """How a source's documents are cut."""

    language: str
    pack: Pack | None
    """Makes passages of a document's sentences; None: each sentence is a text."""


def sentences(documents: pl.DataFrame, language: str) -> pl.DataFrame:
    """The normalised sentences of documents, in their order.

    Args:
        documents: column `text`, as read (an empty line between two paragraphs ends a sentence), and others.
        language: ISO 639 code.

    Returns:
        A row for each sentence, with the other columns of its document. A document without any, such as a
        null, keeps one row of an empty text.

    Raises:
        UserError: the splitter is not installed.
    """
    try:
        from sentencex import segment
    except ImportError:
        raise UserError(f"corpus.sources: split needs the package sentencex; {EXTRA}") from None
    found = ([part for part in segment(language, text or "") if part.strip()] for text in documents["text"])
    cut = pl.Series("text", [parts or [""] for parts in found], dtype=pl.List(pl.String))
    rows = documents.with_columns(cut).explode("text")
    return rows.with_columns(normalise(rows["text"]))


def passages(sentences: pl.DataFrame, pack: Pack) -> pl.DataFrame:
    """The passages of documents, one a row, from their sentences, which column `document` tells apart."""
    documents = sentences.group_by("document", maintain_order=True).agg("text")
    packed = pl.Series("text", [pack(parts) for parts in documents["text"]], dtype=pl.List(pl.String))
    return documents.with_columns(packed).explode("text")


def packer(source: Documents, key: str, window: Window) -> Pack:
    """What makes passages of a source's documents.

    A passage ends where a sentence ends. A sentence that is longer than a passage is cut between words, a
    word that is longer between characters as people see them.

    Args:
        source: with `split: passages`.
        key: where params.yaml names the source, for messages.
        window: the teacher's.

    Raises:
        UserError: the splitter is not installed, or the lengths do not fit the window.
    """
    try:
        from semantic_text_splitter import TextSplitter
    except ImportError:
        raise UserError(f"{key}.split needs the package semantic-text-splitter; {EXTRA}") from None
    count, bare = window.counter(), window.counter(bare=True)
    room = _room(source, key, window)

    def split(text: str, capacity: int) -> list[str]:
        overlap = min(source.passage_overlap, capacity // 2)
        splitter = TextSplitter.from_callback(lambda part: bare(_joined(part)), capacity, overlap=overlap)
        found: list[str] = []
        for part in splitter.chunks(text):
            # The splitter takes counts for sums of counts, which those of some tokenizers are not quite.
            surplus = count(_joined(part)) - room
            found += split(part, max(1, capacity - surplus)) if surplus > 0 and capacity > 1 else [part]
        return found

    capacity = room - count("")
    return lambda parts: [_joined(part) for part in split(BORDER.join(parts), capacity)]


def _joined(sentences: str) -> str:
    """Sentences with a blank for a border, but for those of scripts that are written without."""
    return re.sub(f"(?<=[{UNSPACED_STOPS}]){BORDER}", "", sentences).replace(BORDER, " ")


def _room(source: Documents, key: str, window: Window) -> int:
    """The tokens of a passage, all included."""
    asked, most, around = source.passage_tokens, window.max_length, window.counter()("")
    if asked is None and most is None:
        raise UserError(f"{key}.passage_tokens: this teacher names no window; set it to 256, say")
    if asked and most and asked > most:
        raise UserError(f"{key}.passage_tokens is {asked}; the teacher reads {most} tokens: set it to {most}")
    room = min(filter(None, (asked, most)))
    least = around + 2 * max(1, source.passage_overlap)
    if room < least:
        raise UserError(
            f"{key}: of a passage's {room} tokens special ones and the prompt take {around}, and an overlap "
            f"of {source.passage_overlap} is more than half of the rest; raise passage_tokens or lower "
            "passage_overlap"
        )
    return room
