import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from small_students import vectors_of

from pipeline.core.fingerprint import of_folder, of_json
from pipeline.data import teacher_parts
from pipeline.params.runtime import Runtime
from pipeline.params.teacher import HashingTeacher
from pipeline.teacher.kinds import hashing

TEXTS = ["the cat sat", "The cat, SAT!", "sat the cat", "the dog sat", "", "?!", "ünïcödé 東京"]
PRINT = """
import sys
from pipeline.params.teacher import HashingTeacher
from pipeline.teacher.kinds.hashing import Hashing
vectors = Hashing(HashingTeacher(kind="hashing", dim=5, seed=3)).encode(sys.argv[1:], ["cls"])["cls"]
print(vectors.tobytes().hex())
"""


def load(**params):
    return hashing.load(HashingTeacher(kind="hashing", **params), Runtime())


def encode(texts=TEXTS, view="sentence", **params):
    return load(**params).encode(texts, [view])[view]


def test_vectors_are_the_same_in_every_process():
    environment = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONUTF8": "1"}
    there = subprocess.run(
        [sys.executable, "-c", PRINT, *TEXTS], env=environment, capture_output=True, check=True, text=True
    )
    assert bytes.fromhex(there.stdout) == encode(dim=5, seed=3).tobytes()


def test_seeds_are_different_teachers():
    one, other = encode(seed=1), encode(seed=2)
    assert np.abs((one * other).sum(axis=1)).max() < 0.6
    assert of_json(load(seed=1).recipes["text"]) != of_json(load(seed=2).recipes["text"])


def test_vectors_have_length_1_and_every_view_is_the_same():
    found = load(dim=48).encode(TEXTS, ["sentence", "token_mean", "cls"])
    for vectors in found.values():
        assert vectors.shape == (7, 48)
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
        assert np.array_equal(vectors, found["sentence"])


def test_a_text_is_the_sum_of_its_words():
    cat, cat_again, sat_cat, dog, empty, marks, _ = encode(dim=256)
    np.testing.assert_allclose(cat, cat_again)
    np.testing.assert_allclose(cat, sat_cat, atol=1e-6)
    assert 0.4 < cat @ dog < 0.9
    assert np.array_equal(empty, marks)


def test_a_text_does_not_depend_on_its_company():
    assert np.array_equal(encode(TEXTS[3:4])[0], encode()[3])


@pytest.fixture
def saved(tmp_path):
    state = torch.random.get_rng_state()
    for name in ("a", "b"):
        vocabulary = vectors_of(load(dim=8, seed=1).save_parts(tmp_path / name))
        teacher_parts.write_vocabulary(vocabulary, tmp_path / name)
    assert torch.equal(torch.random.get_rng_state(), state)
    return tmp_path, vocabulary


def test_its_parts_are_equal_byte_for_byte_and_readable(saved):
    folder, vocabulary = saved
    assert of_folder(folder / "a") == of_folder(folder / "b")
    tokenizer, encoder = teacher_parts.read_tokenizer(folder / "a"), teacher_parts.read_encoder(folder / "a")
    assert tokenizer.encode("cab!").tokens == ["[CLS]", "c", "##a", "##b", "[UNK]", "[SEP]"]
    assert encoder.config.vocab_size == tokenizer.get_vocab_size() == len(vocabulary)
    token = tokenizer.token_to_id("c")
    np.testing.assert_allclose(
        vocabulary[token] / np.linalg.norm(vocabulary[token]), encode(["c"], dim=8, seed=1)[0], atol=1e-6
    )
