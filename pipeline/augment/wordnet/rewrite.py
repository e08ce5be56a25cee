"""Texts with some words substituted: the loop that every text goes through.

A text is cut at spaces, and every piece is looked up in a table that grows as pieces are met. Only the words
that chance picks are looked at closely.
"""

from collections.abc import Callable, Sequence

from pipeline.augment.wordnet.lexicon import Choices, Lexicon, Word
from pipeline.augment.wordnet.pieces import CLOSING, OPENING, Firsts, Piece, Pieces, lowered
from pipeline.augment.wordnet.words.contexts import AFTER, BEFORE, LOOSE, MARKS, UNKNOWN

_ACRONYMS = 3
"""So many words in capitals may be acronyms; more are a text in capitals."""
_TRIES = 12
"""Draws beside the first for a variant that differs from those before it."""
_MULTIPLIER, _INCREMENT, _MASK = 6364136223846793005, 1442695040888963407, (1 << 64) - 1
"""Of Knuth's linear congruential generator (MMIX), whose upper half is used."""

Written = tuple[int, int, str, str, str]
"""Where; how many pieces are replaced; what is before, instead of and after the word."""
Phrase = tuple[int, int, str, Word | None, str]
"""Likewise, with the phrase itself; None: it is to be left."""
Fits = Callable[[Choices, Sequence[str], range], Choices | None]
"""Which of a word's substitutes fit into a text at a place."""
Tagger = Callable[[Sequence[str]], list[int]]
"""What every piece of a text may be: inflections, 0 for what is left alone."""


class Rewriter:
    """Substitutes words in one text after another; what it makes of one depends on nothing before it."""

    def __init__(
        self, lexicon: Lexicon, rate: float, tagger: Tagger | None = None, fits: Fits | None = None
    ) -> None:
        self._lexicon, self._rate, self._tagger, self._fits = lexicon, rate, tagger, fits
        self._pieces = Pieces(lexicon)
        self._piece = self._pieces.__getitem__
        self._firsts = Firsts(self._pieces, lexicon.names)
        self._phrases: dict[str, Word | None] = {}

    def rewrite(self, text: str, state: int) -> str:
        """A text with about `rate` of its words, and at least one, substituted where that is possible.

        Args:
            text: any text; spaces and all that is not substituted are kept.
            state: 64 random bits, of which the result is a function.
        """
        tokens = keys = text.split(" ")
        shouted = len(tokens) > _ACRONYMS and text.isupper()
        if shouted:
            keys = [self._unshouted(token) for token in tokens]
        elif (first := self._firsts[tokens[0]]) and not (len(tokens) > 1 and tokens[1][:1].isupper()):
            keys = [first, *tokens[1:]]
        pieces = [*map(self._piece, keys)]
        places = [at for at, piece in enumerate(pieces) if piece.strict is not None]
        written = self._substitute(keys, pieces, places, state, 0) if places else None
        if not written:
            places = [at for at, piece in enumerate(pieces) if piece.loose is not None]
            written = self._substitute(keys, pieces, places, state, LOOSE) if places else None
            if not written:
                return text
        phrases: list[tuple[int, int]] = []
        for at, length, before, spelling, after in written:
            if keys is not tokens:
                spelling = spelling.upper() if shouted else spelling if at else _begun(spelling)
            tokens[at] = before + spelling + after
            if length > 1:
                phrases.append((at, length))
        for at, length in sorted(phrases, reverse=True):
            del tokens[at + 1 : at + length]
        return " ".join(tokens)

    def _unshouted(self, token: str) -> str:
        """A word of a text in capitals without them, unless it may be a name."""
        low = lowered(token)
        bare = low.strip(OPENING + CLOSING)
        is_function_word = bare in AFTER or bare in BEFORE  # some of which WordNet has as names too
        return token if bare in self._lexicon.names and not is_function_word else low

    def _substitute(
        self, keys: list[str], pieces: list[Piece], places: list[int], state: int, loose: int
    ) -> list[Written]:
        """What to write where, at places that chance picks; one place if `loose`."""
        last, left = len(keys) - 1, len(places)
        written: list[Written] = []
        taken: set[int] = set()
        allowed_at = self._tagger(keys) if self._tagger else None
        wanted = 1 if loose else int(self._rate * len(keys) + 0.5) or 1
        while left and wanted > 0:
            state = (state * _MULTIPLIER + _INCREMENT) & _MASK
            pick = (state >> 32) * left >> 32
            left -= 1
            at = places[pick]
            places[pick] = places[left]
            piece = pieces[at]
            length, before, after = 1, piece.before, piece.after
            word = piece.loose if loose else piece.strict
            # Most are seen here to be in no phrase: a call would take longer.
            if (
                (at and (seconds := pieces[at - 1].seconds) is not None and piece.bare in seconds)
                or (at < last and (seconds := piece.seconds) is not None and pieces[at + 1].bare in seconds)
                or (at > 1 and (seconds := pieces[at - 2].seconds) and pieces[at - 1].bare in seconds)
            ) and (phrase := self._phrase(keys, pieces, at)):
                at, length, before, word, after = phrase
            if word is None or at in taken:
                continue
            if length > 1 and not taken.isdisjoint(range(at + 1, at + length)):
                continue
            allowed = pieces[at - 1].permits if at else UNKNOWN
            if before and at:  # Where a quotation or a bracket begins, an article alone matters.
                allowed = allowed & MARKS | UNKNOWN & ~MARKS
            if allowed_at:
                allowed = allowed & MARKS | allowed_at[at]
            if not after and length == 1 and at < last:
                allowed &= pieces[at + 1].demands
            choices = word[allowed | loose]
            if choices and self._fits:
                choices = self._fits(choices, keys, range(at, at + length))
            if not choices:
                continue
            state = (state * _MULTIPLIER + _INCREMENT) & _MASK
            written.append((at, length, before, choices.draw(state >> 32), after))
            taken.update((at,) if length == 1 else range(at, at + length))
            wanted -= length
        return written

    def _phrase(self, keys: list[str], pieces: list[Piece], at: int) -> Phrase | None:
        """The phrase that has a place in it."""
        for start in range(max(at - 2, 0), min(at + 1, len(keys) - 1)):
            longest = (pieces[start].seconds or {}).get(pieces[start + 1].bare or "", 0)
            for length in range(min(longest, len(keys) - start), max(1, at - start), -1):
                span = " ".join(keys[start : start + length])
                spelling = span.lstrip(OPENING).rstrip(CLOSING)
                if spelling in self._lexicon.phrases:
                    if spelling not in self._phrases:
                        self._phrases[spelling] = self._lexicon.phrase(spelling)
                    before, _, after = span.partition(spelling)
                    return start, length, before, self._phrases[spelling], after
        return None

    def variants(self, text: str, states: Sequence[int]) -> list[str]:
        """`rewrite` by one state after another: a text that came before is drawn again, some times."""
        made = [self.rewrite(text, states[0])]
        if made[0] == text:  # There is no substitute at any place, whatever the state.
            return made * len(states)
        for state in states[1:]:
            variant = self.rewrite(text, state)
            for _ in range(_TRIES):
                if variant not in made:
                    break
                state = (state * _MULTIPLIER + _INCREMENT) & _MASK
                variant = self.rewrite(text, state)
            made.append(variant)
        return made


def _begun(spelling: str) -> str:
    """With a capital, as a text begins."""
    return spelling[0].upper() + spelling[1:]
