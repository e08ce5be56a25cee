"""Masks, other words and n-grams: a new text of a text (Tang et al. 2019, sec. 3.3)."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from pipeline.augment.transfer_set.speech import Sentence, Word
from pipeline.augment.transfer_set.unigrams import Unigrams, is_i
from pipeline.core import json_text
from pipeline.params.augment import TransferSet

MASK = "[MASK]"
"""Where the teacher has no tokenizer, or none with a token for masked or unknown words."""


@dataclass
class Tally:
    """How often each rule was applied."""

    words: int = 0
    masked: int = 0
    replaced: int = 0
    only_one: int = 0
    """Words that were to be replaced, and are the only ones of their part of speech."""
    texts: int = 0
    """Texts that were changed, as far as chance had it."""
    ngrams: int = 0


class Rules:
    """Makes new texts; what it makes of a text depends on the text and on chance."""

    def __init__(self, params: TransferSet, unigrams: Unigrams, mask: str) -> None:
        self._params, self._unigrams, self._mask = params, unigrams, mask
        self.tally = Tally()

    def apply(self, sentence: Sentence, chance: Callable[[], float]) -> str:
        """A new text; `chance` draws from [0, 1)."""
        params, tally = self._params, self.tally
        mask, either = params.mask, params.mask + params.replace
        pieces = []
        for word in sentence:
            piece = word.piece
            if word.part:
                tally.words += 1
                drawn = chance()
                if drawn < mask:
                    tally.masked += 1
                    piece = word.before + self._mask + word.after
                elif drawn < either:
                    piece = self._replaced(word, chance())
            pieces.append(piece)
        tally.texts += 1
        if chance() < params.ngram:
            tally.ngrams += 1
            length = min(1 + int(chance() * params.longest), len(pieces))
            start = int(chance() * (len(pieces) - length + 1))
            pieces = pieces[start : start + length]
        return "".join(pieces)

    def _replaced(self, word: Word, chance: float) -> str:
        other = self._unigrams.other(word.part, word.key, chance)
        if other is None:
            self.tally.only_one += 1
            return word.piece
        self.tally.replaced += 1
        return word.before + _cased(other, word) + word.after


def _cased(other: str, word: Word) -> str:
    """A word with the capitals of the one that it replaces."""
    if len(word.core) > 1 and word.core.isupper():
        return other.upper()
    has_capital = word.core[0].isupper() and (word.begins or not is_i(word.key))
    return other[0].upper() + other[1:] if has_capital else other


def mask_token(tokenizer: str) -> str:
    """The text that a tokenizer reads as its mask token; without one, as its token for unknown words.

    Args:
        tokenizer: in the JSON of the library `tokenizers`.
    """
    special = [token["content"] for token in json_text.parse(tokenizer)["added_tokens"] if token["special"]]
    for wanted in ("mask", "unk"):
        for token in special:
            if re.sub(r"\W", "", token).lower() == wanted:
                return str(token)
    return MASK
