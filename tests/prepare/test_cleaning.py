import re
import unicodedata

import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pipeline.data.common.texts import WORD, fold, text_id
from pipeline.prepare.readers.user_columns import VISIBLE
from pipeline.prepare.shared.cleaning import ids, normalise

TEXTS = st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1, max_size=5)


def series(*texts):
    return pl.Series("text", texts, dtype=pl.String)


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        ("  a \t b\r\n", "a b"),
        ("cafe\u0301", "café"),
        ("so\u00adft\u200b \ufeffx", "soft x"),
        ("bell\x07s", "bell s"),
        ("no\u00a0break\u3000wide", "no break wide"),
        ("a\u200db", "a\u200db"),  # the joiner is part of many scripts
    ],
)
def test_normalise(raw, clean):
    assert normalise(series(raw)).to_list() == [clean]


@given(st.text(st.characters(exclude_categories=["Cs"])))
@example("\u200b\u00ad\x07 \ufeff")
@example("\U0001fae9")  # newer than Python's tables
def test_a_text_without_a_visible_character_is_what_normalises_to_nothing(text):
    expected = normalise(series(text)).item() != ""
    assert bool(re.search(VISIBLE, text)) == expected
    assert series(text).str.contains(VISIBLE).item() == expected


def test_normalise_keeps_null():
    assert normalise(series(None, "a")).to_list() == [None, "a"]


@given(TEXTS)
def test_normalise_is_idempotent_nfc_and_free_of_control_characters(texts):
    once = normalise(series(*texts))
    assert normalise(once).to_list() == once.to_list()
    for text in once:
        assert unicodedata.is_normalized("NFC", text)
        assert not any(unicodedata.category(character) == "Cc" for character in text)
        assert text == " ".join(text.split(" "))
        assert text.strip() == text


def test_fold_joins_what_differs_in_case_accents_and_punctuation():
    folded = fold(normalise(series("Straße, CAFÉ!", "STRASSE cafe", "strasse — café.")))
    assert folded.n_unique() == 1


def test_fold_keeps_other_texts_apart():
    assert fold(series("a b", "ab", "c", "?!", "!?", "हिंदी", "हद")).n_unique() == 7


@pytest.mark.parametrize(
    "texts",
    [
        ("é", "e", "E\u0301"),
        ("ё", "е"),
        ("ἅ", "α"),
        ("tiếng Việt", "tieng viet"),
        ("שָׁלוֹם", "שלום"),
        ("كِتَاب", "كتاب"),
        ("1\ufe0f\u20e3 ❤\ufe0f", "1\u20e3 ❤"),
        ("ガ", "ｶﾞ"),
    ],
)
def test_fold_joins_texts_that_differ_in_accents(texts):
    assert fold(series(*texts)).n_unique() == 1


@pytest.mark.parametrize(
    "texts",
    [
        ("はん", "ばん", "ぱん"),
        ("かき", "がき"),
        ("มา", "ม้า", "ม่า"),
        ("กิน", "กัน"),
        ("कुल", "कल", "कूल"),
    ],
)
def test_fold_keeps_marks_that_make_another_letter(texts):
    assert fold(series(*texts)).n_unique() == len(texts)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("the man - isn't there.", ["the", "man", "-", "isn't", "there."]),
        ("हिंदी में १२", ["हिंदी", "में", "१२"]),
        ("한국어 문장", ["한국어", "문장"]),
        ("「猫」と犬。", ["「猫」", "と", "犬。"]),
        ("我用iPhone 15，很好", ["我", "用", "iPhone", "15，", "很", "好"]),
        ("น้ำไทย", ["น้", "ำ", "ไ", "ท", "ย"]),
        ("ລາວ ខ្ញុំ မြန်", ["ລ", "າ", "ວ", "ខ្", "ញុំ", "မြ", "န်"]),
    ],
)
def test_words_are_what_spaces_part_and_letters_of_scripts_without_spaces(text, words):
    assert series(text).str.extract_all(WORD).item().to_list() == words


@given(st.text(st.characters(exclude_categories=["Cs"], max_codepoint=0xDFF), min_size=1))
def test_where_scripts_have_spaces_words_are_what_they_part(text):
    clean = normalise(series(text)).item()
    assert series(clean).str.extract_all(WORD).item().to_list() == clean.split()


@given(st.text(st.characters(categories=["Ll", "Lu", "Zs", "Po"], max_codepoint=0x17F)))
def test_fold_does_not_depend_on_case_or_composition(text):
    clean = normalise(series(text))
    upper = normalise(series(unicodedata.normalize("NFD", text.upper())))
    if any(character.isalpha() for character in text):
        assert fold(clean).to_list() == fold(upper).to_list()


def test_ids_are_the_content_hashes():
    assert ids(series("a", "b")).to_list() == [text_id("a"), text_id("b")]
