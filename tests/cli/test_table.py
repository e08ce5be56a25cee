import numpy as np
import pytest
from model2vec import StaticModel

from pipeline.cli import table
from pipeline.cli.table import TableEncoder
from pipeline.teacher.kinds.hashing import letter_tokenizer

TEXTS = ["a cat", "", "zebra", "a very long text " * 200, "漢字", "漢 b", "A CAT"]


def model(*, normalize=True, mapped=False, dtype=np.float32):
    tokenizer = letter_tokenizer().backend_tokenizer
    random, size = np.random.default_rng(0), tokenizer.get_vocab_size()
    rows = random.normal(size=(5 if mapped else size, 8)).astype(dtype)
    more = {"token_mapping": random.integers(5, size=size), "weights": random.random(size)} if mapped else {}
    return StaticModel(rows, tokenizer, normalize=normalize, max_length=None, **more)


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("mapped", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("at_a_time", [1, 3, 100])
def test_the_vectors_are_model2vecs(monkeypatch, normalize, mapped, dtype, at_a_time):
    monkeypatch.setattr(table, "TEXTS_AT_A_TIME", at_a_time)
    settings = {"normalize": normalize, "mapped": mapped, "dtype": dtype}
    expected = model(**settings).encode(TEXTS, max_length=None)
    found = TableEncoder(model(**settings))(TEXTS)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, atol=1e-5 if dtype == np.float32 else 2e-3)
    assert np.abs(found).max() > 0.1
    assert not found[1].any()


def test_unknown_tokens_do_not_count():
    encode = TableEncoder(model(normalize=False))
    unknown, both, known = encode(["漢", "漢 b", "b"])
    assert not unknown.any()
    np.testing.assert_allclose(both, known, rtol=1e-6)
