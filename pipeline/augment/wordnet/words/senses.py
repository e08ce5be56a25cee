"""WordNet's words, senses and counts, read from its files at once (format: wndb(5WN), senseidx(5WN))."""

import re
from dataclasses import dataclass
from pathlib import Path

from pipeline.core.errors import UserError
from pipeline.prepare.shared.wordnet_files import check, wordnet_folder

NOUN, VERB, ADJECTIVE, ADVERB = "n", "v", "a", "r"
FILES = {NOUN: "noun", VERB: "verb", ADJECTIVE: "adj", ADVERB: "adv"}
_SENSE_TYPES = {"1": NOUN, "2": VERB, "3": ADJECTIVE, "4": ADVERB, "5": ADJECTIVE}
_PLAIN = re.compile(r"[a-z]{3,}|[a-z]{2,}(?: [a-z]+)+")
"""Lemmas that may be substituted: no names, digits, abbreviations, hyphens; nothing as short as a symbol."""
_MARKED = "-u"
"""Begins a pointer from a usage (slang, archaism, disparagement, trademark, ...) to its words."""

Sense = tuple[str, int]
"""A synset (part of speech and offset) and how often SemCor has the word in it."""


@dataclass(frozen=True)
class Senses:
    """What substitution needs of WordNet; lemmas are in lower case, with spaces."""

    of: dict[tuple[str, str], tuple[Sense, ...]]
    """(part of speech, lemma) -> its senses, the most frequent first."""
    words: dict[str, tuple[str, ...]]
    """Synset -> those of its words that may be substituted for each other; none for names."""
    names: frozenset[str]
    """Lemmas that some synset writes with a capital, in lower case."""
    exceptions: dict[str, dict[str, tuple[str, ...]]]
    """Part of speech -> lemma -> its irregular forms."""


def read_senses(nltk_data: Path) -> Senses:
    """Read WordNet's data, sense index and exception lists.

    Raises:
        UserError: WordNet is not there, or a line of it cannot be read.
    """
    check(nltk_data)
    folder = wordnet_folder(nltk_data)
    words, names = _read_words(folder)
    return Senses(_read_counts(folder), words, names, {pos: _read_exceptions(folder, pos) for pos in FILES})


def _read_words(folder: Path) -> tuple[dict[str, tuple[str, ...]], frozenset[str]]:
    words: dict[str, list[str]] = {}
    names: set[str] = set()
    marked: list[tuple[str, int]] = []
    for pos, name in FILES.items():
        path = folder / f"data.{name}"
        with path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if line.startswith("  "):  # the licence
                    continue
                try:
                    synset, lemmas, usages, is_instance = _parse(pos, line)
                except (ValueError, IndexError):
                    raise UserError(f"{path}, line {number}: no line of WordNet; run `make setup`") from None
                names.update(lemma.lower() for lemma in lemmas if not lemma.islower())
                marked += usages
                if not is_instance:
                    words[synset] = lemmas
    for synset, index in marked:
        if synset in words:  # index 0: all words of the synset
            found = words[synset]
            words[synset] = ["" if index in (0, at) else word for at, word in enumerate(found, 1)]
    usable = {synset: tuple(filter(_PLAIN.fullmatch, lemmas)) for synset, lemmas in words.items()}
    return {synset: lemmas for synset, lemmas in usable.items() if lemmas}, frozenset(names)


def _parse(pos: str, line: str) -> tuple[str, list[str], list[tuple[str, int]], bool]:
    """A line's synset, lemmas, the words that it marks as of a usage, and whether it names an instance."""
    fields = line.partition(" | ")[0].split()
    count = int(fields[3], 16)
    lemmas = [word.replace("_", " ") for word in fields[4 : 4 + 2 * count : 2]]
    lemmas = [word.partition("(")[0] if word.endswith("(a)") else word for word in lemmas]
    at = 4 + 2 * count
    pointers = fields[at + 1 : at + 1 + 4 * int(fields[at])]
    kinds = pointers[::4]
    usages = [
        (pointers[of + 2].replace("s", ADJECTIVE) + pointers[of + 1], int(pointers[of + 3][2:], 16))
        for of in range(0, len(pointers), 4)
        if pointers[of] == _MARKED
    ]
    return pos + fields[0], lemmas, usages, "@i" in kinds


def _read_counts(folder: Path) -> dict[tuple[str, str], tuple[Sense, ...]]:
    path = folder / "index.sense"
    senses: dict[tuple[str, str], list[tuple[int, str, int]]] = {}
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            try:
                key, offset, rank, count = line.split()
                lemma, _, rest = key.partition("%")
                pos = _SENSE_TYPES[rest[:1]]
                sense = (int(rank), pos + offset, int(count))
            except (ValueError, KeyError):
                raise UserError(f"{path}, line {number}: no line of WordNet; run `make setup`") from None
            senses.setdefault((pos, lemma.replace("_", " ")), []).append(sense)
    return {
        word: tuple((synset, count) for _, synset, count in sorted(found)) for word, found in senses.items()
    }


def _read_exceptions(folder: Path, pos: str) -> dict[str, tuple[str, ...]]:
    """Lemma -> irregular forms."""
    forms: dict[str, tuple[str, ...]] = {}
    for line in (folder / f"{FILES[pos]}.exc").read_text(encoding="utf-8").splitlines():
        surface, *bases = (word.replace("_", " ") for word in line.split())
        for base in bases:
            if surface != base:
                forms[base] = (*forms.get(base, ()), surface)
    return forms
