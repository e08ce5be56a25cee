"""What stands between two spaces of a text, and all that substitution has to know of it, found out once."""

import re

from pipeline.augment.wordnet.lexicon import Lexicon, Word
from pipeline.augment.wordnet.words.contexts import AFTER, BEFORE, UNKNOWN

OPENING, CLOSING = "\"'([{“‘", ".,;:!?)]}\"'”’…"
_PIECE = re.compile(rf"([{re.escape(OPENING)}]*)([a-z]+)([{re.escape(CLOSING)}]*)")
_MOST_PIECES = 250_000
"""Pieces in a table, at most; it is emptied when full."""
_ANYTHING = -1
"""All bits: every inflection."""

Words = tuple[Word | None, Word | None]
"""A word that may be substituted, and the same where poorer substitutes will do."""


class Piece:
    """A piece's word, if any, and what the piece means to those beside it."""

    __slots__ = ("after", "bare", "before", "demands", "loose", "permits", "seconds", "strict")

    def __init__(self, before: str = "", words: Words = (None, None), after: str = "") -> None:
        self.before, self.after = before, after
        """What is before and after the word."""
        self.strict, self.loose = words
        self.permits = UNKNOWN
        """What may follow the piece."""
        self.demands = _ANYTHING
        """What may be before it."""
        self.seconds: dict[str, int] | None = None
        """The words with which it may begin a phrase -> words of the longest such phrase."""
        self.bare: str | None = None
        """Its own word, if that is the second of any phrase."""


class Pieces(dict[str, Piece]):
    """Grows as pieces are met, so that most of a text costs one look-up a piece."""

    def __init__(self, lexicon: Lexicon) -> None:
        self._lexicon = lexicon
        self._words: dict[str, Words] = {}
        self._seconds = {second for seconds in lexicon.longest.values() for second in seconds}
        self._nothing = Piece()

    def __missing__(self, piece: str) -> Piece:
        if len(self) >= _MOST_PIECES:
            self.clear()
        found = self[piece] = self._examine(piece)
        return found

    def _examine(self, piece: str) -> Piece:
        begun, bare = piece.lstrip(OPENING), piece.rstrip(CLOSING)
        match = _PIECE.fullmatch(piece)
        words = self._words_of(match[2]) if match else (None, None)
        seconds, permits = self._lexicon.longest.get(begun), AFTER.get(begun, UNKNOWN)
        demands = BEFORE.get(piece, _ANYTHING)
        is_second = bare in self._seconds
        if words == (None, None) and not seconds and permits == UNKNOWN and demands == _ANYTHING:
            if not is_second:
                return self._nothing
        found = Piece(match[1], words, match[3]) if match else Piece()
        found.permits, found.demands, found.seconds = permits, demands, seconds
        found.bare = bare if is_second else None
        return found

    def _words_of(self, spelling: str) -> Words:
        if spelling not in self._words:
            if len(self._words) >= _MOST_PIECES:
                self._words.clear()
            strict = self._lexicon.word(spelling)
            loose = self._lexicon.word(spelling, loose=True) if strict is None else strict
            self._words[spelling] = strict, loose
        return self._words[spelling]


class Firsts(dict[str, str | None]):
    """A text's first piece -> without the capital that it has for being the first, if it may be substituted.

    Whether the capital is for that alone is also for the next piece to tell.
    """

    def __init__(self, pieces: Pieces, names: frozenset[str]) -> None:
        self._pieces, self._names = pieces, names

    def __missing__(self, piece: str) -> str | None:
        if len(self) >= _MOST_PIECES:
            self.clear()
        low, core = lowered(piece), piece.strip(OPENING + CLOSING)
        is_begun = low != piece and core.istitle() and core.lower() not in self._names
        found = self[piece] = low if is_begun and self._pieces[low].loose is not None else None
        return found


def lowered(token: str) -> str:
    """In small letters, where it has no letters but ASCII's: the Kelvin sign would become a k."""
    return token.lower() if token.isascii() else token
