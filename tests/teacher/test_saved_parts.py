import shutil

import numpy as np
import pytest
import torch
from model2vec.distill import distill
from small_students import vectors_of
from transformers import AutoModel, AutoTokenizer

from pipeline.data import teacher_parts

TEXT = "the cat sat on the mat"


@pytest.fixture(scope="module")
def saved(load, bert, tmp_path_factory):
    """The folder of a teacher's parts, and the vocabulary vectors."""
    folder = tmp_path_factory.mktemp("parts")
    vocabulary = vectors_of(load(bert, pooling="cls").save_parts(folder))
    teacher_parts.write_vocabulary(vocabulary, folder)
    return folder, vocabulary


def test_the_parts_are_read_as_the_teacher_was(saved, bert):
    encoder, tokenizer = teacher_parts.read_encoder(saved[0]), teacher_parts.read_tokenizer(saved[0])
    ids = tokenizer.encode(TEXT).ids
    assert ids == AutoTokenizer.from_pretrained(bert)(TEXT)["input_ids"]
    with torch.no_grad():
        states = [
            model.eval()(torch.tensor([ids])).last_hidden_state
            for model in (encoder, AutoModel.from_pretrained(bert))
        ]
    assert torch.equal(*states)


def test_no_part_is_pickled(saved):
    assert not [path for path in saved[0].rglob("*") if path.suffix in (".bin", ".pt", ".pkl")]


def test_a_tokens_vector_is_the_mean_over_itself_and_the_special_tokens(saved, bert):
    tokenizer, model = AutoTokenizer.from_pretrained(bert), AutoModel.from_pretrained(bert).eval()
    folder, vocabulary = saved
    assert vocabulary.shape == (len(tokenizer), 16)
    for token in (0, 4, 5, 17, 60, len(tokenizer) - 1):
        ids = torch.tensor([[tokenizer.cls_token_id, token, tokenizer.sep_token_id]])
        with torch.no_grad():
            states = model(ids, attention_mask=torch.ones_like(ids)).last_hidden_state[0]
        np.testing.assert_allclose(vocabulary[token], states.mean(0), atol=1e-5)
    np.testing.assert_allclose(teacher_parts.read_vocabulary(folder), vocabulary, rtol=1e-3, atol=1e-6)


def test_a_token_that_the_model_has_no_embedding_for_has_zeros(load, bert, tmp_path):
    """EmbeddingGemma's tokenizer has one more token, of images, than its table has rows."""
    shutil.copytree(bert, tmp_path / "bert")
    tokenizer = AutoTokenizer.from_pretrained(bert)
    rows = len(tokenizer)
    tokenizer.add_special_tokens({"additional_special_tokens": ["<image>"]})
    tokenizer.save_pretrained(tmp_path / "bert")
    vocabulary = vectors_of(load(tmp_path / "bert", pooling="cls").save_parts(tmp_path / "parts"))
    assert vocabulary.shape == (rows + 1, 16)
    assert vocabulary[:rows].any(axis=1).all()
    assert not vocabulary[rows].any()


def test_vocabulary_vectors_are_model2vecs(saved, bert):
    static = distill(
        str(bert),
        device="cpu",
        pca_dims=None,
        sif_coefficient=None,
        token_remove_pattern=None,
        quantize_to="float32",
    )
    ours = AutoTokenizer.from_pretrained(bert).get_vocab()
    theirs = static.tokenizer.get_vocab()
    shared = [piece for piece in ours if piece in theirs]
    assert len(shared) > 70
    np.testing.assert_allclose(
        saved[1][[ours[piece] for piece in shared]],
        static.embedding[[theirs[piece] for piece in shared]],
        atol=1e-5,
    )


def test_lower_precision_leaves_float32_vocabulary_vectors(load, bert, tmp_path, saved):
    vocabulary = vectors_of(load(bert, pooling="mean", precision="bfloat16").save_parts(tmp_path))
    assert vocabulary.dtype == np.float32
    np.testing.assert_allclose(vocabulary, saved[1], atol=0.3)
