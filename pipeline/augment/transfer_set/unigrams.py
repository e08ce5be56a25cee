"""How often texts have each word, by part of speech: what words are replaced by."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from itertools import accumulate

from pipeline.augment.transfer_set.speech import Sentence


class _OfAPart:
    """The words of one part of speech."""

    __slots__ = ("cumulative", "place", "words")

    def __init__(self, counts: Counter[str]) -> None:
        self.words = sorted(counts)
        self.cumulative = [0, *accumulate(counts[word] for word in self.words)]
        self.place = {word: at for at, word in enumerate(self.words)}


class Unigrams:
    """The distribution of the words of some texts, within each part of speech.

    Args:
        sentences: the texts, each as often as it is to count.
    """

    def __init__(self, sentences: Iterable[Sentence]) -> None:
        counts: dict[str, Counter[str]] = {}
        capitals: Counter[bool] = Counter()
        for sentence in sentences:
            for word in sentence:
                if word.part:
                    counts.setdefault(word.part, Counter())[word.key] += 1
                    if is_i(word.key):
                        capitals[word.core[0] == "I"] += 1
        self._writes_i = capitals[True] > capitals[False]
        self._parts = {part: _OfAPart(found) for part, found in counts.items()}

    def other(self, part: str, key: str, chance: float) -> str | None:
        """Another word than one that the texts have, of its part of speech; None where it is the only one.

        It is in lower case, unless it is a name, or I in texts that have capitals.

        Args:
            part: the part of speech.
            key: the word, as `Word.key`.
            chance: uniform in [0, 1).
        """
        of = self._parts[part]
        at = of.place[key]
        start, stop = of.cumulative[at], of.cumulative[at + 1]
        others = of.cumulative[-1] - (stop - start)
        if not others:
            return None
        drawn = int(chance * others)
        if drawn >= start:
            drawn += stop - start
        found = of.words[bisect_right(of.cumulative, drawn) - 1]
        return "I" + found[1:] if self._writes_i and is_i(found) else found


def is_i(key: str) -> bool:
    """Whether a word is the pronoun I, or a contraction of it, which has a capital wherever it stands."""
    return key == "i" or key.startswith("i'")
