import re

import polars as pl
import pytest
from refusals import refuses
from small_wordnet import frame, lexicon, rewriter, variants

from pipeline.augment.method.interface import Resources
from pipeline.augment.wordnet.augmenter import augment, substitute
from pipeline.augment.wordnet.lexicon import _VOWEL_SOUND
from pipeline.augment.wordnet.words.senses import read_senses
from pipeline.params.augment import WordNetAugment

TEXTS = [
    "The dog jumped over a large car.",
    "42 people in Paris",
    "it is what it is",
    "She began to speak quickly.",
]


def test_words_are_replaced_in_their_own_inflection(nltk_data):
    made = variants(nltk_data, "The dog jumped.") - {"The dog jumped."}
    assert made == {"The dog leapt.", "The dog bounded."}
    assert {"They sold cars", "They sold automobiles", "They sold autos"} & variants(
        nltk_data, "They sold cars"
    )
    assert "The children laughed." not in variants(nltk_data, "The children laughed.")
    assert "The kids laughed." in variants(nltk_data, "The children laughed.")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Cars (automobiles), cars!", r"\w+ \(\w+\), \w+!"),
        ("The children laughed.", r"The [a-z]+ laughed\."),
        ('"Children" laughed', r'"[A-Z][a-z]+" [a-z]+'),
        ("THE CHILDREN BEGAN IT ALL", r"THE [A-Z ]+ IT ALL"),
        ("a  double\tspace,  children  laughed\n", r"a  double\tspace,  [a-z]+  [a-z]+\n"),
    ],
)
def test_capitals_punctuation_and_spaces_stay(nltk_data, text, expected):
    made = variants(nltk_data, text)
    assert made - {text}
    assert all(re.fullmatch(expected, variant) for variant in made)


@pytest.mark.parametrize(
    "text",
    [
        "it is what it is",
        "",
        "...",
        "42 1st 3.5 x9",
        "www.children.org children@children.org children.html",
        "NASA and IBM",
        "Mr Brown and Mrs Green",
        "self-aware non-children",
        "the thing's",
        "two second days",
        "Brown",
        "paris monday january",
        "PARIS AND FRANK AND IBM",
        "\u212aids \u212aids",
    ],
)
def test_names_numbers_addresses_and_function_words_stay(nltk_data, text):
    assert variants(nltk_data, text, rate=1.0) == {text}


def test_a_phrase_is_one_word(nltk_data):
    assert variants(nltk_data, "I ate a hot dog", rate=1.0) == {"I ate a hot dog"}  # no attested synonym
    made = variants(nltk_data, "He gave up smoking", 80)
    assert {"He abandoned smoking", "He forfeited smoking"} <= made
    assert "He gave in smoking" not in made
    assert {"He departed.", "He set out."} <= variants(nltk_data, "He took off.", 80)


def test_an_article_fits_the_word_after_it(nltk_data):
    for text in (
        "She bought a car",
        '"A car came',
        'a "car" of',
        "An answer came",
        "(An error",
        'an "error"',
    ):
        for made in variants(nltk_data, text, 60, rate=1.0):
            following = re.search(r"\b([Aa]n?) \"?(\w)", made)
            assert (following[1].lower() == "an") == (following[2] in "aeiou"), made


@pytest.mark.parametrize(
    "text",
    ["THIS IS AN ENORMOUS HOUSE OF THEIRS", "It is AN enormous house", "THE MAN WORE AN ENORMOUS HAT."],
)
def test_an_article_in_capitals_is_one(nltk_data, text):
    for made in variants(nltk_data, text, 60, rate=1.0):
        following = re.search(r"\bAN? (\w)", made)
        assert ("AN" in made.split()) == (following[1].lower() in "aeiou"), made


@pytest.mark.parametrize(
    "text", ["I'll angle it.", "Don't autopsy it.", "It's abridge it.", "I've accent it."]
)
def test_an_apostrophe_is_one_in_either_form(nltk_data, text):
    curved = text.replace("'", "’")
    straight = {made.replace("'", "’") for made in variants(nltk_data, text, 60, rate=1.0)}
    assert variants(nltk_data, curved, 60, rate=1.0) == straight


@pytest.mark.parametrize(
    ("text", "alone"),
    [
        ("I have given it", "gave"),  # a participle stays one
        ("He gave it", "given"),
        ("I put it there yesterday", "putted"),
        ("He read it", "readed"),
    ],
)
def test_the_form_of_an_irregular_verb_follows_its_place(nltk_data, text, alone):
    assert not any(alone in made.split() for made in variants(nltk_data, text, rate=1.0))


def test_words_of_two_parts_of_speech_follow_their_place(nltk_data):
    """After "to", "help" is a verb, which "assistance" is not; after "the" it is a noun."""
    verbs, nouns = (
        variants(nltk_data, "I want to help them", 80),
        variants(nltk_data, "for all the help you gave", 80),
    )
    assert any("to assist" in made for made in verbs)
    assert not any("assistance" in made for made in verbs)
    assert any("assistance" in made for made in nouns)


