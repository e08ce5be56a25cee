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
from pipeline.students.teacher_layers import keep_layers

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
