"""Contrast: a vector has to be nearer to its own counterpart than to all others."""

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize

from pipeline.params.losses import InfonceLoss
from pipeline.train.loop.loss import Batch, Loss, LossContext


def build(params: InfonceLoss, context: LossContext) -> "Infonce":
    """The loss of these params."""
    return Infonce(params, context)


class Infonce(Loss):
    """InfoNCE of student vectors against the batch's targets: IBKD eq. 8, tokenlearn's present code."""

    def __init__(self, params: InfonceLoss, context: LossContext) -> None:
        super().__init__()
        self._temperature = params.temperature
        self.projection: nn.Module = nn.Identity()
        if params.projection == "learned":
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(context.seed)
                self.projection = nn.Linear(context.dim, context.target_dim, bias=False)
            if context.dim == context.target_dim:
                # A student often starts near the targets: a random W would first pull it away from them.
                nn.init.eye_(self.projection.weight)

    def forward(self, batch: Batch) -> Tensor:
        """Cross-entropy of cos(W s_i, t_j) / temperature over j, the right one being i, ()."""
        projected = self.projection(batch.vectors)
        return infonce(projected, batch.targets, batch.targets[:0], self._temperature)


def infonce(
    anchors: Tensor, positives: Tensor, negatives: Tensor, temperature: float, left_out: Tensor | None = None
) -> Tensor:
    """Cross-entropy of cos(a_i, c_j) / temperature over all positives and all hard negatives. IBKD eq. 10.

    Args:
        anchors: (n, d).
        positives: (n, d); row i belongs to anchor i, every other row is a negative.
        negatives: (m, d) hard negatives of the whole batch, m >= 0.
        temperature: divides the cosines.
        left_out: (n, n + m) true where a positive or hard negative is none of an anchor's negatives; false
            for its own positive. None: all are.
    """
    candidates = normalize(torch.cat([positives, negatives]), dim=1)
    logits = normalize(anchors, dim=1) @ candidates.T / temperature  # (n, n + m)
    if left_out is not None:
        logits = logits.masked_fill(left_out, -torch.inf)
    return cross_entropy(logits, torch.arange(len(anchors), device=logits.device))
