"""Words of a text with their part of speech, by function words, WordNet and the words beside them."""

import unicodedata
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import polars as pl

from pipeline.augment.transfer_set.function_words import CLASS_OF
from pipeline.augment.wordnet.words.contexts import AFTER, BEFORE, INFINITIVE, UNKNOWN
from pipeline.augment.wordnet.words.forms import ADJECTIVAL, BASE, NOMINAL
from pipeline.augment.wordnet.words.readings import Readings
from pipeline.data.common.texts import WORD

NOTHING, NUMBER, NAME, OTHER = "", "number", "name", "other"
"""Of what has no letter or digit; of words with a digit; of capitalised words; of words not known."""
POSSESSIVE = "'s"
_SIGNS = "PSZ"
"""Unicode's categories of punctuation, symbols and blanks."""
_ENDS_SENTENCE = (".", "!", "?", ":", *(end + quote for end in ".!?" for quote in "\"'”’)"))


class Word(NamedTuple):
    """What stands between two spaces of a text, with the blank before it."""

    piece: str
    before: str
    core: str
    after: str
    part: str
    """Its part of speech; NOTHING: it is no word."""
    key: str
    """How it is counted: in lower case, unless it is a name."""
    begins: bool = False
    """Whether it begins a sentence, where each word has a capital."""


Sentence = tuple[Word, ...]


class Speech:
    """Tells parts of speech; those of a text depend on this text alone."""

    def __init__(self, readings: Readings) -> None:
        self._readings = readings
        self._inflections: dict[str, dict[int, float]] = {}
        self._words: dict[tuple[str, bool, int], Word] = {}

    def sentences(self, texts: pl.Series) -> Iterable[Sentence]:
        """The words of each of normalised texts, one after another."""
        pieces = texts.str.extract_all(f" *(?:{WORD})")
        return (self.tag(found.to_list()) for found in pieces)

    def tag(self, pieces: Sequence[str]) -> Sentence:
        """The words of one text, cut before each blank."""
        bare = [piece.lstrip(" ") for piece in pieces]
        shouted = len(pieces) > 1 and "".join(pieces).isupper()
        last, begins, permitted = len(pieces) - 1, True, UNKNOWN
        found = []
        for at, piece in enumerate(pieces):
            allowed = permitted & BEFORE.get(bare[at + 1], -1) if at < last else permitted
            word = self._word(piece, begins or shouted, allowed)
            found.append(word)
            permitted = AFTER.get(bare[at], UNKNOWN)
            begins = bare[at].endswith(_ENDS_SENTENCE) or (begins and not word.part)
        return tuple(found)

    def _word(self, piece: str, begins: bool, allowed: int) -> Word:
        """One object for all places where a piece stands alike, so that millions of words fit into memory."""
        place = piece, begins, allowed
        if place not in self._words:
            self._words[place] = self._examine(piece, begins, allowed)
        return self._words[place]

    def _examine(self, piece: str, begins: bool, allowed: int) -> Word:
        bare = piece.lstrip(" ")
        core = bare if _key(bare) in CLASS_OF else _core(bare)  # of "'s", the apostrophe is a part
        if not core:
            return Word(piece, piece, "", "", NOTHING, "")
        if _key(core) not in CLASS_OF and len(core) > len(POSSESSIVE) and _key(core).endswith(POSSESSIVE):
            core = core[: -len(POSSESSIVE)]  # "the man's hat": another noun takes its place before it
        before, _, after = piece.partition(core)
        part = self._part(core, begins, allowed)
        return Word(piece, before, core, after, part, core if part == NAME else _key(core), begins)

    def _part(self, core: str, begins: bool, allowed: int) -> str:
        key = _key(core)
        if key in CLASS_OF:
            return CLASS_OF[key]
        if any(map(str.isdigit, core)):
            return NUMBER
        if core[0].isupper() and not begins:
            return NAME
        likely = self._likely(key)
        if allowed & INFINITIVE and BASE in likely:
            allowed &= ~(NOMINAL | ADJECTIVAL)
        fits = {form: weight for form, weight in likely.items() if form & allowed} or likely
        return f"inflection {max(fits, key=lambda form: (fits[form], form))}" if fits else OTHER

    def _likely(self, key: str) -> dict[int, float]:
        """Inflection -> how likely the word is it."""
        if key not in self._inflections:
            found: dict[int, float] = {}
            for reading in self._readings.of(key):
                found[reading[0]] = found.get(reading[0], 0.0) + self._readings.weight(reading)
            self._inflections[key] = found
        return self._inflections[key]


def _key(word: str) -> str:
    return word.lower().replace("’", "'")


def _core(piece: str) -> str:
    """Without the punctuation and other signs around it."""
    start, stop = 0, len(piece)
    while start < stop and unicodedata.category(piece[start])[0] in _SIGNS:
        start += 1
    while start < stop and unicodedata.category(piece[stop - 1])[0] in _SIGNS:
        stop -= 1
    return piece[start:stop]
