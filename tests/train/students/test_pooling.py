"""`init.pooling` of a student with an encoder: the mean of the tokens, or the first one's state."""

from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from small_students import TEXTS, compact_block, own_vectors, targets, transformer_block, write_encoder
from transformers import (
    AutoModel,
    AutoTokenizer,
    BertConfig,
    BertModel,
    DebertaV2Config,
    DebertaV2Model,
    PreTrainedModel,
)

from pipeline.data.tokens.tokens import Tokens
from pipeline.teacher.kinds.hashing import letter_tokenizer
from pipeline.train.students.kinds import compact, transformer

SHAPE = {
    "vocab_size": len(letter_tokenizer()),
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 64,
}
ENCODERS = {
    "packed": lambda: BertModel(BertConfig(**SHAPE)),
    "padded": lambda: DebertaV2Model(DebertaV2Config(**SHAPE)),
}
INIT = {"pooling": "cls", "max_length": 32, "layers": None}


def encoder(name: str) -> PreTrainedModel:
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(0)
        made = ENCODERS[name]().eval()
        for parameter in made.parameters():
            torch.nn.init.normal_(parameter, std=0.3)
    return made


@pytest.mark.parametrize("name", ENCODERS)
@pytest.mark.parametrize("kind", ["transformer", "compact"])
@pytest.mark.parametrize("projection", ["none", "ridge"])
def test_the_first_tokens_state_is_what_is_trained_saved_and_shipped(name, kind, projection, tmp_path: Path):
    parts = write_encoder(encoder(name), tmp_path / "teacher")
    init, dim = {**INIT, "projection": projection}, 16 if projection == "none" else 6
    if kind == "compact":
        student = compact.build(compact_block(dim=dim, init={**init, "table_dim": 8}), parts)
    else:
        student = transformer.build(transformer_block(dim=dim, init=init), parts)
    student.fit_projection(student.tokenise(TEXTS), targets(dim))
    student.encode(student.tokenise(TEXTS)).vectors.square().sum().backward()
    assert student.module[0].model.get_input_embeddings().weight.grad.any()
    student.save(tmp_path / "student")
    plain = SentenceTransformer(str(tmp_path / "student"), device="cpu")
    texts = [*TEXTS, "", "abc " * 40]
    for batch in (1, 32):
        found = plain.encode(texts, batch_size=batch)
        # Solved on eight texts, the projection has large weights.
        np.testing.assert_allclose(found, own_vectors(student, texts), atol=1e-3)
    if projection == "none":
        model = AutoModel.from_pretrained(tmp_path / "student").eval()
        tokenizer = AutoTokenizer.from_pretrained(tmp_path / "student")
        inputs = tokenizer(TEXTS[0], return_tensors="pt")
        with torch.no_grad():
            first = model(**inputs).last_hidden_state[0, 0]
        np.testing.assert_allclose(found[0], first, atol=1e-5)


@pytest.mark.parametrize("pooling", ["cls", "mean"])
@pytest.mark.parametrize("name", ENCODERS)
def test_a_text_without_tokens_has_no_neighbours_state(name, pooling, tmp_path: Path):
    """A tokenizer without special tokens has none for an empty text."""
    parts = write_encoder(encoder(name), tmp_path / "teacher")
    init = {**INIT, "projection": "none", "pooling": pooling}
    student = transformer.build(transformer_block(dim=16, init=init), parts)
    ids = np.array([5, 6, 7, 8, 9], np.int32)
    alone = student.encode(Tokens(ids, np.array([0, 2, 5]))).vectors
    found = student.encode(Tokens(ids, np.array([0, 0, 2, 2, 5, 5]))).vectors
    torch.testing.assert_close(found[[1, 3]], alone, atol=1e-5, rtol=1e-5)
    assert not found[[0, 2, 4]].any()
    none = student.encode(Tokens(ids[:0], np.array([0, 0, 0]))).vectors
    assert none.shape == (2, 16)
    assert not none.any()
