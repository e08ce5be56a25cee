"""From a word as it is spelt to what may stand in its place, inflected alike, with weights."""

import math
import re
from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from pipeline.augment.wordnet.left_alone import FUNCTION_WORDS, LIGHT
from pipeline.augment.wordnet.words.contexts import CONSONANT, INFINITIVE, LOOSE, VOWEL
from pipeline.augment.wordnet.words.forms import ADJECTIVAL, BASE, NOMINAL, inflect
from pipeline.augment.wordnet.words.readings import Reading, Readings
from pipeline.augment.wordnet.words.senses import Senses

_DOMINANT = 0.75
"""A word that may be several is taken for one that has at least this share."""


class Least(NamedTuple):
    """What a substitute must have at least."""

    sense: float
    """P(sense | word), and P(sense | substitute)."""
    both: float
    """Their product."""
    attested: int
    """Times in SemCor: WordNet's rarest words are seldom what anyone would write."""
    beside: float
    """Share of the best substitute's weight."""


_STRICT, _LOOSE = Least(0.25, 0.1, 2, 0.1), Least(0.1, 0.02, 1, 0.1)
_SCALE = 1 << 20
LONGEST = 4
"""Words in a phrase, at most."""
_VOWEL_SOUND = re.compile(
    r"(?!uni(?![nmd])|unanim|ubiq|u[kr][aeiou]|us[aeu]|ut[eio]|eu|ewe|one(?!r)|once)[aeiou]|hour|hono|hones|heir"
)


class Choices:
    """Substitutes to draw from: spelt out, with cumulative weights."""

    __slots__ = ("cumulative", "spellings", "total")

    def __init__(self, weighted: dict[str, int]) -> None:
        self.spellings = tuple(sorted(weighted))
        self.cumulative = tuple(accumulate(weighted[spelling] for spelling in self.spellings))
        self.total = self.cumulative[-1]

    @property
    def weights(self) -> tuple[int, ...]:
        """The spellings' weights."""
        return tuple(np.diff(self.cumulative, prepend=0).tolist())

    def draw(self, number: int) -> str:
        """The spelling at a number of 32 random bits."""
        if len(self.spellings) == 1:  # So are three in five.
            return self.spellings[0]
        return self.spellings[bisect_right(self.cumulative, number * self.total >> 32)]


class Word(dict[int, Choices | None]):
    """One spelling: what may be written for it where only some inflections may stand (the key)."""

    __slots__ = ("lexicon", "readings", "spelling")

    def __init__(self, lexicon: "Lexicon", spelling: str, readings: tuple[Reading, ...]) -> None:
        self.lexicon, self.spelling, self.readings = lexicon, spelling, readings

    def __missing__(self, allowed: int) -> Choices | None:
        found = self[allowed] = self.lexicon.choices(self.spelling, self.readings, allowed)
        return found


