"""Supervised contrastive loss with in-batch and given hard negatives."""

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, normalize


def infonce(anchors: Tensor, positives: Tensor, negatives: Tensor, temperature: float) -> Tensor:
    """Cross-entropy of cos(a_i, c_j) / temperature over all positives and all hard negatives. IBKD eq. 10.

    Args:
        anchors: (n, d).
        positives: (n, d); row i belongs to anchor i, every other row is a negative.
        negatives: (m, d) hard negatives of the whole batch, m >= 0.
        temperature: divides the cosines.
    """
    candidates = normalize(torch.cat([positives, negatives]), dim=1)
    logits = normalize(anchors, dim=1) @ candidates.T / temperature  # (n, n + m)
    return cross_entropy(logits, torch.arange(len(anchors), device=logits.device))
