import numpy as np
import pytest
import torch
from torch import nn

from pipeline.core import machine
from pipeline.train.students.kinds import bilstm

WIDTH, UNITS = 12, 8
LENGTHS = np.array([5, 3, 90, 1, 7, 7, 40] * 10)


@pytest.fixture(scope="module")
def lstm():
    torch.manual_seed(0)
    return nn.LSTM(WIDTH, UNITS, batch_first=True, bidirectional=True)


@pytest.fixture(scope="module")
def words():
    torch.manual_seed(1)
    return torch.randn(int(LENGTHS.sum()), WIDTH)


@pytest.fixture(scope="module")
def pull(words):
    """A gradient of the states."""
    torch.manual_seed(2)
    return torch.randn(len(words), 2 * UNITS)


def with_gradients(states, lstm, words, pull, lengths=LENGTHS):
    """The states, and the gradients of the words and all weights for this gradient of the states."""
    words = words.clone().requires_grad_()
    lstm.zero_grad()
    found = states(lstm, words, lengths)
    found.float().backward(pull)
    return found.detach(), [words.grad, *(weight.grad.clone() for weight in lstm.parameters())]


def one_by_one(lstm, words, lengths):
    """PyTorch's LSTM on every text by itself, which has nothing to fill up or to pack."""
    return torch.cat([lstm(text[None])[0][0] for text in words.split(lengths.tolist())])


def assert_alike(found, expected):
    torch.testing.assert_close(found[0], expected[0], atol=1e-6, rtol=1e-5)
    for gradient, wanted in zip(found[1], expected[1], strict=True):
        torch.testing.assert_close(gradient, wanted, atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("states", [bilstm.filled_up, bilstm.packed])
def test_states_and_gradients_are_those_of_every_text_by_itself(lstm, words, pull, states):
    assert len(LENGTHS) > 2 * bilstm.GROUP
    assert_alike(with_gradients(states, lstm, words, pull), with_gradients(one_by_one, lstm, words, pull))


@pytest.mark.parametrize("lengths", [[1], [4], [1, 1], [3, 1, 2]])
def test_few_and_short_texts(lstm, words, pull, lengths):
    lengths = np.array(lengths)
    own, own_pull = words[: lengths.sum()], pull[: lengths.sum()]
    found, expected = (
        with_gradients(way, lstm, own, own_pull, lengths) for way in (bilstm.filled_up, one_by_one)
    )
    assert_alike(found, expected)


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="PyTorch is built without oneDNN")
def test_a_cpu_computes_them_by_onednn(lstm, words):
    with torch.profiler.profile() as profile:
        bilstm.states(lstm, words, LENGTHS)
    calls = {event.key: event.count for event in profile.key_averages()}
    assert calls["aten::mkldnn_rnn_layer"] == 2 * -(-len(LENGTHS) // bilstm.GROUP)


def test_in_autocast_it_computes_in_bfloat16(lstm, words, pull):
    if not machine.gain(machine.Layer("lstm", 16, 8), "cpu"):
        pytest.skip("torch has no LSTM of bfloat16 on this CPU")
    expected, expected_gradients = with_gradients(one_by_one, lstm, words, pull)
    with torch.autocast("cpu", torch.bfloat16):
        found, gradients = with_gradients(bilstm.states, lstm, words, pull)
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found.float(), expected, atol=0.02, rtol=0)
    for gradient, wanted in zip(gradients, expected_gradients, strict=True):
        assert torch.linalg.norm(gradient - wanted) < 0.02 * torch.linalg.norm(wanted)


def test_packed_sequences_stay_in_float32_whatever_autocast_says(lstm, words, pull):
    def in_autocast(*given):
        with torch.autocast("cpu", torch.bfloat16):
            return bilstm.packed(*given)

    found, expected = (with_gradients(way, lstm, words, pull) for way in (in_autocast, bilstm.packed))
    assert found[0].dtype == torch.float32
    assert_alike(found, expected)
