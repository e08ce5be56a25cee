"""Contrastive representation distillation: tell true pairs of student and teacher from drawn ones."""

import math

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize, softplus

from pipeline.core.errors import UserError
from pipeline.params.losses import CrdLoss
from pipeline.train.loop.loss import Batch, Loss, LossContext


def build(params: CrdLoss, context: LossContext) -> "Crd":
    """The loss of these params.

    Raises:
        UserError: the bank is too small for positives to come from it.
    """
    if params.variant == "code" and context.rows > params.bank_rows:
        raise UserError(
            f"loss.variant is code: it needs a row of the memory bank for each of {context.rows} training "
            f"sentences; set loss.bank_rows (it is {params.bank_rows}) to {context.rows}, or variant to fixed"
        )
    return Crd(params, context)


class Crd(Loss):
    """NCE of student features against teacher features, and the other way round (Tian et al. 2019).

    Features are linear maps of the vectors, at length 1. Two memory banks keep a feature of every training
    sentence, the student's and the teacher's, and give the negatives. They start random, as the released
    code's.

    Positives: a sentence's own counterpart of the same step, as in the paper. The released code (`code`)
    takes it from the bank, a moving average that is random until the sentence has been met once: a training
    of few epochs would spend the first on noise. In eval mode it is always the own one, since dev sentences
    have no row.

    Negatives: K rows of the bank, drawn with replacement, and shared by the batch. The released code draws K
    for each of the n sentences; the expected gradient is the same, but where a product of (n, d) and (d, K)
    takes 4 MB at n 256 and K 4096, n K gathered rows of d 128 take 0.5 GB. The draw depends on the seed and
    the number of the step alone, in eval mode on the seed.

    A bank row is renewed when its sentence is met: the momentum's share of it stays, and it is brought back
    to length 1. Where there are fewer rows than sentences, sentence i has the row i modulo their number, and
    a row holds the last sentence that it met: a mean of several would be nobody's.
    """

    over = "batch"
    student_bank: Tensor
    teacher_bank: Tensor
    levels: Tensor
    step: Tensor

    def __init__(self, params: CrdLoss, context: LossContext) -> None:
        super().__init__()
        self._params = params
        self._seed = context.seed
        self._momentum = params.momentum if context.rows <= params.bank_rows else 0.0
        bank = min(context.rows, params.bank_rows), params.features
        edge = math.sqrt(3 / params.features)  # rows of length 1 on average
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(context.seed)
            self.student = nn.Linear(context.dim, params.features)
            self.teacher = nn.Linear(context.target_dim, params.features)
            self.register_buffer("student_bank", torch.empty(bank).uniform_(-edge, edge))
            self.register_buffer("teacher_bank", torch.empty(bank).uniform_(-edge, edge))
        self.register_buffer("levels", torch.full((2,), -math.inf))
        self.register_buffer("step", torch.zeros((), dtype=torch.int64))

    def forward(self, batch: Batch) -> Tensor:
        """Mean over the sentences of both directions' NCE, ()."""
        student = normalize(self.student(batch.vectors), dim=1)
        teacher = normalize(self.teacher(batch.targets), dim=1)
        drawn = self._drawn()
        student_positives, teacher_positives = student.detach(), teacher.detach()
        if self.training and self._params.variant == "code":
            student_positives, teacher_positives = (
                self.student_bank[batch.rows],
                self.teacher_bank[batch.rows],
            )
        loss = self._nce(0, student, teacher_positives, self.teacher_bank[drawn])
        loss = loss + self._nce(1, teacher, student_positives, self.student_bank[drawn])
        if self.training:
            self._remember(batch.rows % len(self.student_bank), student.detach(), teacher.detach())
        return loss

    def _drawn(self) -> Tensor:
        """The negatives' rows, (K,)."""
        step = int(self.step) if self.training else 0
        generator = np.random.default_rng([self._seed, step])
        drawn = generator.integers(len(self.student_bank), size=self._params.negatives)
        return torch.from_numpy(drawn).to(self.student_bank.device)

    def _nce(self, direction: int, anchors: Tensor, positives: Tensor, negatives: Tensor) -> Tensor:
        """Features (n, f), (n, f) and (K, f) to ()."""
        scores = (anchors * positives).sum(dim=1), anchors @ negatives.T
        positive, negative = (score / self._params.temperature for score in scores)
        if self.levels[direction].isinf():
            # Estimated once, as the released code's Z: the bank's size times the exponential of this.
            both = torch.cat([positive.detach(), negative.detach().flatten()])
            self.levels[direction] = both.logsumexp(dim=0) - math.log(len(both))
        return nce(positive, negative, self.levels[direction])

    @torch.no_grad()
    def _remember(self, rows: Tensor, student: Tensor, teacher: Tensor) -> None:
        """Renew the bank's rows, each by the last sentence that has it."""
        found, from_end = np.unique(rows.cpu().numpy()[::-1], return_index=True)
        kept = torch.from_numpy(found).to(rows.device)
        last = torch.from_numpy(len(rows) - 1 - from_end).to(rows.device)
        for bank, features in ((self.student_bank, student), (self.teacher_bank, teacher)):
            mixed = self._momentum * bank[kept] + (1 - self._momentum) * features[last]
            bank[kept] = normalize(mixed, dim=1)
        self.step += 1


def nce(positive: Tensor, negative: Tensor, level: Tensor) -> Tensor:
    """Noise-contrastive estimation with K negatives an anchor, (). Tian et al. 2019, eq. 18.

    The odds of a pair being true are exp(score) / Z to K / M. Z is M exp(level), so M, the bank's size, falls
    out: this is logistic regression on score - level - log K. In this form it needs no epsilon.

    Args:
        positive: (n,) cosines over the temperature of true pairs.
        negative: (n, K) of drawn ones.
        level: () logarithm of the mean exponential of the scores.
    """
    threshold = level + math.log(negative.shape[1])
    costs = softplus(threshold - positive) + softplus(negative - threshold).sum(dim=1)
    return costs.mean()
