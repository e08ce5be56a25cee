"""Mean squared distance to the target."""

from collections.abc import Callable

from torch import Tensor

from pipeline.core.params.students import MseLoss


def build(params: MseLoss) -> Callable[[Tensor, Tensor], Tensor]:
    """The loss of these params: (n, d), (n, d) -> ()."""
    return mean_over_dimensions if params.variant == "code" else sum_over_dimensions


def sum_over_dimensions(student_vectors: Tensor, targets: Tensor) -> Tensor:
    """Mean over the sentences of ||h_s - h_t||^2. HPD eq. 2. (n, d), (n, d) -> ()."""
    return (student_vectors - targets).square().sum(dim=1).mean()


def mean_over_dimensions(student_vectors: Tensor, targets: Tensor) -> Tensor:
    """The same, averaged over the dimensions too, as HPD's released code has it. (n, d), (n, d) -> ()."""
    return (student_vectors - targets).square().mean()
