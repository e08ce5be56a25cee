"""The packed path against the models' own forward, one tiny random model of each family."""

import numpy as np
import pytest
import torch
from small_encoders import FAMILIES, SHAPE, small_encoder
from transformers import BertConfig, BertModel

from pipeline.encoders.packing import attention, packing
from pipeline.teacher.kinds.hashing import letter_tokenizer


@pytest.fixture(params=FAMILIES)
def model(request):
    return small_encoder(request.param)


def batch():
    """Texts of many lengths, long to short, and their lengths."""
    random = np.random.default_rng(0)
    lengths = sorted(
        [1, 1, 2, attention.SHORT, attention.SHORT + 1, 80, *random.integers(1, 40, 20).tolist()],
        reverse=True,
    )
    # Any id, the padding token's too: in a text it is a token like others, but RoBERTa's positions skip it.
    texts = [torch.from_numpy(random.integers(0, len(letter_tokenizer()), length)) for length in lengths]
    return texts, lengths


def own_hidden_states(model, text):
    mask = torch.ones(1, len(text), dtype=torch.long)
    states = model(input_ids=text[None], attention_mask=mask, output_hidden_states=True).hidden_states
    return states[0][0], states[-1][0]


@pytest.mark.parametrize("training", [False, True])
def test_hidden_states_are_the_models_own(model, training):
    texts, lengths = batch()
    encoder = packing.PackedEncoder(model, training=training)
    with torch.inference_mode():
        first = encoder.embedded(torch.cat(texts), lengths).split(lengths)
        last = encoder(torch.cat(texts), lengths).split(lengths)
        for text, found_first, found_last in zip(texts, first, last, strict=True):
            expected_first, expected_last = own_hidden_states(model, text)
            torch.testing.assert_close(found_first, expected_first, atol=1e-5, rtol=0)
            torch.testing.assert_close(found_last, expected_last, atol=1e-5, rtol=0)


def test_gradients_are_the_models_own(model):
    model.double()  # the bias of keys has no gradient but rounding, which differs between processors
    texts, lengths = batch()
    encoder = packing.PackedEncoder(model, training=True)
    encoder(torch.cat(texts), lengths).square().sum().backward()
    found = {name: parameter.grad for name, parameter in model.named_parameters()}
    model.zero_grad(set_to_none=True)
    sum(own_hidden_states(model, text)[1].square().sum() for text in texts).backward()
    for name, parameter in model.named_parameters():
        if parameter.grad is None:  # a pooler
            assert found[name] is None
        else:
            torch.testing.assert_close(found[name], parameter.grad, atol=1e-10, rtol=1e-7)


def test_a_training_encoder_sees_updates(model):
    texts, lengths = batch()
    encoder = packing.PackedEncoder(model, training=True)
    with torch.no_grad():
        before = encoder(torch.cat(texts), lengths)
        for parameter in model.parameters():
            parameter.mul_(1.1)
        after = encoder(torch.cat(texts), lengths)
        assert not torch.allclose(before, after)
        torch.testing.assert_close(after, packing.PackedEncoder(model)(torch.cat(texts), lengths))


def test_another_architecture_takes_its_own_forward():
    class Other(BertModel):
        pass

    config = BertConfig(vocab_size=10, **SHAPE)
    assert packing.can_pack(BertModel(config))
    assert not packing.can_pack(Other(config))
    assert not packing.can_pack(BertModel(BertConfig(vocab_size=10, is_decoder=True, **SHAPE)))


@pytest.mark.parametrize("activation", [None, torch.nn.functional.gelu, torch.nn.functional.relu])
def test_without_torchs_private_part_the_numbers_are_the_same(activation, monkeypatch, capsys):
    packing._say_slower.cache_clear()
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
    packing.prepared(weight, bias)
    assert capsys.readouterr().err.count("the same vectors, slower") == 1
