"""A bidirectional LSTM over texts end to end, each as long as it is."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import embedding
from torch.nn.utils.rnn import pack_sequence, unpack_sequence

GROUP = 32
"""Texts, of similar lengths, that are filled up to the longest of them."""

Rows = NDArray[np.int64]


def states(lstm: nn.LSTM, words: Tensor, lengths: Rows) -> Tensor:
    """Both directions' states (T, 2 units) of the word vectors (T, d) of texts of these lengths.

    The backward direction starts at a text's own end. cuDNN takes that as packed sequences. On a CPU PyTorch
    computes those by itself; oneDNN, far faster, takes texts that are filled up, one direction at a time.
    """
    return (packed if words.is_cuda else filled_up)(lstm, words, lengths)


def packed(lstm: nn.LSTM, words: Tensor, lengths: Rows) -> Tensor:
    """The states by packed sequences."""
    sequences = pack_sequence(words.split(lengths.tolist()), enforce_sorted=False)
    return torch.cat(unpack_sequence(lstm(sequences)[0]))


def filled_up(lstm: nn.LSTM, words: Tensor, lengths: Rows) -> Tensor:
    """The states by texts that are filled up at their ends; for the backward direction reversed before that.

    In autocast they are of bfloat16 where oneDNN has an LSTM of it, and of float32 on other processors.
    """
    bfloat16 = torch.is_autocast_enabled("cpu") and has_bfloat16()
    with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
        return torch.cat([_one_way(lstm, words, lengths, backward=backward) for backward in (False, True)], 1)


def has_bfloat16() -> bool:
    """Whether oneDNN computes in bfloat16 on this processor."""
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def _one_way(lstm: nn.LSTM, words: Tensor, lengths: Rows, *, backward: bool) -> Tensor:
    """One direction's states, (T, units)."""
    weights = [weight for name, weight in lstm.named_parameters() if name.endswith("_reverse") == backward]
    start = words.new_zeros(1, 1, lstm.hidden_size)
    order = np.argsort(lengths, kind="stable")
    starts = np.cumsum(lengths) - lengths
    outputs, computed, row = [], 0, np.empty(len(words), np.int64)
    for group in np.split(order, range(GROUP, len(order), GROUP)):
        step, last = np.arange(lengths[group].max())[:, None], lengths[group] - 1
        inside = step <= last
        word = starts[group] + np.where(inside, last - step if backward else step, 0)
        filled = embedding(torch.from_numpy(word), words)
        first = start.expand(1, len(group), lstm.hidden_size)
        output = torch.lstm(filled, (first, first), weights, True, 1, 0.0, lstm.training, False, False)[0]
        outputs.append(output.flatten(0, 1))
        row[word[inside]] = computed + np.flatnonzero(inside)
        computed += inside.size
    return embedding(torch.from_numpy(row), torch.cat(outputs))
