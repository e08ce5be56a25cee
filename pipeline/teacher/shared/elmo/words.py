"""Words of a text, and a word's characters as ELMo reads them: the bytes of its UTF-8 between two marks.

Words are those of the Moses tokenizer (sacremoses), for ELMo was trained on the One Billion Word benchmark,
which was split by it: `don't` is `don` and `'t`.
"""

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from sacremoses import MosesTokenizer

BEGIN_SENTENCE, END_SENTENCE, BEGIN_WORD, END_WORD, PADDING = 256, 257, 258, 259, 260
"""Characters after the 256 bytes."""
CHARACTERS = 261


def split(text: str) -> list[str]:
    """The words of a text; none of an empty one."""
    found: list[str] = _tokenizer().tokenize(text, escape=False)
    return found


@cache
def _tokenizer() -> "MosesTokenizer":
    from sacremoses import MosesTokenizer

    return MosesTokenizer("en")


def bytes_of(word: str, most: int) -> bytes:
    """The bytes of a word that are read, where `most` characters are, its two ends among them."""
    return word.encode("utf-8", "ignore")[: most - 2]


def characters(words: Sequence[bytes], most: int) -> NDArray[np.int64]:
    """Characters (n, most) of words, by the bytes of each that are read."""
    found = np.full((len(words), most), PADDING, np.int64)
    found[:, 0] = BEGIN_WORD
    for row, word in zip(found, words, strict=True):
        row[1 : len(word) + 1] = np.frombuffer(word, np.uint8)
        row[len(word) + 1] = END_WORD
    return found


def ends(most: int) -> NDArray[np.int64]:
    """Characters (2, most) of the words that stand for a sentence's begin and end."""
    found = characters([b" ", b" "], most)
    found[:, 1] = BEGIN_SENTENCE, END_SENTENCE
    return found
