import gzip
import json
import shutil
from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sentence_transformers import SentenceTransformer

from pipeline.encoders.packed_model import length_sorted_batches

TEXTS = [
    "A man is playing a guitar.",
    "",
    "   ",
    "Ünïcödé, 東京 and a 🦜 — “quoted”\n\ttext",
    "A literal [SEP] and a [MASK] token",
    "supercalifragilisticexpialidocious" * 40,
    "one word after the other " * 600,
    "Prices rose 3.7% in Q4 2021 (vs. -1.2% a year before).",
]


@pytest.fixture(scope="module")
def reference(minilm):
    """SentenceTransformer.encode of a model loaded on its own."""
    return SentenceTransformer(str(minilm.folders[0]), device="cpu").encode


def sentence(teacher, texts):
    return teacher.encode(texts, ["sentence"])["sentence"]


def test_sentence_is_what_sentence_transformers_encodes(minilm, reference):
    found = sentence(minilm, TEXTS)
    assert found.shape == (8, 384)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, reference(TEXTS), atol=1e-5)


def test_two_hundred_real_sentences_of_all_lengths(minilm, reference, shared_data):
    with gzip.open(shared_data / "unlabelled" / "sentences.txt.gz", "rt", encoding="utf-8") as file:
        by_length = sorted(islice(map(str.strip, file), 4000), key=len)
    texts = [by_length[i] for i in np.random.default_rng(0).permutation(4000)[:200]]
    np.testing.assert_allclose(sentence(minilm, texts), reference(texts), atol=1e-5)


@pytest.mark.parametrize("tokens", [1, 60, 100_000])
def test_neither_order_nor_token_budget_changes_a_vector(minilm, monkeypatch, tokens):
    expected = sentence(minilm, TEXTS)
    order = np.random.default_rng(tokens).permutation(len(TEXTS))
    monkeypatch.setattr(minilm.model, "tokens_per_batch", tokens)
    np.testing.assert_allclose(
        sentence(minilm, [TEXTS[i] for i in order]), expected[order], atol=1e-5, rtol=0
    )


def test_a_text_beyond_the_models_length_is_cut(minilm):
    long = "one word after the other " * 600
    words = " ".join(long.split()[: minilm.max_length - 2])
    assert minilm.max_length == 256
    np.testing.assert_allclose(sentence(minilm, [long]), sentence(minilm, [words]), atol=1e-5)


def test_a_length_of_the_users_cuts_as_sentence_transformers_does(load, bert):
    teacher = load(bert, pooling="mean", max_length=9)
    model = load(bert, pooling="mean").module
    model.max_seq_length = 9
    texts = ["abc", "abcdefg", "abcdefgh", "abcdefghij klm"]
    np.testing.assert_allclose(sentence(teacher, texts), model.encode(texts), atol=1e-5)
    np.testing.assert_allclose(teacher.encode_as_users_do(texts), model.encode(texts), atol=1e-5)
    assert teacher.recipes["text"]["max_length"] == 9


def test_long_texts_lose_their_beginning_where_the_tokenizer_says_so(load, bert, tmp_path):
    folder = shutil.copytree(bert, tmp_path / "left")
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps({**settings, "truncation_side": "left"}))
    left, right = (load(place, pooling="mean", max_length=9) for place in (folder, bert))
    texts = ["abc", "abcdefghij klm"]
    np.testing.assert_allclose(sentence(left, texts), left.module.encode(texts), atol=1e-5)
    assert np.abs(sentence(left, texts) - sentence(right, texts)).max(axis=1)[1] > 0.01
    assert left.recipes["text"]["truncation_side"] == "left"
    assert "truncation_side" not in right.recipes["text"]


def test_a_model_that_gives_its_first_dimensions_alone(load, bert, tmp_path):
    model = load(bert, pooling="mean").module
    model.truncate_dim = 8
    model.save(str(tmp_path / "short"))
    teacher = load(tmp_path / "short")
    assert teacher.dims == {"sentence": 8, "token_mean": 16, "cls": 16}
    found = teacher.encode(TEXTS, ["sentence", "cls"])
    np.testing.assert_allclose(found["sentence"], teacher.module.encode(TEXTS), atol=1e-5)
    assert found["cls"].shape == (len(TEXTS), 16)


def test_no_texts_have_no_vectors(minilm):
    found = minilm.encode([], ["sentence", "cls"])
    assert [found[view].shape for view in ("sentence", "cls")] == [(0, 384), (0, 384)]


def test_the_footprints_reference_is_the_users_call(minilm, reference):
    assert np.array_equal(minilm.encode_as_users_do(TEXTS[:2]), reference(TEXTS[:2]))


@given(st.lists(st.integers(0, 300), max_size=60), st.integers(1, 2000))
def test_batches_hold_every_row_once_within_the_budget_longest_first(lengths, tokens):
    batches = length_sorted_batches(np.array(lengths, int), tokens)
    rows = [int(row) for batch in batches for row in batch]
    assert sorted(rows) == list(range(len(lengths)))
    assert [lengths[row] for row in rows] == sorted(lengths, reverse=True)
    for batch in batches:
        assert len(batch) == 1 or max(lengths[row] for row in batch) * len(batch) <= tokens
