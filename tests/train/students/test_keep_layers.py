from copy import deepcopy

import numpy as np
import pytest
import torch
from refusals import refuses
from sklearn.linear_model import LinearRegression
from torch import nn
from transformers import (
    AlbertConfig,
    AlbertModel,
    BertConfig,
    BertModel,
    DistilBertConfig,
    DistilBertModel,
    Gemma3TextConfig,
    Gemma3TextModel,
    GPT2Config,
    GPT2Model,
    LongformerConfig,
    LongformerModel,
    ModernBertConfig,
    ModernBertModel,
    MPNetConfig,
    MPNetModel,
    Qwen3Config,
    Qwen3Model,
)

from pipeline.data.tokens.tokens import Tokens
from pipeline.train.students.shared.feed_forward import fit_feed_forward, narrow_feed_forward
from pipeline.train.students.shared.teacher_layers import keep_layers

IDS = torch.tensor([[2, 7, 9, 3]])
SMALL = {
    "vocab_size": 20,
    "hidden_size": 16,
    "num_hidden_layers": 4,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 16,
}

DISTILBERT = DistilBertConfig(vocab_size=20, dim=16, n_layers=4, n_heads=2, hidden_dim=32)


@pytest.fixture(scope="module")
def bert() -> BertModel:
    return BertModel(BertConfig(**SMALL)).eval()


def hidden_states(model) -> tuple[torch.Tensor, ...]:
    with torch.no_grad():
        return model.eval()(IDS, output_hidden_states=True).hidden_states


@pytest.mark.parametrize("count", [1, 2, 4])
def test_the_first_layers_give_the_teachers_own_hidden_states(bert, count):
    kept = keep_layers(bert, tuple(range(count)))
    assert kept.config.num_hidden_layers == count
    torch.testing.assert_close(hidden_states(kept), hidden_states(bert)[: count + 1], rtol=0, atol=0)


def test_chosen_layers_are_applied_in_their_order(bert):
    expected = hidden_states(bert)[0]
    with torch.no_grad():
        for layer in (1, 3):
            output = bert.encoder.layer[layer](expected)
            expected = output[0] if isinstance(output, tuple) else output
    torch.testing.assert_close(hidden_states(keep_layers(bert, (1, 3)))[-1], expected)


def test_the_teacher_is_left_whole(bert):
    before = hidden_states(bert)
    with torch.no_grad():
        for parameter in keep_layers(bert, (3,)).parameters():
            parameter.zero_()
    torch.testing.assert_close(hidden_states(bert), before, rtol=0, atol=0)


@pytest.mark.parametrize(
    "other",
    [
        MPNetModel(MPNetConfig(**SMALL)),
        DistilBertModel(DISTILBERT),
        GPT2Model(GPT2Config(vocab_size=20, n_embd=16, n_layer=2, n_head=2)),
    ],
    ids=["mpnet", "distilbert", "gpt2"],
)
def test_other_families_are_cut_alike(other):
    torch.testing.assert_close(hidden_states(keep_layers(other, (0, 1))), hidden_states(other)[:3])


SPECIAL = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2}
HEADS = {"num_key_value_heads": 1, "head_dim": 8}


@pytest.mark.parametrize(
    ("whole", "layers"),
    [
        (ModernBertModel(ModernBertConfig(**SMALL, **SPECIAL, local_attention=2)), (0, 2, 3)),
        (Qwen3Model(Qwen3Config(**SMALL, **HEADS)), (1, 3)),
        (
            Gemma3TextModel(Gemma3TextConfig(**SMALL, **HEADS, sliding_window=2, sliding_window_pattern=2)),
            (1, 2),
        ),
    ],
    ids=["modernbert", "qwen3", "gemma3"],
)
def test_layers_keep_their_kind_of_attention(whole, layers):
    """Some see the whole text and others a window of it, by their place among all."""
    reference = deepcopy(whole)
    reference.layers = nn.ModuleList(reference.layers[layer] for layer in layers)
    reference.config.use_cache = False  # it goes by a layer's number in the whole model
    reference.config.num_hidden_layers = len(layers)
    reference.config.layer_types = [whole.config.layer_types[layer] for layer in layers]
    kept = keep_layers(whole, layers)
    torch.testing.assert_close(hidden_states(kept)[-1], hidden_states(reference)[-1])


