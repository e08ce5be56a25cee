"""One minus the cosine to the target, with a penalty on large outputs."""

from torch import Tensor
from torch.nn.functional import cosine_similarity

from pipeline.params.losses import CosineLoss
from pipeline.train.loop.loss import Batch, Loss, LossContext


def build(params: CosineLoss, context: LossContext) -> "Cosine":
    """The loss of these params."""
    return Cosine(params)


class Cosine(Loss):
    """SRA eq. 2 with scale 0.5 and no penalty; tokenlearn's blog post with 1 and 1."""

    over = "sentences"

    def __init__(self, params: CosineLoss) -> None:
        super().__init__()
        self._params = params

    def forward(self, batch: Batch) -> Tensor:
        """Mean of scale * (1 - cos(s, t)), plus norm_penalty * mean(s^2), ()."""
        distance = 1 - cosine_similarity(batch.vectors, batch.targets, dim=1)
        penalty = self._params.norm_penalty * batch.vectors.square().mean()
        return self._params.scale * distance.mean() + penalty
