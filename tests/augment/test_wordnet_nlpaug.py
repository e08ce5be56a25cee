import random

import polars as pl
import pytest

from pipeline.augment.wordnet.nlpaug import Synonyms, Words, substitute_synonyms
from pipeline.data.common.texts import text_id
from pipeline.params.augment import WordNetAugment
from pipeline.prepare.shared.wordnet_files import open_wordnet

TEXTS = [
    "The quick dog barked (loudly), didn't it?",
    "a large car: fast, red -- and expensive!",
    "musicians play the violin in an orchestra; 42 people listened.",
    "it is what it is",
]


@pytest.fixture(scope="module")
def seeds():
    return pl.DataFrame(
        {"text_id": [text_id(text) for text in TEXTS], "text": TEXTS}, schema_overrides={"text_id": pl.UInt64}
    )


@pytest.fixture(scope="module")
def reader(nltk_data):
    return open_wordnet(nltk_data)


@pytest.fixture(scope="module")
def made(reader, seeds):
    return substitute_synonyms(seeds, WordNetAugment(variants=3, rate=0.3), reader)


def test_some_words_change_and_the_rest_stays_as_it_is(made):
    by_parent = dict.fromkeys(TEXTS)
    for text in TEXTS:
        by_parent[text] = made.filter(parent_id=text_id(text))["text"].to_list()
    assert all(len(variants) == 3 for variants in by_parent.values())
    assert all(variant != TEXTS[1] for variant in by_parent[TEXTS[1]])
    assert all(
        variant.startswith("The ") and variant.endswith(", didn't it?") for variant in by_parent[TEXTS[0]]
    )
    assert all("; 42 " in variant for variant in by_parent[TEXTS[2]])
    assert by_parent[TEXTS[3]] == [TEXTS[3]] * 3


def test_a_row_does_not_depend_on_the_others(made, reader, seeds):
    alone = substitute_synonyms(seeds[1:2], WordNetAugment(variants=3, rate=0.3), reader)
    assert alone.equals(made.filter(parent_id=text_id(TEXTS[1])))


def test_another_seed_changes_texts_and_the_global_state_stays(made, reader, seeds):
    random.seed(5)
    expected = random.Random(5).random()
    other = substitute_synonyms(seeds, WordNetAugment(variants=3, rate=0.3, seed=1), reader)
    assert random.random() == expected
    assert other["text"].to_list() != made["text"].to_list()


def test_tags_follow_the_counts(reader):
    tags = dict(Synonyms(reader).pos_tag(["dogs", "ran", "large", "quickly", "the", "x9", "qzx"]))
    assert tags == {
        "dogs": "NN",
        "ran": "VB",
        "large": "JJ",
        "quickly": "RB",
        "the": "DT",
        "x9": "DT",
        "qzx": "DT",
    }


@pytest.mark.parametrize("text", [*TEXTS, "", "...", "one", "  a-b 'c' d_e ", "naïve café"])
def test_words_are_put_back_between_what_was_between(text):
    words = Words()
    assert words.join(words.split(text)) == text
