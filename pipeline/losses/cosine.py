"""One minus the cosine to the target, with a penalty on large outputs."""

from collections.abc import Callable

from torch import Tensor
from torch.nn.functional import cosine_similarity

from pipeline.core.params.students import CosineLoss


def build(params: CosineLoss) -> Callable[[Tensor, Tensor], Tensor]:
    """The loss of these params: (n, d), (n, d) -> ()."""

    def loss(student_vectors: Tensor, targets: Tensor) -> Tensor:
        return cosine_loss(student_vectors, targets, params.norm_penalty)

    return loss


def cosine_loss(student_vectors: Tensor, targets: Tensor, norm_penalty: float) -> Tensor:
    """Mean of 1 - cos(e, t), plus norm_penalty * mean(e^2). Tokenlearn's blog post. (n, d), (n, d) -> ()."""
    distance = 1 - cosine_similarity(student_vectors, targets, dim=1)
    return distance.mean() + norm_penalty * student_vectors.square().mean()
