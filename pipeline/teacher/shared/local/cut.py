"""How much of texts a teacher's window leaves out."""

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from tokenizers import Tokenizer

CHARACTERS_AT_A_TIME = 1_000_000
"""Of texts that are tokenised at once: each of their tokens takes some 155 bytes."""


class Cut(NamedTuple):
    """Texts that are longer than a window."""

    texts: int
    """How many there are."""
    tokens: int
    """All that they have, special ones and the prompt's included."""
    lost: int
    """Those that the teacher does not read."""


NONE = Cut(0, 0, 0)


def added(parts: Iterable[tuple[int, int, int] | None]) -> Cut | None:
    """Of several parts of texts, one at least, what is cut in all; None where it is not known of one."""
    found = [*parts]
    known = [part for part in found if part is not None]
    return Cut(*map(sum, zip(*known, strict=True))) if len(known) == len(found) else None


def most(found: Sequence[Cut | None]) -> Cut | None:
    """What is cut by the teacher that cuts most; None where it is not known of one."""
    known = [one for one in found if one is not None]
    return max(known) if len(known) == len(found) else None


def cut(texts: Sequence[str], tokenizer: Tokenizer, max_length: int) -> Cut:
    """How many texts, prompts included, have more than `max_length` tokens, and how many more.

    Only those are tokenised that may have: a token is at least one byte of a text's longest normal form.
    `tokenizer` truncates and pads nothing.
    """
    room = max_length - len(tokenizer.encode("").ids) - 1  # one may be a blank that is put before
    long = [text for text in texts if _most_tokens(text) > room]
    counts = (len(found.ids) for part in _in_parts(long) for found in tokenizer.encode_batch_fast(part))
    lengths = np.fromiter(counts, np.int64)
    over = lengths[lengths > max_length]
    return Cut(len(over), int(over.sum()), int((over - max_length).sum()))


def _most_tokens(text: str) -> int:
    return len(text) if text.isascii() else len(unicodedata.normalize("NFKD", text).encode())


def _in_parts(texts: Iterable[str]) -> Iterator[list[str]]:
    part: list[str] = []
    characters = 0
    for text in texts:
        part.append(text)
        characters += len(text)
        if characters >= CHARACTERS_AT_A_TIME:
            yield part
            part, characters = [], 0
    if part:
        yield part
