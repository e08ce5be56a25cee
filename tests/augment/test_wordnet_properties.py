"""What holds of substitution in any text whatever."""

import re

import polars as pl
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small_wordnet import frame, lexicon, rewriter

from pipeline.augment.wordnet import pieces
from pipeline.augment.wordnet.augmenter import substitute
from pipeline.params.augment import WordNetAugment

WORDS = st.sampled_from(
    "the a an to dogs car jumped leapt quickly big children hot dog gave up took (help) CARS. Car".split()
)
ANY = st.text(max_size=60)
TEXTS = st.one_of(ANY, st.lists(st.one_of(WORDS, ANY), max_size=12).map(" ".join))
STATES = st.integers(0, 2**64 - 1)
FEW = settings(
    max_examples=150,
    suppress_health_check=[*settings.default.suppress_health_check, HealthCheck.function_scoped_fixture],
)


@FEW
@given(text=TEXTS, state=STATES)
def test_nothing_but_plain_words_changes(nltk_data, text, state):
    made = rewriter(nltk_data, 0.5).rewrite(text, state)
    assert made == rewriter(nltk_data, 0.5).rewrite(text, state)
    others = [re.sub(r"[A-Za-z ]", "", kept) for kept in (text, made)]
    assert others[0] == others[1]
    assert (text[: len(text) - len(text.lstrip())], text[len(text.rstrip()) :]) == (
        made[: len(made) - len(made.lstrip())],
        made[len(made.rstrip()) :],
    )


@FEW
@given(text=st.text(st.characters(exclude_categories=["Ll", "Lu"]), max_size=60), state=STATES)
def test_texts_without_letters_are_unchanged(nltk_data, text, state):
    assert rewriter(nltk_data, 1.0).rewrite(text, state) == text


@FEW
@given(texts=st.lists(TEXTS, max_size=6, unique=True), cut=st.integers(0, 6), variants=st.integers(1, 3))
def test_any_sharding_gives_the_same(nltk_data, texts, cut, variants):
    params, by = WordNetAugment(variants=variants), rewriter(nltk_data)
    parts = [substitute(frame(part), params, by) for part in (texts[:cut], texts[cut:])]
    assert pl.concat(parts).equals(substitute(frame(texts), params, by))


def test_a_full_table_changes_nothing(nltk_data, monkeypatch):
    from pipeline.augment.wordnet import rewrite

    texts = ["children sold a large car", "the dog jumped quickly", "children sold a large car"]
    expected = [rewriter(nltk_data).rewrite(text, 9) for text in texts]
    monkeypatch.setattr(pieces, "_MOST_PIECES", 2)
    small = rewrite.Rewriter(lexicon(nltk_data), 0.2)
    assert [small.rewrite(text, 9) for text in texts] == expected
