"""An LSTM that starts as a copy of its word vectors (`init.lstm: identity` of a BiLSTM)."""

import numpy as np
import torch
from torch import Tensor, nn

OPEN = 2.0
"""Bias of a gate that starts open; the negative of it: all but shut."""
STARTS = (OPEN, -OPEN, 0.0, OPEN)
"""The biases in PyTorch's order: input, forget, cell and output."""
CELL = 2
"""The cell's place among them."""


@torch.no_grad()
def copy_words(lstm: nn.LSTM, words: Tensor, seed: int) -> None:
    """Let units start as copies of the word vectors, turned; the other units stay as they are.

    The copied dimensions are all, or the principal ones where both directions' units are fewer: half of them
    in the forward direction, the rest in the backward one. A copy admits 0.88 of its word and keeps 0.12 of
    the cell, sigmoid(2) and sigmoid(-2), so that states are near a linear map of their words.

    Args:
        lstm: of one layer and both directions, with biases.
        words: (V, d) its word vectors; rows of zeros do not count.
        seed: of the turn.
    """
    units = lstm.hidden_size
    copied = min(2 * units, words.shape[1])
    norms = words.norm(dim=1)
    principal = torch.linalg.eigh(words.double().T @ words.double())[1][:, -copied:]
    noise = np.random.default_rng(seed).standard_normal((copied, copied))
    turn = torch.linalg.qr(torch.from_numpy(noise))[0]
    rows = (principal @ turn).T.float() / norms[norms > 0].mean()
    for suffix, part in zip(("", "_reverse"), rows.tensor_split(2), strict=True):
        into, within = (getattr(lstm, f"weight_{kind}_l0{suffix}") for kind in ("ih", "hh"))
        bias, other = (getattr(lstm, f"bias_{kind}_l0{suffix}") for kind in ("ih", "hh"))
        for gate, start in enumerate(STARTS):
            some = slice(gate * units, gate * units + len(part))
            into[some], within[some] = part if gate == CELL else 0.0, 0.0
            bias[some], other[some] = start, 0.0
