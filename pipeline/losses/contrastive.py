"""In-batch contrast: a student's vector has to be nearest to its own target."""

from collections.abc import Callable

from torch import Tensor

from pipeline.core.params.students import ContrastiveLoss
from pipeline.losses.infonce import infonce


def build(params: ContrastiveLoss) -> Callable[[Tensor, Tensor], Tensor]:
    """The loss of these params: (n, d), (n, d) -> (). Tokenlearn's present code."""

    def loss(student_vectors: Tensor, targets: Tensor) -> Tensor:
        return infonce(student_vectors, targets, targets[:0], params.temperature)

    return loss
