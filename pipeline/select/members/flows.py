"""A flow of a member's vectors, fitted by maximum likelihood on a sample of the corpus."""

import numpy as np
import torch
from numpy.typing import NDArray

from pipeline.core.errors import UserError
from pipeline.params.teacher import Flow
from pipeline.teacher.shared.composition import check_flow
from pipeline.teacher.shared.flow import NormalisingFlow

MEASURED_ROWS = 4096
"""The first vectors: the flow starts from their means and variances, and its likelihood of them is told."""
LOST = 0.1
"""Nats a dimension by which a flow that was trained as it should be may be less likely than at its start."""


def fit(vectors: NDArray[np.float32], settings: Flow, key: str) -> tuple[NormalisingFlow, float, float]:
    """A flow, and the mean negative log-likelihood before and after, in nats a dimension.

    It is fitted on the CPU, so that equal inputs give equal bytes.

    Args:
        vectors: (n, d), in any order that has nothing to do with what they are.
        settings: what is fitted, and how.
        key: of the settings in params.yaml, for messages.

    Raises:
        UserError: there are too few dimensions for the levels, or the likelihood is no number or falls.
    """
    rows, dim = vectors.shape
    check_flow(settings, dim, key)
    flow, known = NormalisingFlow(dim, settings), torch.from_numpy(vectors)
    flow.initialise(known[:MEASURED_ROWS])
    before = _cost(flow, known)
    optimizer = torch.optim.Adam(flow.parameters(), settings.lr)
    for epoch in range(settings.epochs):
        order = np.random.default_rng([settings.seed, epoch]).permutation(rows)
        for start in range(0, rows, settings.batch_size):
            batch = known[torch.from_numpy(order[start : start + settings.batch_size])]
            cost = -flow.log_likelihood(batch).mean() / dim
            if not torch.isfinite(cost):
                raise UserError(
                    f"{key}: the likelihood is no number any more; lower {key}.lr, {settings.lr:g}"
                )
            optimizer.zero_grad()
            cost.backward()
            optimizer.step()
    after = _cost(flow, known)
    if not after < before + LOST:
        raise UserError(
            f"{key}: its training raised the negative log-likelihood from {before:.4g} to {after:.4g} nats a "
            f"dimension; lower {key}.lr, {settings.lr:g}"
        )
    return flow, before, after


@torch.no_grad()
def _cost(flow: NormalisingFlow, vectors: torch.Tensor) -> float:
    return float(-flow.log_likelihood(vectors[:MEASURED_ROWS]).mean() / vectors.shape[1])
