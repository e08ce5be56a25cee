"""Our engine for WordNet substitution, made once for all tests: it takes seconds to read WordNet."""

from functools import cache
from pathlib import Path

import polars as pl

from pipeline.augment.wordnet.augmenter import substitute
from pipeline.augment.wordnet.lexicon import Lexicon
from pipeline.augment.wordnet.rewrite import Rewriter
from pipeline.augment.wordnet.words.senses import read_senses
from pipeline.data.common.texts import text_id
from pipeline.params.augment import WordNetAugment


@cache
def lexicon(nltk_data: Path) -> Lexicon:
    """WordNet, compiled."""
    return Lexicon(read_senses(nltk_data))


@cache
def rewriter(nltk_data: Path, rate: float = 0.2) -> Rewriter:
    """What substitutes words, by WordNet's counts."""
    return Rewriter(lexicon(nltk_data), rate)


def frame(texts: list[str]) -> pl.DataFrame:
    """Texts with their ids."""
    return pl.DataFrame(
        {"text_id": [text_id(text) for text in texts], "text": texts},
        schema={"text_id": pl.UInt64, "text": pl.String},
    )


def variants(nltk_data: Path, text: str, count: int = 40, rate: float = 0.2) -> set[str]:
    """All that `count` variants make of one text."""
    made = substitute(frame([text]), WordNetAugment(variants=count, rate=rate), rewriter(nltk_data, rate))
    return set(made["text"])
