"""Substitution on 2,000 real sentences, judged by rules that share nothing with it but NLTK's WordNet."""

import difflib
import gzip
import itertools
import re

import polars as pl
import pytest
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS
from small_wordnet import frame, rewriter

from pipeline.augment.wordnet.augmenter import substitute
from pipeline.params.augment import WordNetAugment
from pipeline.prepare.shared.wordnet_files import open_wordnet

SENTENCES = 2_000
TOKEN = re.compile(r"[^\W_]+(?:['’\-.@/][^\W_]+)*|[^\w\s]|_")
NUMBERS = frozenset(
    "one two three four five six seven eight nine ten eleven twelve twenty thirty forty fifty sixty seventy "
    "eighty ninety hundred thousand million billion".split()
)
PAST_FORMS = """
began begun|broke broken|chose chosen|drew drawn|drove driven|fell fallen|forgot forgotten|froze frozen
grew grown|hid hidden|knew known|rode ridden|rose risen|saw seen|shook shaken|spoke spoken|stole stolen
swore sworn|threw thrown|tore torn|undertook undertaken|withdrew withdrawn|wore worn|wrote written
mistook mistaken
"""
ONLY_PAST, ONLY_PARTICIPLE = map(
    frozenset,
    zip(*(pair.split() for line in PAST_FORMS.split("\n") for pair in line.split("|") if pair), strict=True),
)
SAME_IN_THE_PAST = frozenset(
    "cut forecast hit let put read set shut spread stick cast burst split quit".split()
)
MOST_LEMMA_WORDS = 5


@pytest.fixture(scope="module")
def sentences(shared_data):
    with gzip.open(shared_data / "unlabelled" / "sentences.txt.gz", "rt", encoding="utf-8") as lines:
        return [line.rstrip("\n") for line in itertools.islice(lines, 0, 7 * SENTENCES, 7)]


@pytest.fixture(scope="module")
def wordnet(nltk_data):
    return open_wordnet(nltk_data)


@pytest.fixture(scope="module")
def made(nltk_data, sentences):
    return substitute(frame(sentences), WordNetAugment(), rewriter(nltk_data))["text"].to_list()


@pytest.fixture(scope="module")
def changes(sentences, made):
    """(sentence, words before, words after) of every change."""
    found = []
    for old, new in zip(sentences, made, strict=True):
        before, after = TOKEN.findall(old), TOKEN.findall(new)
        for kind, i1, i2, j1, j2 in difflib.SequenceMatcher(
            None, before, after, autojunk=False
        ).get_opcodes():
            if kind != "equal":
                found.append((f"{old}\n{new}", before[i1:i2], after[j1:j2]))
    return found


def analyses(wordnet, words):
    """(part of speech, inflection, lemma) that words may be, as NLTK's morphy says."""
    phrase = "_".join(words).lower()
    found = {
        (pos, word_class(phrase, lemma, pos), lemma)
        for pos in "nvar"
        for lemma in lemmas(wordnet, phrase, pos)
    }
    head, *rest = phrase.split("_")  # "gave up": morphy knows the last word's endings only
    stems = [head.removesuffix(ending) + e for ending in ("ed", "s", "es", "ing") for e in ("", "e")]
    for lemma in {*lemmas(wordnet, head, "v"), *stems}:
        whole = "_".join([lemma, *rest])
        if rest and wordnet.synsets(whole, "v"):
            found.add(("v", word_class(head, lemma, "v"), whole))
    for at, word in enumerate(phrase.split("_")):  # "points of view"
        for lemma in lemmas(wordnet, word, "n"):
            whole = "_".join([*phrase.split("_")[:at], lemma, *phrase.split("_")[at + 1 :]])
            if rest and wordnet.synsets(whole, "n"):
                found.add(("n", word_class(word, lemma, "n"), whole))
    return found


def lemmas(wordnet, word, pos):
    return wordnet._morphy(word, pos, check_exceptions=True) + wordnet._morphy(
        word, pos, check_exceptions=False
    )


def word_class(word, lemma, pos):
    if word == lemma:
        return "base"
    if pos == "n":
        return "plural"
    if pos == "v":
        return "-s" if word.endswith("s") else "-ing" if word.endswith("ing") else "past"
    return "most" if word.endswith("st") else "more"


def share_a_sense(wordnet, pos, left, right):
    return bool(set(wordnet.synsets(left, pos)) & set(wordnet.synsets(right, pos)))


def aligned(wordnet, before, after):
    """Whether words can be cut into pieces, each a synonym of its counterpart in the same inflection.

    Words that stand side by side may both be replaced, so that one change is several.
    """
    if not before or not after:
        return not before and not after
    for i, j in itertools.product(
        range(1, min(len(before), MOST_LEMMA_WORDS) + 1), range(1, min(len(after), MOST_LEMMA_WORDS) + 1)
    ):
        old, new = before[:i], after[:j]
        if (old == new or is_substitution(wordnet, old, new)) and aligned(wordnet, before[i:], after[j:]):
            return True
    return False


