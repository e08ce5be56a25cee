"""Mean squared distance to the target."""

from torch import Tensor

from pipeline.params.losses import MseLoss
from pipeline.train.loop.loss import Batch, Loss, LossContext


def build(params: MseLoss, context: LossContext) -> "Mse":
    """The loss of these params."""
    return Mse(params)


class Mse(Loss):
    """HPD eq. 2; as HPD's released code has it, averaged over the dimensions too."""

    over = "sentences"

    def __init__(self, params: MseLoss) -> None:
        super().__init__()
        self._average = params.variant == "code"

    def forward(self, batch: Batch) -> Tensor:
        """Mean over the sentences of ||s - t||^2, ()."""
        squares = (batch.vectors - batch.targets).square()
        return squares.mean() if self._average else squares.sum(dim=1).mean()
