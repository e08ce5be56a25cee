import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer

TEXTS = ["the cat sat on the mat", "", "a", "Hello, World 42!", "c a t", "word " * 200, "x" * 90]


def last_hidden_states(folder, text):
    """Of one text alone, without padding, by transformers itself; (tokens, d)."""
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    inputs = tokenizer(text, return_tensors="pt", truncation=True, max_length=128)
    with torch.no_grad():
        return model(**inputs).last_hidden_state[0].numpy()


@pytest.fixture(scope="module")
def hidden(bert):
    return [last_hidden_states(bert, text) for text in TEXTS]


@pytest.fixture(scope="module")
def found(load, bert):
    return load(bert, tokens_per_batch=100, pooling="mean").encode(TEXTS, ["cls", "token_mean", "sentence"])


def test_token_mean_leaves_the_special_tokens_out(found, hidden):
    for row, states in zip(found["token_mean"], hidden, strict=True):
        expected = states[1:-1].mean(axis=0) if len(states) > 2 else np.zeros(16)
        np.testing.assert_allclose(row, expected, atol=1e-5)


def test_cls_is_the_first_token(found, hidden):
    np.testing.assert_allclose(found["cls"], [states[0] for states in hidden], atol=1e-5)


def test_the_views_differ_from_one_another(found):
    for one, other in (("cls", "token_mean"), ("cls", "sentence"), ("token_mean", "sentence")):
        assert np.abs(found[one] - found[other]).max(axis=1).min() > 1e-3


def test_a_view_is_the_same_alone_and_with_others(load, bert, found):
    teacher = load(bert, tokens_per_batch=100, pooling="mean")
    for view in found:
        alone = teacher.encode(TEXTS, [view])
        assert list(alone) == [view]
        assert np.array_equal(alone[view], found[view])


def test_the_real_teachers_token_views(minilm):
    text = "A man is playing a guitar."
    states = last_hidden_states(minilm.folders[0], text)
    found = minilm.encode(["", text, "longer " * 30], ["token_mean", "cls"])
    np.testing.assert_allclose(found["token_mean"][1], states[1:-1].mean(axis=0), atol=1e-5)
    np.testing.assert_allclose(found["cls"][1], states[0], atol=1e-5)