def is_substitution(wordnet, old, new):
    if any(token.lower() in NUMBERS or not token.isalpha() for token in (*old, *new)):
        return False
    if len(old) == 1 and old[0].lower() in ENGLISH_STOP_WORDS:
        return False
    if ({*old} & ONLY_PAST and {*new} & ONLY_PARTICIPLE) or ({*old} & ONLY_PARTICIPLE and {*new} & ONLY_PAST):
        return False
    return any(
        (pos == other_pos and alike(kind, lemma, other_kind, other))
        and share_a_sense(wordnet, pos, lemma, other)
        for pos, kind, lemma in analyses(wordnet, old)
        for other_pos, other_kind, other in analyses(wordnet, new)
    )


def alike(kind, lemma, other_kind, other):
    """Whether two forms may be the same inflection: "cut" is the past of "cut" too."""
    unmarked = {
        name.partition("_")[0] in SAME_IN_THE_PAST
        for name, of in ((lemma, kind), (other, other_kind))
        if of == "base"
    }
    return kind == other_kind or ({kind, other_kind} == {"base", "past"} and unmarked == {True})


def widened(wordnet, sentence, before, after):
    """The change, or it with up to three words that both texts share on either side ("took [off=>up]")."""
    old, new = (TOKEN.findall(text) for text in sentence.split("\n"))
    for start in range(len(old) - len(before) + 1):
        if old[start : start + len(before)] != before:
            continue
        for left, right in itertools.product(range(4), range(4)):
            lead, tail = old[max(0, start - left) : start], old[start + len(before) :][:right]
            inside = f" {' '.join(new)} "
            if f" {' '.join([*lead, *after, *tail])} " in inside and aligned(
                wordnet, [*lead, *before, *tail], [*lead, *after, *tail]
            ):
                return True
    return False


def test_every_change_is_a_synonym_in_the_same_inflection(wordnet, changes):
    assert len(changes) > SENTENCES
    wrong = [
        (before, after, sentence)
        for sentence, before, after in changes
        if not (aligned(wordnet, before, after) or widened(wordnet, sentence, before, after))
    ]
    assert wrong == [], "\n".join(map(str, wrong))


def test_capitals_numbers_and_punctuation_stay(sentences, made):
    for old, new in zip(sentences, made, strict=True):
        marks = [re.sub(r"[^\W\d_]| ", "", text) for text in (old, new)]
        assert marks[0] == marks[1], (old, new)
        capitals = [re.sub(r"[^A-Z]", "", re.sub(r"^\W*[A-Z]", "A", text)) for text in (old, new)]
        assert old.isupper() or capitals[0] == capitals[1], (old, new)
        assert old[:1].isupper() == new[:1].isupper()
        assert old.isupper() == new.isupper()


def test_names_and_odd_words_stay(sentences, made):
    for old, new in zip(sentences, made, strict=True):
        if not old.isupper():
            odd = [word for word in old.split()[1:] if not word.islower() or re.search(r"[\d@/'’-]", word)]
            kept = iter(new.split())
            assert all(word in kept for word in odd if not re.search(r"^\W|\W$", word)), (old, new)


def test_stop_words_stay_but_in_phrases(wordnet, changes):
    for sentence, before, _ in changes:
        for at, word in enumerate(before):
            if word.lower() in ENGLISH_STOP_WORDS:
                near = TOKEN.findall(sentence.partition("\n")[0])
                spans = (near[i : i + n] for i in range(len(near)) for n in (2, 3, 4))
                assert any(word in span and analyses(wordnet, span) for span in spans), (word, at, sentence)


def test_four_texts_in_five_with_an_eligible_word_change(wordnet, sentences, made):
    eligible = changed = 0
    for old, new in zip(sentences, made, strict=True):
        words = [
            word
            for word in re.findall(r"(?<!\S)[a-z]{3,}(?![^\s.,;:!?])", old)
            if word not in ENGLISH_STOP_WORDS
        ]
        if any(len(synset.lemmas()) > 1 for word in words for synset in wordnet.synsets(word)):
            eligible += 1
            changed += old != new
    assert eligible > 0.9 * len(sentences)
    assert changed >= 0.8 * eligible, changed / eligible


def test_the_same_seed_gives_the_same_bytes_in_any_sharding(nltk_data, sentences, made):
    by, params = rewriter(nltk_data), WordNetAugment()
    table = frame(sentences)
    shards = [substitute(table[at::7], params, by) for at in range(7)]
    together = pl.concat(shards).join(table.select("text_id"), left_on="parent_id", right_on="text_id")
    expected = dict(zip(table["text_id"], made, strict=True))
    assert dict(together.iter_rows()) == expected
    assert len(together) == len(table)
