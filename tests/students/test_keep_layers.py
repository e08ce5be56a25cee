import pytest
import torch
from transformers import (
    BertConfig,
    BertModel,
    DistilBertConfig,
    DistilBertModel,
    GPT2Config,
    GPT2Model,
    MPNetConfig,
    MPNetModel,
)

from pipeline.core.errors import UserError
from pipeline.students.teacher_layers import keep_layers, narrow_feed_forward

IDS = torch.tensor([[2, 7, 9, 3]])
SMALL = {
    "vocab_size": 20,
    "hidden_size": 16,
    "num_hidden_layers": 4,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 16,
}


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
        DistilBertModel(DistilBertConfig(vocab_size=20, dim=16, n_layers=4, n_heads=2, hidden_dim=32)),
    ],
    ids=["mpnet", "distilbert"],
)
def test_other_families_are_cut_alike(other):
    torch.testing.assert_close(hidden_states(keep_layers(other, (0, 1))), hidden_states(other)[:3])


def test_a_layer_that_is_not_there(bert):
    with pytest.raises(UserError, match=r"init.layers names layer 4, the teacher has 4 \(0 to 3\)"):
        keep_layers(bert, (0, 4))


def test_a_family_with_other_names():
    gpt = GPT2Model(GPT2Config(vocab_size=20, n_embd=16, n_layer=2, n_head=2))
    with pytest.raises(UserError, match="the layers of a gpt2 model cannot be told"):
        keep_layers(gpt, (0,))


@pytest.mark.parametrize(
    "whole",
    [
        BertModel(BertConfig(**SMALL)),
        MPNetModel(MPNetConfig(**SMALL)),
        DistilBertModel(DistilBertConfig(vocab_size=20, dim=16, n_layers=4, n_heads=2, hidden_dim=32)),
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


def test_more_neurons_than_there_are(bert):
    with pytest.raises(UserError, match=r"init.intermediate is 33, the encoder's layers have 32 neurons"):
        narrow_feed_forward(bert, 33)


def test_feed_forward_blocks_with_other_names():
    gpt = GPT2Model(GPT2Config(vocab_size=20, n_embd=16, n_layer=2, n_head=2))
    with pytest.raises(UserError, match="the feed-forward blocks of a gpt2 model are unknown"):
        narrow_feed_forward(gpt, 4)