def test_longformers_layers_keep_their_windows():
    widths = {"hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 16}
    config = LongformerConfig(num_hidden_layers=4, vocab_size=50, attention_window=[2, 4, 8, 4], **widths)
    whole = LongformerModel(config).eval()
    kept = keep_layers(whole, (1, 3)).eval()
    assert kept.config.attention_window == [4, 4]
    whole.encoder.layer = nn.ModuleList(whole.encoder.layer[layer] for layer in (1, 3))
    torch.testing.assert_close(hidden_states(kept)[-1], hidden_states(whole)[-1])


def test_a_first_layer_unlike_the_others_has_to_come_first():
    whole = ModernBertModel(ModernBertConfig(**SMALL, **SPECIAL))
    with refuses("layers 1, 3 ", "modernbert", "let init.layers"):
        keep_layers(whole, (1, 3))


def test_a_layer_that_is_not_there(bert):
    with refuses("init.layers", "layer 4,", "(0 to 3)"):
        keep_layers(bert, (0, 4))


@pytest.mark.parametrize(
    "whole",
    [
        BertModel(BertConfig(**SMALL)),
        MPNetModel(MPNetConfig(**SMALL)),
        DistilBertModel(DISTILBERT),
    ],
    ids=["bert", "mpnet", "distilbert"],
)
def test_a_narrow_feed_forward_block_computes_what_its_neurons_did(whole):
    """Neurons that nothing leads from add nothing: without them the hidden states stay the same."""
    with torch.no_grad():
        for name, parameter in whole.named_parameters():
            if name.endswith(("output.dense.weight", "ffn.lin2.weight")) and parameter.shape == (16, 32):
                parameter[:, ::2] = 0
    narrow = narrow_feed_forward(whole, 16)
    assert sum(p.numel() for p in whole.parameters()) - sum(p.numel() for p in narrow.parameters()) == (
        4 * 16 * (16 + 1 + 16)
    )
    torch.testing.assert_close(hidden_states(narrow), hidden_states(whole))


@pytest.mark.parametrize(
    "make",
    [
        lambda: BertModel(BertConfig(**SMALL)),
        lambda: MPNetModel(MPNetConfig(**SMALL)),
        lambda: DistilBertModel(
            DistilBertConfig(vocab_size=20, dim=16, n_layers=4, n_heads=2, hidden_dim=32)
        ),
        lambda: AlbertModel(AlbertConfig(**SMALL, embedding_size=8)),
    ],
    ids=["bert", "mpnet", "distilbert", "albert"],
)
def test_fitted_neurons_stand_in_for_those_left_out(make):
    """Copies of neurons are not missed: those that stay take over what leads from them."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        whole = make().eval()
    with torch.no_grad():
        for name, parameter in whole.named_parameters():
            part = name.removesuffix(".weight").removesuffix(".bias")
            if part.endswith(("intermediate.dense", "lin1", "ffn")):
                parameter *= 20  # for blocks that matter
                parameter[16:] = parameter[:16]
            elif part.endswith((".output.dense", "lin2", "ffn_output")) and parameter.shape == (16, 32):
                parameter *= 20
                parameter[:, 16:] /= 50  # the copies are the weaker ones
    narrow = narrow_feed_forward(whole, 16).eval()
    texts = np.random.default_rng(0).integers(0, 20, (600, 12))
    tokens = Tokens(texts.reshape(-1).astype(np.int32), np.arange(601) * 12)
    before = distance(narrow, whole, texts)
    fit_feed_forward(whole, narrow, tokens, 1e-9)
    assert distance(narrow, whole, texts) < before / 10


def test_the_fit_is_the_least_squares_solution(bert):
    """As scikit-learn solves it, for the first block, whose inputs are the same in both."""
    narrow = narrow_feed_forward(bert, 8)
    texts = np.random.default_rng(0).integers(0, 20, (200, 8))
    fit_feed_forward(bert, narrow, Tokens(texts.reshape(-1).astype(np.int32), np.arange(201) * 8), 1e-12)
    few, many = narrow.encoder.layer[0], bert.encoder.layer[0]
    read = []
    handle = many.intermediate.register_forward_pre_hook(lambda _, inputs: read.append(inputs[0]))
    with torch.no_grad():
        bert(torch.from_numpy(texts))
        handle.remove()
        states = read[0].reshape(-1, 16)
        target = many.output.dense(many.intermediate(states)).double().numpy()
        inputs = few.intermediate(states).double().numpy()
        ours = few.output.dense(few.intermediate(states)).numpy()
    reference = LinearRegression().fit(inputs, target)
    np.testing.assert_allclose(ours, reference.predict(inputs), atol=1e-4)


def test_a_fit_does_not_draw_random_numbers(bert):
    """Kept layers are a new model, which would have its dropout on."""
    texts = np.random.default_rng(0).integers(0, 20, (50, 8)).reshape(-1).astype(np.int32)
    found = []
    for seed in range(2):
        torch.manual_seed(seed)
        whole = keep_layers(bert, (1, 3)).train()
        narrow = narrow_feed_forward(whole, 8)
        fit_feed_forward(whole, narrow, Tokens(texts, np.arange(51) * 8), 1e-3)
        found.append(hidden_states(narrow)[-1])
    assert not keep_layers(bert, (1, 3)).training
    torch.testing.assert_close(*found, rtol=0, atol=0)


def test_texts_without_tokens_and_layers_that_run_in_chunks(bert):
    narrow = narrow_feed_forward(bert, 8)
    before = hidden_states(narrow)
    fit_feed_forward(bert, narrow, Tokens(np.empty(0, np.int32), np.zeros(3, np.int64)), 1e-3)
    torch.testing.assert_close(hidden_states(narrow), before, rtol=0, atol=0)
    chunks = BertModel(BertConfig(**SMALL, chunk_size_feed_forward=1))
    chunks.load_state_dict(bert.state_dict())
    texts = np.random.default_rng(0).integers(0, 20, (50, 8)).reshape(-1).astype(np.int32)
    other = deepcopy(narrow)
    fit_feed_forward(bert, narrow, Tokens(texts, np.arange(51) * 8), 1e-3)
    fit_feed_forward(chunks, other, Tokens(texts, np.arange(51) * 8), 1e-3)
    torch.testing.assert_close(hidden_states(narrow), hidden_states(other))


def test_blocks_that_leave_nothing_out_stay_as_they_are(bert):
    same = narrow_feed_forward(bert, 32)
    fit_feed_forward(bert, same, Tokens(np.arange(20, dtype=np.int32), np.array([0, 20])), 1e-3)
    torch.testing.assert_close(hidden_states(same), hidden_states(bert), rtol=0, atol=0)


def test_fitted_neurons_of_fewer_tokens_read_the_whole_encoders_ids(bert):
    texts = np.random.default_rng(0).integers(0, 20, (100, 8))
    kept = np.arange(20)[::-1].copy()
    offsets = np.arange(101) * 8
    one, other = narrow_feed_forward(bert, 8), narrow_feed_forward(bert, 8)
    fit_feed_forward(bert, one, Tokens(texts.reshape(-1).astype(np.int32), offsets), 1e-3)
    renamed = (19 - texts).reshape(-1).astype(np.int32)
    fit_feed_forward(bert, other, Tokens(renamed, offsets), 1e-3, kept)
    torch.testing.assert_close(hidden_states(one), hidden_states(other), rtol=0, atol=0)


def distance(one, other, texts) -> float:
    with torch.no_grad():
        first, second = (model(torch.from_numpy(texts)).last_hidden_state for model in (one, other))
    return float((first - second).norm() / second.norm())


def test_more_neurons_than_there_are(bert):
    with refuses("init.intermediate", " 33,", " 32 neurons"):
        narrow_feed_forward(bert, 33)


def test_feed_forward_blocks_with_other_names():
    gpt = GPT2Model(GPT2Config(vocab_size=20, n_embd=16, n_layer=2, n_head=2))
    with refuses("init.intermediate", "gpt2", "set it to null"):
        narrow_feed_forward(gpt, 4)
