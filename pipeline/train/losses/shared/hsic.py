"""Dependence between what a student reads and what it gives: the Hilbert-Schmidt independence criterion."""

import torch
from torch import Tensor
from torch.nn.functional import normalize

from pipeline.params.losses import HsicLoss, Variant
from pipeline.train.loop.loss import Batch, Loss, LossContext

PAPER_GAMMA = 0.5
CODE_GAMMA = 1.0
CODE_GAMMA_FINETUNING = 0.1


def build(params: HsicLoss, context: LossContext) -> "Hsic":
    """The loss of these params."""
    return Hsic(params)


class Hsic(Loss):
    """HSIC of the means of a student's embedding layer and its vectors: IBKD eq. 6, in its eqs. 8 and 9.

    Args:
        params: kernel, variant and gamma. code_gamma: gamma of the variant `code` where params name none; the
        released code's depends on the stage.
    """

    over = "batch"
    needs_inputs = True

    def __init__(self, params: HsicLoss, code_gamma: float = CODE_GAMMA) -> None:
        super().__init__()
        self._params = params
        gammas = {"fixed": None, "paper": PAPER_GAMMA, "code": code_gamma}
        self._gamma = params.gamma or gammas[params.variant]
        self._measured: dict[str, Tensor] = {}

    def forward(self, batch: Batch) -> Tensor:
        """HSIC(inputs, vectors), ()."""
        assert batch.inputs is not None
        return self.of(batch.inputs, batch.vectors)

    def of(self, inputs: Tensor, vectors: Tensor) -> Tensor:
        """HSIC of inputs (n, d) and vectors (n, e), (): without a batch, for fine-tuning."""
        params = self._params
        kernel_inputs, kernel_vectors = (
            gram(side, params.kernel, params.variant, self._gamma) for side in (inputs, vectors)
        )
        if len(inputs) > 1 and params.kernel != "linear":
            self._measured = {
                "kernel_inputs": _likeness(kernel_inputs.detach()),
                "kernel_vectors": _likeness(kernel_vectors.detach()),
            }
        return dependence(kernel_inputs, kernel_vectors, params.variant)

    def measures(self) -> dict[str, float]:
        """Mean kernel of two different sentences, over that of equal ones, in the last batch that had two.

        A linear kernel has none.

        At 0 or at 1 the kernel is saturated: it tells no sentences apart, and the loss pulls nowhere.
        """
        return {name: value.item() for name, value in self._measured.items()}


def dependence(kernel_inputs: Tensor, kernel_vectors: Tensor, variant: Variant) -> Tensor:
    """tr(K_X H K_S H) / n^2, in `code` / (n - 1)^2; 0 for n = 1. IBKD eq. 6, (n, n) and (n, n) to ()."""
    rows = len(kernel_inputs)
    divisor = max(rows - 1, 1) if variant == "code" else rows
    return (_centred(kernel_inputs) * _centred(kernel_vectors)).sum() / divisor**2


def gram(vectors: Tensor, kernel: str, variant: Variant, gamma: float | None) -> Tensor:
    """Kernel of every two of n vectors: (n, d) -> (n, n).

    With d their distance, rbf is exp(-gamma d^2) (IBKD eq. 7 has lost the minus and the square), imq is 1 /
    sqrt(1 + gamma d^2), in `code` 1 / sqrt(gamma + d^2), and linear is the inner product. Vectors are brought
    to length 1 first by `fixed`, and by `code` for linear. Without gamma it is `median_gamma`.
    """
    if variant == "fixed" or (variant == "code" and kernel == "linear"):
        vectors = normalize(vectors, dim=1)
    if kernel == "linear":
        return vectors @ vectors.T
    distances = squared_distances(vectors)
    scale = median_gamma(distances) if gamma is None else gamma
    if kernel == "rbf":
        return torch.exp(-scale * distances)
    return torch.rsqrt(distances + scale if variant == "code" else 1 + scale * distances)


def median_gamma(distances: Tensor) -> Tensor:
    """1 / (2 median) of the squared distances off the diagonal, without gradient: (n, n) to ().

    Of an even number of pairs the median is the lower middle one. It is at least the precision of vectors of
    length 1, so that the kernel of equal vectors is 1.
    """
    different = off_diagonal(distances.detach())
    smallest = torch.finfo(distances.dtype).eps
    return 0.5 / different.median().clamp(min=smallest) if len(different) else distances.new_ones(())


def squared_distances(vectors: Tensor) -> Tensor:
    """||a - b||^2 of every two of n vectors: (n, d) -> (n, n)."""
    # Vectors that lie close together and far from 0 would lose their differences in the products.
    centred = vectors - vectors.detach().mean(dim=0)
    products = centred @ centred.T
    squares = products.diagonal()
    return (squares[:, None] + squares[None, :] - 2 * products).clamp(min=0)


def off_diagonal(matrix: Tensor) -> Tensor:
    """All numbers but the diagonal's: (n, n) -> (n - 1, n)."""
    rows = len(matrix)
    return matrix.flatten()[:-1].view(rows - 1, rows + 1)[:, 1:]


def _likeness(kernel: Tensor) -> Tensor:
    """Mean kernel of two different sentences, over that of a sentence and itself."""
    return off_diagonal(kernel).mean() / kernel.diagonal().mean()


def _centred(kernel: Tensor) -> Tensor:
    """H K H, H = I - 1/n."""
    by_row = kernel - kernel.mean(dim=1, keepdim=True)
    return by_row - by_row.mean(dim=0, keepdim=True)
