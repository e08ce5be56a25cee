import numpy as np
import pytest
import torch
from model2vec.distill.inference import create_embeddings
from small_encoders import FAMILIES, small_encoder
from transformers import AlbertConfig, AlbertModel

from pipeline.encoders.packing.packing import can_pack
from pipeline.train.students.shared.token_means import TOGETHER, token_means


def albert() -> AlbertModel:
    """One that is not packed."""
    shape = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return AlbertModel(AlbertConfig(vocab_size=77, embedding_size=8, initializer_range=0.5, **shape))


def lists(count: int) -> list[list[int]]:
    rng = np.random.default_rng(0)
    return [rng.integers(1, 77, size=rng.integers(1, 12)).tolist() for _ in range(count)]


@pytest.mark.parametrize("family", ["bert", "mpnet", "distilbert", "albert"])
def test_means_are_model2vecs(family):
    encoder = small_encoder(family) if family in FAMILIES else albert()
    assert can_pack(encoder) == (family != "albert")
    given = lists(TOGETHER + 44)
    found = token_means(encoder, given)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, create_embeddings(encoder, given, "cpu", 0), atol=2e-5)
