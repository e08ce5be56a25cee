"""Texts with some words substituted: the loop that every text goes through.

A text is cut at spaces, and what stands between two spaces is looked up in a table that grows as pieces are
met, so that most of a text costs one look-up a word. Only the words that chance picks are looked at closely.
"""

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import cast

from pipeline.augmenters.wordnet_contexts import (
    AFTER,
    BEFORE,
    LOOSE,
    MARKS,
    UNKNOWN,
)
from pipeline.augmenters.wordnet_lexicon import Choices, Lexicon, Word

OPENING, CLOSING = "\"'([{“‘", ".,;:!?)]}\"'”’…"
_CLOSING = frozenset(CLOSING)
_PIECE = re.compile(rf"([{re.escape(OPENING)}]*)([a-z]+)([{re.escape(CLOSING)}]*)")
_MOST_PIECES = 250_000
"""Pieces in the table, at most; it is emptied when full."""
_ACRONYMS = 3
"""So many words in capitals may be acronyms; more are a text in capitals."""
_MULTIPLIER, _INCREMENT, _MASK = 6364136223846793005, 1442695040888963407, (1 << 64) - 1
"""Of Knuth's linear congruential generator (MMIX), whose upper half is used."""

Piece = tuple[str, Word, str]
"""What is before a word, the word, and what is after it."""
Written = tuple[int, str, str, str]
"""How many pieces are replaced; what is before, instead of and after the word."""
Fits = Callable[[Choices, Sequence[str], range], Choices | None]
"""Which of a word's substitutes fit into a text at a place."""
Tagger = Callable[[Sequence[str]], list[int]]
"""What every piece of a text may be: inflections, 0 for what is left alone."""


def lowered(token: str) -> str:
    """In small letters, where it has no letters but ASCII's: the Kelvin sign would become a k."""
    return token.lower() if token.isascii() else token


class Pieces(dict[str, Piece | None]):
    """What stands between two spaces -> its word, if it has one that may be substituted."""

    def __init__(self, find: Callable[[str], Word | None]) -> None:
        self._find = find
        self._words: dict[str, Word | None] = {}

    def __missing__(self, piece: str) -> Piece | None:
        if len(self) >= _MOST_PIECES:
            self.clear()
        found = self[piece] = self._cut(piece)
        return found

    def _cut(self, piece: str) -> Piece | None:
        match = _PIECE.fullmatch(piece)
        if not match:
            return None
        before, core, after = match.groups()
        if core not in self._words:
            if len(self._words) >= _MOST_PIECES:
                self._words.clear()
            self._words[core] = self._find(core)
        word = self._words[core]
        return None if word is None else (before, word, after)


class Beginnings(dict[str, dict[str, int] | None]):
    """What stands between two spaces -> its word's part of `Lexicon.longest`, if a phrase begins with it."""

    def __init__(self, longest: dict[str, dict[str, int]]) -> None:
        self._longest = longest

    def __missing__(self, piece: str) -> dict[str, int] | None:
        if len(self) >= _MOST_PIECES:
            self.clear()
        found = self[piece] = self._longest.get(piece.lstrip(OPENING))
        return found