class Lexicon:
    """Compiles WordNet word by word, as they are asked for."""

    def __init__(self, senses: Senses) -> None:
        from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

        self.names = senses.names
        self._senses = senses
        self._left_alone = FUNCTION_WORDS | ENGLISH_STOP_WORDS
        self.readings = Readings(senses)
        self._totals = self.readings.totals
        self._substitutes: dict[tuple[str, str], tuple[dict[str, float], ...]] = {}
        self.phrases, self.longest = self._read_phrases()

    def word(self, spelling: str, loose: bool = False) -> Word | None:
        """A word in lower case; None where nothing may be substituted for it or a phrase that it begins.

        Args:
            spelling: letters from a to z.
            loose: whether poorer substitutes will do.
        """
        if spelling in LIGHT:
            return Word(self, spelling, ())
        if spelling in self._left_alone or len(spelling) < 3:
            return None
        readings = tuple(self.readings.of(spelling))
        if not any(self.substitutes(pos, lemma, loose) for _, pos, lemma in readings):
            return None
        return Word(self, spelling, readings)

    def knows(self, spelling: str) -> bool:
        """Whether a word in lower case is English: a function word, or one of WordNet's in any inflection."""
        return spelling in self._left_alone or (bool(spelling) and any(self.readings.of(spelling)))

    def phrase(self, spelling: str) -> Word | None:
        """A word of several words, which `phrases` has."""
        readings = self.phrases[spelling]
        first = spelling.partition(" ")[0]
        if first in self._left_alone and first not in LIGHT:
            return None
        if spelling.endswith(" to"):  # "going to" is seldom "attending"
            return None
        if not any(self.substitutes(pos, lemma) for _, pos, lemma in readings):
            return None
        return Word(self, spelling, readings)

    def choices(self, spelling: str, readings: Iterable[Reading], allowed: int) -> Choices | None:
        """What may be written for a spelling, of its likeliest reading; None where that is not clear.

        Args:
            spelling: in lower case.
            readings: all that it may be.
            allowed: the inflections that may stand there, and marks of `wordnet_contexts`.
        """
        if allowed & INFINITIVE and any(form == BASE for form, _, _ in readings):
            allowed &= ~(NOMINAL | ADJECTIVAL)
        readings = [reading for reading in readings if reading[0] & allowed]
        weights: dict[tuple[str, str], float] = {}
        for reading in readings:
            _, pos, lemma = reading
            weights[pos, lemma] = weights.get((pos, lemma), 0.0) + self.readings.weight(reading)
        if not weights:
            return None
        (pos, lemma), weight = max(weights.items(), key=lambda item: item[1])
        if weight < _DOMINANT * sum(weights.values()):
            return None
        forms = [form for form, *of in readings if of == [pos, lemma]]
        found: dict[str, int] = {}
        for substitute, share in self.substitutes(pos, lemma, bool(allowed & LOOSE)).items():
            inflected = {self.readings.forms(pos, substitute).get(form, ())[:1] for form in forms}
            if len(inflected) > 1 or () in inflected:  # "gave" or "given": the place does not tell
                continue
            ((written,),) = inflected
            if written != spelling and _begins(written, allowed) and written not in self._left_alone:
                found[written] = found.get(written, 0) + max(1, round(share * _SCALE))
        return Choices(found) if found else None

    def substitutes(self, pos: str, lemma: str, loose: bool = True) -> dict[str, float]:
        """Lemmas that may stand for another, weighted.

        The weight of a substitute is the sum over shared senses of P(sense | lemma) P(sense | substitute),
        times how common the substitute is; rare senses and poor substitutes are left out.
        """
        key = (pos, lemma)
        if key not in self._substitutes:
            self._substitutes[key] = self._weigh(pos, lemma)
        return self._substitutes[key][loose]

    def _weigh(self, pos: str, lemma: str) -> tuple[dict[str, float], ...]:
        """Substitutes by what is asked of them, strictly and loosely."""
        found: tuple[dict[str, float], ...] = ({}, {})
        for synset, share in self._shares(pos, lemma).items():
            words = self._senses.words.get(synset, ())
            if share < _LOOSE.sense or lemma not in words:  # written with a capital
                continue
            for other in words:
                common = self._totals[pos, other]
                if (
                    common < _LOOSE.attested
                    or other in self._left_alone
                    or lemma in (other, *other.split(" "))
                ):
                    continue
                back = self._shares(pos, other).get(synset, 0.0)
                for least, weights in zip((_STRICT, _LOOSE), found, strict=True):
                    if (
                        min(share, back) >= least.sense
                        and share * back >= least.both
                        and common >= least.attested
                    ):
                        weights[other] = weights.get(other, 0.0) + share * back * math.log2(1 + common)
        return tuple(map(_the_best, (_STRICT, _LOOSE), found))

    def _shares(self, pos: str, lemma: str) -> dict[str, float]:
        """P(sense | lemma): SemCor's counts, to which 1 / rank is added."""
        senses = self._senses.of.get((pos, lemma), ())
        smoothed = [count + 1 / rank for rank, (_, count) in enumerate(senses, 1)]
        total = sum(smoothed)
        return {synset: weight / total for (synset, _), weight in zip(senses, smoothed, strict=True)}

    def _read_phrases(self) -> tuple[dict[str, tuple[Reading, ...]], dict[str, dict[str, int]]]:
        """Spellings of lemmas of several words -> readings; first word -> second word -> the most words."""
        phrases: dict[str, tuple[Reading, ...]] = {}
        longest: dict[str, dict[str, int]] = {}
        for pos, lemma in self._senses.of:
            words = lemma.split(" ")
            if not 2 <= len(words) <= LONGEST or not lemma.replace(" ", "").isalpha():
                continue
            for form, spellings in inflect(lemma, pos, self._senses.exceptions[pos]).items():
                for spelling in spellings:
                    phrases[spelling] = (*phrases.get(spelling, ()), (form, pos, lemma))
                    first, second, *_ = spelling.split(" ", 2)
                    most = longest.setdefault(first, {})
                    most[second] = max(len(words), most.get(second, 0))
        return phrases, longest


def _the_best(least: Least, weights: dict[str, float]) -> dict[str, float]:
    """Those that are not far behind the best."""
    best = max(weights.values(), default=0.0)
    return {other: weight for other, weight in weights.items() if weight >= least.beside * best}


def _begins(word: str, allowed: int) -> bool:
    """Whether a word may follow the article that was before it."""
    if not allowed & (CONSONANT | VOWEL):
        return True
    return bool(_VOWEL_SOUND.match(word)) == bool(allowed & VOWEL)
