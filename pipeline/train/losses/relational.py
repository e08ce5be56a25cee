"""Relations: the batch's cosines with each other, the student's against the teacher's."""

from torch import Tensor
from torch.nn.functional import kl_div, log_softmax, normalize

from pipeline.params.losses import RelationalLoss
from pipeline.train.loop.loss import Batch, Loss, LossContext
from pipeline.train.losses.shared.hsic import off_diagonal


def build(params: RelationalLoss, context: LossContext) -> "Relational":
    """The loss of these params."""
    return Relational(params)


class Relational(Loss):
    """Relational distillation (Park et al. 2019) of cosines: student and teacher may differ in dimension.

    mse: as similarity-preserving distillation (Tung and Mori 2019), which has inner products brought to
    length 1 by row. mse and mae are also the output losses on pair cosines that SimTDE tries beside its own
    (sec. 4.3); without labels, the pairs are every two sentences of a batch. kl: as CompRess (Koohpayegani et
    al. 2020), whose anchors are a memory bank.
    """

    over = "batch"

    def __init__(self, params: RelationalLoss) -> None:
        super().__init__()
        self._params = params

    def forward(self, batch: Batch) -> Tensor:
        """Mean over every two sentences of (c_s - c_t)^2 or |c_s - c_t|, or over rows of KL(p_t || p_s), ().

        c is a pair's cosine, p the softmax over the others of c / temperature. One sentence has no other: 0.
        """
        student, teacher = cosines(batch.vectors), cosines(batch.targets)
        if self._params.form != "kl":
            differences = student - teacher
            costs = differences.square() if self._params.form == "mse" else differences.abs()
            return costs.sum() / max(student.numel(), 1)
        own, theirs = (log_softmax(side / self._params.temperature, dim=1) for side in (student, teacher))
        return kl_div(own, theirs, reduction="batchmean", log_target=True)


def cosines(vectors: Tensor) -> Tensor:
    """Of each of n vectors (n, d) with each other one, (n, n - 1)."""
    unit = normalize(vectors, dim=1)
    return off_diagonal(unit @ unit.T).reshape(len(vectors), -1)
