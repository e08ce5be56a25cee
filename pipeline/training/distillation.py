"""Distillation: bring a student's vectors to the cached targets."""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pipeline.core.params.students import Train
from pipeline.students.interface import Student
from pipeline.training.checkpoint import Checkpoint
from pipeline.training.data import Examples
from pipeline.training.loop import Point, Rows, Settings, fit
from pipeline.training.tokens import Tokens

DEV_ROWS_AT_A_TIME = 256

Loss = Callable[[Tensor, Tensor], Tensor]
"""Student vectors (n, d) and targets (n, d) to ()."""


class Distillation:
    """One student, its loss and its data."""

    def __init__(
        self, student: Student, loss: Loss, tokens: Tokens, targets: NDArray[np.float32], dev: Examples
    ) -> None:
        self._student = student
        self._loss = loss
        self._tokens = tokens
        self._targets = torch.from_numpy(targets)
        self._dev_tokens = student.tokenise(dev.texts)
        self._dev_targets = torch.from_numpy(dev.targets)

    def run(self, name: str, train: Train, checkpoint: Checkpoint, checkpoint_seconds: float) -> list[Point]:
        """Train, and leave the student with the weights of the lowest dev loss; the curve."""
        settings = Settings(
            name=name,
            rows=len(self._tokens),
            **train.model_dump(exclude={"texts", "whiten", "regularise"}),
        )
        return fit(
            self._student.module, self._batch_loss, self._dev_loss, settings, checkpoint, checkpoint_seconds
        )

    @torch.no_grad()
    def dev_vectors(self) -> NDArray[np.float32]:
        """The student's vectors of the dev texts, (n, dim)."""
        starts = range(0, len(self._dev_tokens), DEV_ROWS_AT_A_TIME)
        rows = [np.arange(start, min(start + DEV_ROWS_AT_A_TIME, len(self._dev_tokens))) for start in starts]
        return np.concatenate([self._student.vectors(self._dev_tokens.select(part)).numpy() for part in rows])

    def mean_predictor_loss(self) -> float:
        """The dev loss of giving every text the mean training target: what a student must beat."""
        mean = self._targets.mean(dim=0).expand_as(self._dev_targets)
        return float(self._loss(mean, self._dev_targets))

    def _batch_loss(self, rows: Rows) -> Tensor:
        return self._loss(self._student.vectors(self._tokens.select(rows)), self._targets[rows])

    def _dev_loss(self) -> float:
        return float(self._loss(torch.from_numpy(self.dev_vectors()), self._dev_targets))