class Rewriter:
    """Substitutes words in one text after another; what it makes of one depends on nothing before it."""

    def __init__(
        self, lexicon: Lexicon, rate: float, tagger: Tagger | None = None, fits: Fits | None = None
    ) -> None:
        self._lexicon, self._rate, self._tagger, self._fits = lexicon, rate, tagger, fits
        self._pieces, self._poorer = Pieces(lexicon.word), Pieces(partial(lexicon.word, loose=True))
        self._phrases: dict[str, Word | None] = {}
        self._beginnings = Beginnings(lexicon.longest)

    def rewrite(self, text: str, state: int) -> str:
        """A text with about `rate` of its words, and at least one, substituted where that is possible.

        Args:
            text: any text; spaces and all that is not substituted are kept.
            state: 64 random bits, of which the result is a function.
        """
        tokens = keys = text.split(" ")
        pieces = self._pieces
        shouted = len(tokens) > _ACRONYMS and text.isupper()
        if shouted:
            keys = [self._unshouted(token) for token in tokens]
        elif self._poorer[first := lowered(tokens[0])] and self._begins(tokens):
            keys = [first, *tokens[1:]]
        places = [at for at, key in enumerate(keys) if pieces[key]]
        written = self._substitute(keys, places, state, pieces, 0) if places else None
        if not written:
            pieces = self._poorer
            places = [at for at, key in enumerate(keys) if pieces[key]]
            written = self._substitute(keys, places, state, pieces, LOOSE) if places else None
            if not written:
                return text
        out: list[str | None] = [*tokens]
        shorter = False
        for at, (length, before, spelling, after) in written.items():
            if shouted:
                spelling = spelling.upper()
            elif not at and keys is not tokens and tokens[0] != keys[0]:
                spelling = spelling[0].upper() + spelling[1:]
            out[at] = before + spelling + after
            if length > 1:
                out[at + 1 : at + length] = [None] * (length - 1)
                shorter = True
        return " ".join([piece for piece in out if piece is not None] if shorter else cast("list[str]", out))

    def _unshouted(self, token: str) -> str:
        """A word of a text in capitals without them, unless it may be a name."""
        low = lowered(token)
        return token if low.strip(OPENING + CLOSING) in self._lexicon.names else low

    def _begins(self, tokens: list[str]) -> bool:
        """Whether a text's first word has a capital, if any, for being the first, as far as one can tell."""
        first = tokens[0].strip(OPENING + CLOSING)
        if first.lower() in self._lexicon.names or not first.istitle():
            return first.islower()
        return len(tokens) == 1 or not tokens[1][:1].isupper()

    def _substitute(
        self, keys: list[str], places: list[int], state: int, pieces: Pieces, loose: int
    ) -> dict[int, Written]:
        """What to write where, at places that chance picks; one place if `loose`."""
        last = len(keys) - 1
        written: dict[int, Written] = {}
        taken: set[int] = set()
        allowed_at = self._tagger(keys) if self._tagger else None
        wanted = 1 if loose else int(self._rate * len(keys) + 0.5) or 1
        while places and wanted > 0:
            state = (state * _MULTIPLIER + _INCREMENT) & _MASK
            pick = (state >> 32) * len(places) >> 32
            at = places[pick]
            places[pick] = places[-1]
            places.pop()
            if found := self._phrase(keys, at):
                at, length, piece = found
            else:
                length, piece = 1, pieces[keys[at]]
            if piece is None or (taken and at in taken):
                continue
            if length > 1 and not taken.isdisjoint(range(at + 1, at + length)):
                continue
            before, word, after = piece
            allowed = _after(keys[at - 1], begins=bool(before)) if at else UNKNOWN
            if allowed_at:
                allowed = allowed & MARKS | allowed_at[at]
            if not after and length == 1 and at < last:
                allowed &= BEFORE.get(keys[at + 1], -1)
            choices = word[allowed | loose]
            if choices and self._fits:
                choices = self._fits(choices, keys, range(at, at + length))
            if not choices:
                continue
            state = (state * _MULTIPLIER + _INCREMENT) & _MASK
            written[at] = length, before, choices.draw(state >> 32), after
            taken.add(at)
            if length > 1:
                taken.update(range(at + 1, at + length))
            wanted -= length
        return written

    def _phrase(self, keys: list[str], at: int) -> tuple[int, int, Piece | None] | None:
        """The phrase of which a word is part: where it begins, how many words, and it (None: to be left)."""
        beginnings, last = self._beginnings, len(keys) - 1
        for start in (at - 2, at - 1, at):
            if not 0 <= start < last:
                continue
            most = beginnings[keys[start]]
            if most is None:
                continue
            second = keys[start + 1]
            longest = most.get(second)
            if longest is None and second[-1:] in _CLOSING:
                longest = most.get(second.rstrip(CLOSING))
            if longest is None:
                continue
            for length in range(min(longest, len(keys) - start), max(1, at - start), -1):
                span = " ".join(keys[start : start + length])
                spelling = span.lstrip(OPENING).rstrip(CLOSING)
                if spelling in self._lexicon.phrases:
                    before, _, after = span.partition(spelling)
                    word = self._word_of(spelling)
                    return start, length, None if word is None else (before, word, after)
        return None

    def _word_of(self, phrase: str) -> Word | None:
        if phrase not in self._phrases:
            self._phrases[phrase] = self._lexicon.phrase(phrase)
        return self._phrases[phrase]


def _after(previous: str, *, begins: bool) -> int:
    """What may follow a piece; where a quotation or a bracket begins, an article alone matters."""
    allowed = AFTER.get(previous.lstrip(OPENING), UNKNOWN)
    return allowed & MARKS | UNKNOWN & ~MARKS if begins else allowed
