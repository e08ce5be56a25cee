"""What an English word may be by WordNet: inflections of lemmas, each with how likely it is."""

from collections.abc import Iterator

from pipeline.augment.wordnet.words.forms import (
    BASE,
    COMPARATIVE,
    GERUND,
    MANNER,
    PARTICIPLE,
    PAST,
    PLURAL,
    POSITIVE,
    SINGULAR,
    SUPERLATIVE,
    THIRD,
    Forms,
    inflect,
)
from pipeline.augment.wordnet.words.senses import Senses

_SHARES = {
    SINGULAR: 0.73,
    PLURAL: 0.27,
    BASE: 0.29,
    THIRD: 0.06,
    PAST: 0.23,
    PARTICIPLE: 0.26,
    GERUND: 0.16,
    POSITIVE: 0.95,
    COMPARATIVE: 0.03,
    SUPERLATIVE: 0.02,
    MANNER: 1.0,
}
"""An inflection's share among its part of speech, about as in the Brown corpus: WordNet counts lemmas."""
_DETACHED = {
    "s": (("s", ""), ("es", ""), ("ies", "y"), ("ves", "f"), ("ves", "fe")),
    "n": (("men", "man"),),
    "d": (("ed", ""), ("d", ""), ("ied", "y")),
    "g": (("ing", ""), ("ing", "e"), ("ying", "ie")),
    "r": (("er", ""), ("r", ""), ("ier", "y")),
    "t": (("est", ""), ("st", ""), ("iest", "y")),
}
"""Last letter of a form -> endings and what the lemma has in their place."""

Reading = tuple[int, str, str]
"""Inflection, part of speech, lemma."""


class Readings:
    """Looks words up in WordNet, in any inflection."""

    def __init__(self, senses: Senses) -> None:
        self.totals = {word: sum(count for _, count in found) for word, found in senses.of.items()}
        """(part of speech, lemma) -> how often SemCor has it."""
        self._exceptions = senses.exceptions
        self._bases: dict[str, tuple[str, ...]] = {}
        for exceptions in senses.exceptions.values():
            for lemma, forms in exceptions.items():
                for form in forms:
                    self._bases[form] = (*self._bases.get(form, ()), lemma)
        self._parts_of_speech: dict[str, str] = {}
        for pos, lemma in senses.of:
            self._parts_of_speech[lemma] = self._parts_of_speech.get(lemma, "") + pos
        self._forms: dict[tuple[str, str], Forms] = {}

    def of(self, spelling: str) -> Iterator[Reading]:
        """All that a word in lower case, which is not empty, may be."""
        lemmas = [spelling, *self._bases.get(spelling, ())]
        for ending, base in _DETACHED.get(spelling[-1], ()):
            if spelling.endswith(ending):
                stem = spelling[: -len(ending)]
                lemmas.append(stem + base)
                if not base and stem[-1:] == stem[-2:-1]:  # "stopped"
                    lemmas.append(stem[:-1])
        for lemma in dict.fromkeys(lemmas):
            for pos in self._parts_of_speech.get(lemma, ()):
                for form, spellings in self.forms(pos, lemma).items():
                    if spelling in spellings:
                        yield form, pos, lemma

    def weight(self, reading: Reading) -> float:
        """How likely a reading is beside others of the same word; not normalised."""
        form, pos, lemma = reading
        return (self.totals[pos, lemma] + 0.5) * _SHARES[form]

    def forms(self, pos: str, lemma: str) -> Forms:
        """A lemma's inflected forms."""
        key = (pos, lemma)
        if key not in self._forms:
            self._forms[key] = inflect(lemma, pos, self._exceptions[pos])
        return self._forms[key]
