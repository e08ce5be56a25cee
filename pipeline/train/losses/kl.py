"""Divergence of the student's vectors from the targets, both read as distributions over their dimensions."""

from torch import Tensor
from torch.nn.functional import kl_div, log_softmax

from pipeline.params.losses import KlLoss
from pipeline.train.loop.loss import Batch, Loss, LossContext


def build(params: KlLoss, context: LossContext) -> "Kl":
    """The loss of these params."""
    return Kl(params)


class Kl(Loss):
    """The KL divergence on sentence embeddings that SimTDE tries as its output loss (sec. 4.3).

    The paper does not say how a vector becomes a distribution; here, and usually, by a softmax. It does
    not see a shift of all dimensions by one number: s + c has the loss of s.
    """

    over = "sentences"

    def __init__(self, params: KlLoss) -> None:
        super().__init__()
        self._temperature = params.temperature

    def forward(self, batch: Batch) -> Tensor:
        """T^2 times the mean over the sentences of KL(softmax(t / T) || softmax(s / T)), ()."""
        student, teacher = (
            log_softmax(side / self._temperature, dim=1) for side in (batch.vectors, batch.targets)
        )
        return self._temperature**2 * kl_div(student, teacher, reduction="batchmean", log_target=True)
