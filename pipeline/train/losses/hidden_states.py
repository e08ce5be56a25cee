"""Distance of the student's hidden states to the teacher's, layer to layer (SimTDE's LMX-KD)."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from pipeline.core.errors import UserError
from pipeline.params.losses import HiddenStatesLoss
from pipeline.train.loop.loss import Batch, Loss, LossContext
from pipeline.train.students.shared.resolve import hidden_pairs


def build(params: HiddenStatesLoss, context: LossContext) -> "HiddenStates":
    """The loss of these params.

    Raises:
        UserError: there are no states of the teacher, or not of the layers that are named.
    """
    if context.hidden is None:
        raise UserError("loss: hidden_states has no hidden states of the teacher; set encode.hidden to {}")
    return HiddenStates(params, context)


class HiddenStates(Loss):
    """TinyBERT eq. 8 on chosen layers: MSE(H_s W, H_t), W a matrix for each pair of layers, or none.

    With h and t the states of a token, W their pair's matrix and d the teacher's width, ||h W - t||^2 / d is
    averaged over a text's tokens, without special ones, over the texts, and over the pairs. Texts without
    states count as nothing, and the mean is divided by the share of texts that have some: on average it is
    that over those, and parts of a batch add up. In eval mode it is 0, for dev texts have no states.
    """

    over = "sentences"
    of_vectors = False

    def __init__(self, params: HiddenStatesLoss, context: LossContext) -> None:
        super().__init__()
        assert context.hidden is not None
        self._teacher = context.hidden
        width, theirs = context.width, self._teacher.width
        self._pairs = hidden_pairs(params, context.layers, self._teacher.layers, width, theirs)
        self.layers = tuple(sorted({own for own, _ in self._pairs}))
        matrices = []
        if params.projection == "learned":
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(context.seed)
                matrices = [nn.Linear(width, theirs, bias=False) for _ in self._pairs]
        for matrix in matrices if width == theirs else ():
            nn.init.eye_(matrix.weight)
        self.matrices = nn.ModuleList(matrices)

    def read_ahead(self, rows: NDArray[np.int64]) -> None:
        """Have the disk read the teacher's states of these sentences."""
        self._teacher.read_ahead(rows)

    def forward(self, batch: Batch) -> Tensor:
        """Mean over the sentences, ().

        Raises:
            UserError: the student reads other tokens than the teacher.
        """
        if not self.training:
            return batch.vectors.new_zeros(())
        assert batch.tokens is not None
        matched = self._teacher.match(batch.rows.cpu().numpy(), batch.tokens.ids, batch.tokens.offsets)
        states = torch.from_numpy(self._teacher.read(matched, [theirs for _, theirs in self._pairs]))
        # Of each token: its share of its text's mean, of the batch's mean, and of an epoch's.
        weights = (
            np.repeat(1 / matched.lengths.clip(1), matched.lengths) / len(batch.rows) / self._teacher.share
        )
        total = batch.vectors.new_zeros(())
        targets, of_tokens = states.to(total), torch.from_numpy(weights).to(total)
        places = torch.from_numpy(matched.student).to(total.device)
        for number, (own, _) in enumerate(self._pairs):
            found = batch.states[own][places]
            # Without a token, too: all processes of a training need gradients of the same matrices.
            found = self.matrices[number](found) if self.matrices else found
            total = total + (found - targets[:, number]).square().mean(dim=1) @ of_tokens
        return total / len(self._pairs)
