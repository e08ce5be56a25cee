"""Means of an encoder's last hidden states over a few tokens each, as model2vec has them of a vocabulary."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pipeline.core.progress import progress
from pipeline.encoders.packing.packing import PackedEncoder, can_pack

if TYPE_CHECKING:
    from transformers import PreTrainedModel

TOGETHER = 256
"""Lists that go through the encoder at a time."""


def token_means(encoder: "PreTrainedModel", lists: Sequence[Sequence[int]]) -> NDArray[np.float32]:
    """The mean (n, d) over all tokens of each list, special ones included; packed where that can be.

    Args:
        encoder: on the CPU, in float32.
        lists: n lists of token ids, none of them empty.
    """
    lengths = np.array([len(one) for one in lists], np.int64)
    order = np.argsort(lengths, kind="stable")
    packed = PackedEncoder(encoder.eval()) if can_pack(encoder) else None
    means = np.empty((len(lists), 0), np.float32)
    with progress("the teacher's encoder", len(lists), "tokens") as advance:
        for start in range(0, len(lists), TOGETHER):
            rows = order[start : start + TOGETHER]
            some = [lists[row] for row in rows.tolist()]
            found = _packed(packed, some) if packed else _padded(encoder.eval(), some)
            if not start:
                means = np.empty((len(lists), found.shape[1]), np.float32)
            means[rows] = found
            advance(len(rows))
    return means


def _packed(encoder: PackedEncoder, lists: list[Sequence[int]]) -> NDArray[np.float32]:
    """The means of lists from short to long."""
    import torch

    lengths = [len(one) for one in lists]
    with torch.inference_mode():
        states = encoder(torch.from_numpy(np.concatenate(lists).astype(np.int64)), lengths).float().numpy()
    sums = np.add.reduceat(states, np.cumsum([0, *lengths[:-1]]))
    return (sums / np.array(lengths)[:, None]).astype(np.float32)


def _padded(encoder: "PreTrainedModel", lists: list[Sequence[int]]) -> NDArray[np.float32]:
    """The means by the encoder's own forward pass."""
    import torch

    lengths = torch.tensor([len(one) for one in lists])
    ids = torch.zeros(len(lists), int(lengths.max()), dtype=torch.long)
    for row, one in enumerate(lists):
        ids[row, : len(one)] = torch.tensor(one)
    mask = torch.arange(ids.shape[1]) < lengths[:, None]
    with torch.inference_mode():
        states = encoder(input_ids=ids, attention_mask=mask.long()).last_hidden_state.float()
    return ((states * mask[..., None]).sum(1) / lengths[:, None]).numpy()