def test_rare_senses_are_not_chosen(nltk_data):
    substitutes = lexicon(nltk_data).substitutes("n", "dog", loose=False)
    assert not {"frank", "cad", "heel", "pawl"} & set(substitutes)
    assert set(lexicon(nltk_data).substitutes("n", "car", loose=False)) >= {"automobile", "auto"}


def test_marked_words_and_names_are_no_substitutes(nltk_data):
    senses = read_senses(nltk_data)
    usable = {word for words in senses.words.values() for word in words}
    assert not {"Paris", "Canis familiaris"} & usable
    assert {"automobile", "take off"} <= usable


def test_a_row_depends_on_nothing_but_itself(nltk_data):
    params, by = WordNetAugment(variants=3), rewriter(nltk_data)
    whole = substitute(frame(TEXTS), params, by)
    assert whole["parent_id"].to_list() == [one for one in frame(TEXTS)["text_id"] for _ in range(3)]
    parts = [substitute(frame([text]), params, by) for text in reversed(TEXTS)]
    assert pl.concat(reversed(parts)).equals(whole)
    assert not substitute(frame(TEXTS), WordNetAugment(variants=3, seed=1), by).equals(whole)
    assert substitute(frame([]), params, by).schema == whole.schema


@pytest.mark.parametrize(("text", "count"), [("They shrank", 4), ("I saw an automobile", 1), ("it is", 0)])
def test_variants_differ_as_long_as_another_can_be_drawn(nltk_data, text, count):
    """Draws that are made for each variant alone give one text twice; the first variant is such a draw."""
    by = rewriter(nltk_data)
    possible = variants(nltk_data, text, 60) - {text}
    assert len(possible) >= count
    for seed in range(10):
        made = substitute(frame([text]), WordNetAugment(variants=max(count, 2), seed=seed), by)["text"]
        assert len({*made} - {text}) == count
        assert {*made} <= (possible or {text})
        assert made[:1].equals(substitute(frame([text]), WordNetAugment(seed=seed), by)["text"])


def test_the_rate_is_the_share_of_words(nltk_data):
    text = "children laughed loudly whenever cars stopped near shops, which surprised all greatly in winter"
    changed = {}
    for rate in (0.1, 0.2):
        by = rewriter(nltk_data, rate)
        made = [by.rewrite(text, state * 0x9E3779B97F4A7C15 % 2**64) for state in range(60)]
        pairs = [zip(text.split(), one.split(), strict=False) for one in made if len(one.split()) == 14]
        changed[rate] = max(sum(old != new for old, new in pair) for pair in pairs)
    assert changed == {0.1: 1, 0.2: 3}


def test_both_engines_and_their_options(nltk_data, tmp_path):
    resources = Resources(nltk_data, tmp_path / "teacher", tmp_path, "cpu")
    made = augment(frame(TEXTS[:1]), WordNetAugment(engine="nlpaug", variants=2), resources)
    assert made.rows["parent_id"].to_list() == frame(TEXTS[:1])["text_id"].to_list() * 2
    with pytest.raises(ValueError, match=r"context .*own.* nlpaug"):
        WordNetAugment(engine="nlpaug", context=0.1)
    with refuses(tmp_path, "corpora/wordnet", "`make setup`"):
        augment(frame(TEXTS), WordNetAugment(), Resources(tmp_path, tmp_path, tmp_path, "cpu"))


def test_a_damaged_file_is_named(nltk_data, tmp_path):
    folder = tmp_path / "corpora" / "wordnet"
    folder.mkdir(parents=True)
    for path in (nltk_data / "corpora" / "wordnet").iterdir():
        (folder / path.name).symlink_to(path.resolve())
    (folder / "data.adv").unlink()
    (folder / "data.adv").write_text("  1 licence\n00001740 02 r\n")
    with refuses(folder / "data.adv", "WordNet 3.0", "`make setup`"):
        read_senses(tmp_path)


def test_a_phrase_at_the_end_is_as_long_as_it_is(nltk_data):
    """Longer phrases begin as "adult female" does."""
    by, keys = rewriter(nltk_data), ["they", "adult", "female"]
    assert by._phrase(keys, [by._pieces[key] for key in keys], 2)[:2] == (1, 2)


@pytest.mark.parametrize(
    ("article", "words"),
    [
        ("an", "unimaginative unidentified uninteresting hour honest onerous umbrella urge usher"),
        (
            "a",
            "unanimous unique union ubiquitous urinal European one use utensil ewe usable usage urea ureter",
        ),
    ],
)
def test_articles_go_by_sound(article, words):
    assert [bool(_VOWEL_SOUND.match(word.lower())) for word in words.split()] == [article == "an"] * len(
        words.split()
    )
