"""`engine: nlpaug`: its SynonymAug, as in HPD sec. 4.3, offline and reproducible."""

import random
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache

import polars as pl

from pipeline.params.augment import WordNetAugment
from pipeline.prepare.shared.wordnet_files import Reader

PENN_TAGS = {"n": "NN", "v": "VB", "a": "JJ", "r": "RB"}
"""WordNet's parts of speech as the tags that nlpaug knows."""
REMEMBERED = 250_000
"""Words whose senses are remembered, at most."""
SKIPPED = "DT"
"""The tag of words that SynonymAug leaves alone."""
_WORD = re.compile(r"\w+(?:['’-]\w+)*")


def substitute_synonyms(texts: pl.DataFrame, params: WordNetAugment, reader: Reader) -> pl.DataFrame:
    """New texts with some words replaced by synonyms of any of their senses.

    The result for a text depends on the text, the seed and the number of the variant, not on the other rows.

    Args:
        texts: columns `text_id` and `text`.
        params: how many words and variants.
        reader: WordNet.

    Returns:
        Columns `parent_id` and `text`: `params.variants` rows for every text, some of them unchanged.
    """
    return substitution(params, reader)(texts)


def substitution(params: WordNetAugment, reader: Reader) -> Callable[[pl.DataFrame], pl.DataFrame]:
    """`substitute_synonyms`, for several calls."""
    substitute = _substitution(reader, params.rate)

    def substituted(texts: pl.DataFrame) -> pl.DataFrame:
        rows = []
        with _own_randomness():
            for text_id, text in texts.select("text_id", "text").iter_rows():
                for variant in range(params.variants):
                    random.seed(f"{params.seed}:{text_id}:{variant}")
                    rows.append((text_id, substitute(text)))
        return pl.DataFrame(rows, schema={"parent_id": pl.UInt64, "text": pl.String}, orient="row")

    return substituted


class Synonyms:
    """What SynonymAug asks of a dictionary, without NLTK's tagger, whose model is a download of its own."""

    def __init__(self, reader: Reader) -> None:
        from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

        self._reader = reader
        self._stop_words = ENGLISH_STOP_WORDS
        self.predict = lru_cache(REMEMBERED)(self._predict)
        self.tag = lru_cache(REMEMBERED)(self._tag)

    def pos_tag(self, tokens: list[str]) -> list[tuple[str, str]]:
        """Each word with its Penn tag."""
        return [(token, self.tag(token)) for token in tokens]

    def _predict(self, word: str, pos: str | None = None) -> list[str]:
        """The lemmas of all senses of a word, the more frequent the more often."""
        return [lemma for synset in self._reader.synsets(word, pos=pos) for lemma in synset.lemma_names()]

    def _tag(self, word: str) -> str:
        """A word's most frequent part of speech in WordNet; SKIPPED for stop words and unknown words."""
        if not word.isalpha() or len(word) < 3 or word.lower() in self._stop_words:
            return SKIPPED
        counts = {pos: self._count(word.lower(), pos) for pos in PENN_TAGS}
        most = max(counts, key=lambda pos: counts[pos])
        return PENN_TAGS[most] if counts[most] else SKIPPED

    def _count(self, word: str, pos: str) -> int:
        """How often a word is this part of speech: 0 only where WordNet does not know it as such."""
        base = self._reader.morphy(word, pos)
        if base is None:
            return 0
        lemmas = [lemma for lemma in self._reader.lemmas(base, pos) if lemma.name().lower() == base]
        # The lemmas without a count are told apart by their number of senses.
        return 1000 * sum(lemma.count() for lemma in lemmas) + len(lemmas)


class Words:
    """A text's words for SynonymAug; what stands between them is kept and put back."""

    def __init__(self) -> None:
        self._between: list[str] = []

    def split(self, text: str) -> list[str]:
        """The words."""
        self._between = _WORD.split(text)
        return _WORD.findall(text)

    def join(self, words: list[str]) -> str:
        """The words between the separators of the text split last."""
        first, *after = self._between
        return first + "".join(word + separator for word, separator in zip(words, after, strict=True))


def _substitution(reader: Reader, rate: float) -> Callable[[str], str]:
    """SynonymAug's function from a text to a text."""
    from nlpaug.augmenter.word import SynonymAug

    synonyms, words = Synonyms(reader), Words()

    class OfflineSynonymAug(SynonymAug):
        @classmethod
        def get_model(cls, aug_src: str, lang: str, dict_path: str | None, force_reload: bool) -> Synonyms:
            return synonyms

    augmenter = OfflineSynonymAug(
        aug_p=rate, aug_min=1, aug_max=None, tokenizer=words.split, reverse_tokenizer=words.join
    )
    return augmenter.substitute


@contextmanager
def _own_randomness() -> Iterator[None]:
    """Keep Python's random state, the only one that SynonymAug draws from, from being changed."""
    state = random.getstate()
    try:
        yield
    finally:
        random.setstate(state)
