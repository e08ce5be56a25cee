import math
from collections import Counter

import polars as pl
import pytest
from small_senses import speech

from pipeline.augment.transfer_set.function_words import CLASS_OF
from pipeline.augment.transfer_set.speech import NAME, NOTHING, NUMBER, OTHER
from pipeline.augment.transfer_set.unigrams import Unigrams


def tagged(text, **counts):
    [sentence] = speech(**counts).sentences(pl.Series([text]))
    assert "".join(word.piece for word in sentence) == text
    assert all(word.before + word.core + word.after == word.piece for word in sentence if word.part)
    return {word.core or word.piece.strip(): word.part for word in sentence}


def test_a_word_is_a_function_word_or_what_wordnet_says_or_known_by_its_looks():
    found = tagged('The small "dogs", in Rome , watched 3 zyx - trees .')
    assert found["The"] == CLASS_OF["the"]
    assert found["in"] == CLASS_OF["of"]
    assert found["dogs"] == found["trees"]
    assert len({found[word] for word in ("small", "dogs", "watched")} - {OTHER, NAME}) == 3
    assert (found["Rome"], found["3"], found["zyx"]) == (NAME, NUMBER, OTHER)
    assert {found[sign] for sign in ",-."} == {NOTHING}


def test_parts_of_speech_are_inflections_and_clitics_are_whole():
    found = tagged("it 's a dog that does n't follow cats and watches the bird")
    assert found["dog"] == found["bird"] != found["cats"]
    assert found["follow"] != found["watches"]
    assert (found["'s"], found["n't"]) == (CLASS_OF["'ve"], CLASS_OF["not"])


def test_the_words_beside_it_decide_where_a_word_may_be_several():
    assert tagged("to watch", n_watch=9)["watch"] == tagged("to follow")["follow"]
    assert tagged("the watch", n_watch=1)["watch"] == tagged("the dog")["dog"]


def test_capitals_at_the_start_and_of_whole_texts_make_no_names():
    found = tagged("Dogs bark. Cats do")
    assert (
        found["Dogs"] == found["Cats"] == tagged("A BIG BIRDS", n_birds=0)["BIRDS"] == tagged("dogs")["dogs"]
    )


def test_scripts_without_spaces_and_combining_marks():
    assert tagged("我有狗。") == dict.fromkeys(["我", "有", "狗"], OTHER)
    assert set(tagged("बिल्ली की")) == {"बिल्ली", "की"}


def test_another_word_is_drawn_as_often_as_the_texts_have_it_among_the_others():
    texts = pl.Series(["dog dog dog cat cat bird see", "dog the car"])
    tags = speech()
    unigrams = Unigrams(tags.sentences(texts))
    part = tagged("a dog")["dog"]
    counts = Counter({"dog": 4, "cat": 2, "bird": 1, "car": 1})
    for word, own in counts.items():
        rest = sum(counts.values()) - own
        draws = Counter(unigrams.other(part, word, (i + 0.5) / (100 * rest)) for i in range(100 * rest))
        assert draws == {other: 100 * count for other, count in counts.items() if other != word}
        assert unigrams.other(part, word, math.nextafter(1, 0)) in counts
    assert unigrams.other(tagged("see")["see"], "see", 0.5) is None


@pytest.mark.parametrize("word", ["a", "of", "n't", "myself"])
def test_function_words_have_one_class(word):
    others = [other for other, found in CLASS_OF.items() if found == CLASS_OF[word]]
    assert word in others
    assert len(others) > 1


@pytest.mark.parametrize(
    ("word", "like"),
    [("it's", "I'm"), ("What’s", "who's"), ("you'll", "they'll"), ("ain't", "don't"), ("I'd", "we'd")],
)
def test_a_contraction_is_of_the_class_of_those_like_it(word, like):
    assert tagged(f"so {word} old")[word] == tagged(f"so {like} old")[like] != OTHER


@pytest.mark.parametrize("mark", ["'", "’"])
def test_what_has_a_possessive_ending_is_what_it_is_without(mark):
    [words] = speech().sentences(pl.Series([f"the dog{mark}s car and Ann{mark}s house"]))
    dog, name = words[1], words[4]
    assert (dog.core, dog.after, dog.part) == ("dog", f"{mark}s", tagged("the dog")["dog"])
    assert (name.core, name.after, name.part) == ("Ann", f"{mark}s", NAME)
