"""Texts that nothing may be trained on, against a set of their folded forms."""

import polars as pl
import pytest

from pipeline.data.common.texts import HeldOut, fold

TEXTS = pl.Series(["The cat!", "a café", "...", "Straße", "two  words", "日本"])
OTHERS = pl.Series(
    ["the CAT", "a cafe", "...", "strasse", "two words", "日本", "three", "", "caf", "....", "the cat s"]
)


@pytest.mark.parametrize("size", [1, 2, 10])
def test_texts_are_found_but_for_case_accents_and_punctuation(size):
    held_out = HeldOut(TEXTS.slice(start, size) for start in range(0, len(TEXTS), size))
    expected = fold(OTHERS).is_in(fold(TEXTS).implode()).to_list()
    assert held_out.has(OTHERS).to_list() == expected
    assert sum(expected) == 6
    assert held_out.has(OTHERS.clear()).to_list() == []


def test_nothing_is_in_an_empty_set():
    assert not HeldOut([]).has(OTHERS).any()
