import numpy as np
import pytest
import torch
from torch import nn

from pipeline.students import bilstm

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


def with_gradients(states, lstm, words, pull):
    """The states, and the gradients of the words and all weights for this gradient of the states."""
    words = words.clone().requires_grad_()
    lstm.zero_grad()
    found = states(lstm, words, LENGTHS)
    found.float().backward(pull)
    return found.detach(), [words.grad, *(weight.grad.clone() for weight in lstm.parameters())]


def one_by_one(lstm, words, lengths):
    """PyTorch's LSTM on every text by itself, which has nothing to fill up or to pack."""
    return torch.cat([lstm(text[None])[0][0] for text in words.split(lengths.tolist())])


@pytest.mark.parametrize("states", [bilstm.filled_up, bilstm.packed, bilstm.states])
def test_states_and_gradients_are_those_of_every_text_by_itself(lstm, words, states):
    assert len(LENGTHS) > 2 * bilstm.GROUP
    pull = torch.randn(len(words), 2 * UNITS)
    expected, expected_gradients = with_gradients(one_by_one, lstm, words, pull)
    found, gradients = with_gradients(states, lstm, words, pull)
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-5)
    assert len(gradients) == 9
    for gradient, wanted in zip(gradients, expected_gradients, strict=True):
        torch.testing.assert_close(gradient, wanted, atol=2e-5, rtol=1e-4)


@pytest.mark.skipif(not bilstm.has_bfloat16(), reason="this CPU does not multiply bfloat16")
def test_in_autocast_it_computes_in_bfloat16(lstm, words):
    pull = torch.randn(len(words), 2 * UNITS)
    expected, expected_gradients = with_gradients(one_by_one, lstm, words, pull)
    with torch.autocast("cpu", torch.bfloat16):
        found, gradients = with_gradients(bilstm.states, lstm, words, pull)
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found.float(), expected, atol=0.02, rtol=0)
    for gradient, wanted in zip(gradients, expected_gradients, strict=True):
        assert torch.linalg.norm(gradient - wanted) < 0.02 * torch.linalg.norm(wanted)


def test_without_bfloat16_it_stays_in_float32(lstm, words, monkeypatch):
    monkeypatch.setattr(bilstm, "has_bfloat16", lambda: False)
    with torch.autocast("cpu", torch.bfloat16):
        found = bilstm.states(lstm, words, LENGTHS)
    torch.testing.assert_close(found, bilstm.states(lstm, words, LENGTHS), atol=0, rtol=0)
