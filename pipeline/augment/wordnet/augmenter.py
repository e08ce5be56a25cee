"""New texts by synonym substitution from WordNet (HPD sec. 4.3)."""

import gc
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache, partial

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pipeline.augment.method.interface import Made, Resources
from pipeline.augment.wordnet.language import Language
from pipeline.augment.wordnet.lexicon import Lexicon
from pipeline.augment.wordnet.nlpaug import substitution
from pipeline.augment.wordnet.rewrite import Rewriter
from pipeline.augment.wordnet.tagger import tagger
from pipeline.augment.wordnet.teacher import teacher_context
from pipeline.augment.wordnet.words.senses import read_senses
from pipeline.params.augment import WordNetAugment
from pipeline.prepare.shared.wordnet_files import open_wordnet

SCHEMA = {"parent_id": pl.UInt64, "text": pl.String}
TEXTS_AT_A_TIME = 65_536
"""Texts that are Python objects at a time; others change nothing of what becomes of one."""

Substitution = Callable[[pl.DataFrame], pl.DataFrame]
"""Texts to new texts."""


def augment(texts: pl.DataFrame, params: WordNetAugment, resources: Resources) -> Made:
    """New texts with some words replaced by synonyms; texts of another language than params' are left alone.

    A result depends on the text, its id, the seed and the number of the variant, not on other rows.

    Args:
        texts: columns `text_id` and `text`.
        params: how many words and variants, and by which engine.
        resources: where WordNet and the teacher's parts are.

    Returns:
        `params.variants` rows for every text in turn that is not left alone; those in which nothing can be
        substituted are unchanged.

    Raises:
        UserError: WordNet, or a tagger or teacher that params ask for, is not there.
    """
    language, by = _opened(params, resources)
    left_alone: Counter[str] = Counter()
    if language:
        texts, left_alone = in_english(texts, language)
    return Made(by(texts), left_alone)


@lru_cache(1)
def _opened(params: WordNetAugment, resources: Resources) -> tuple[Language | None, Substitution]:
    """What tells the language, if it is to be told, and what substitutes; for all texts of a run."""
    own = params.engine == "own"
    lexicon = Lexicon(read_senses(resources.wordnet)) if own or params.language else None
    language = Language(lexicon.knows) if lexicon and params.language else None
    if lexicon and own:
        return language, partial(substitute, params=params, by=rewriter(lexicon, params, resources))
    return language, substitution(params, open_wordnet(resources.wordnet))


def in_english(texts: pl.DataFrame, language: Language) -> tuple[pl.DataFrame, Counter[str]]:
    """The texts that are English, and how many are not, by reason."""
    kept, left_alone = [texts.clear()], Counter[str]()
    for part in texts.iter_slices(TEXTS_AT_A_TIME):
        doubts = [language.doubt(text) for text in part["text"].to_list()]
        left_alone.update(doubt for doubt in doubts if doubt)
        kept.append(part.filter(pl.Series([doubt is None for doubt in doubts], dtype=pl.Boolean)))
    return pl.concat(kept), left_alone


def rewriter(lexicon: Lexicon, params: WordNetAugment, resources: Resources) -> Rewriter:
    """What substitutes words as params say.

    Raises:
        UserError: as for `augment`.
    """
    fits = None if params.context is None else teacher_context(resources.teacher, params.context)
    return Rewriter(lexicon, params.rate, tagger(params.tagger, resources.wordnet), fits)


def substitute(texts: pl.DataFrame, params: WordNetAugment, by: Rewriter) -> pl.DataFrame:
    """`augment` by a rewriter that is there already, whatever the language."""
    parts = list(_parts(texts, params, by))
    return pl.concat(parts) if parts else pl.DataFrame(schema=SCHEMA)


def _parts(texts: pl.DataFrame, params: WordNetAugment, by: Rewriter) -> Iterator[pl.DataFrame]:
    with _no_garbage():
        for part in texts.select("text_id", "text").iter_slices(TEXTS_AT_A_TIME):
            ids = part["text_id"].to_numpy()
            states = _states(ids, params.seed, params.variants)
            rows = part["text"].to_list()
            if params.variants == 1:
                made = list(map(by.rewrite, rows, states[:, 0].tolist()))
            else:
                made = [one for row in map(by.variants, rows, states.tolist()) for one in row]
            yield pl.DataFrame({"parent_id": np.repeat(ids, params.variants), "text": made}, schema=SCHEMA)


@contextmanager
def _no_garbage() -> Iterator[None]:
    """Keep Python from looking for cycles: there are none, and it would go through all of WordNet."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _states(ids: NDArray[np.uint64], seed: int, variants: int) -> NDArray[np.uint64]:
    """64 random bits for every text and variant, (texts, variants): SplitMix64 of id, seed and variant."""
    keys = np.array([(seed * 0x632BE59BD9B4E019 + variant) % 2**64 for variant in range(variants)], np.uint64)
    return _mix(ids[:, None] ^ _mix(keys)[None, :])


def _mix(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """One step and the finaliser of SplitMix64 (Steele, Lea and Flood 2014, fig. 17)."""
    bits = bits + np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))
