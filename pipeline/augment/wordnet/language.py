"""Which texts are English, so that English words do not get into others."""

import re
from collections.abc import Callable
from functools import lru_cache

CODE, OTHER, UNSURE = "code", "other_language", "unsure"
"""Reasons to leave a text alone."""

_ENGLISH, _FOREIGN = 0.9, 0.6
"""A text is English if at least the first share of its words is, and not if less than the second share is.
Between the two, the detector is asked. A third of the words of a foreign text may be known to WordNet."""
_LEAST = 0.1
"""The detector's least probability of English among its 140 languages: it is seldom sure of a short text."""
_SURE = 0.5
"""A text is in another language if the detector gives that one at least this probability."""
_NO_OTHER = ("en", "zxx")
"""English, and the detector's word for what is no language."""
_WORDS = 250_000
"""Words that are remembered."""
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
_ENDING = re.compile(r"(?:n['’]t|['’](?:s|re|ve|ll|d|m))$")
_CODE = re.compile(r"[{}\\|^~]|[=!<>]=|\w_\w|&&| [<>=] |\w{2}\((?!e?s\))|[)\d];$")
"""What code has and prose lacks: braces, calls, comparisons. 6 in 10,000 English sentences have it."""


class Language:
    """Tells English texts from others, each by itself: the same text gets the same answer in every run.

    Args:
        knows: whether a word in lower case is English.
    """

    def __init__(self, knows: Callable[[str], bool]) -> None:
        from py3langid.langid import MODEL_FILE, LanguageIdentifier

        self._identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
        self._knows_spelling = knows
        self._knows = lru_cache(_WORDS)(self._knows_word)

    def doubt(self, text: str) -> str | None:
        """Why a text may not be English; None if it is, or has no words."""
        words = _WORD.findall(text.lower())
        if not words:
            return None
        if _CODE.search(text):
            return CODE
        share = sum(map(self._knows, words)) / len(words)
        if share >= _ENGLISH:
            return None
        language, probability = self._identifier.classify(text)
        if share >= _FOREIGN:
            # To rank all languages takes as long again.
            english = probability if language == "en" else dict(self._identifier.rank(text))["en"]
            if english >= _LEAST:
                return None
        return OTHER if language not in _NO_OTHER and probability >= _SURE else UNSURE

    def _knows_word(self, word: str) -> bool:
        """Whether it is English, also with an ending such as 's or n't."""
        bare = _ENDING.sub("", word)
        return self._knows_spelling(bare) or self._knows_spelling(re.sub("['’]", "", word))
