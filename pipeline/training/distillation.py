"""Distillation: bring a student's vectors to the cached targets."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pipeline.core.params.students import StudentBlock, Train
from pipeline.core.registry import implementation
from pipeline.evaluation.geometry import agreement
from pipeline.losses.interface import Batch, Setting
from pipeline.students.interface import Student
from pipeline.training.checkpoint import Checkpoint
from pipeline.training.data import Examples
from pipeline.training.loop import Point, Settings, fit
from pipeline.training.objective import Objective, Step, Term
from pipeline.training.world import World

DEV_ROWS_AT_A_TIME = 256


def objective(block: StudentBlock, setting: Setting) -> Objective:
    """The losses of a student's block: every term, on the whole vectors and on every Matryoshka prefix."""
    prefixes = (*block.train.matryoshka, block.dim)
    terms, whole = [], None
    for prefix in prefixes:
        target_dim = setting.target_dim if block.train.target == "full" else prefix
        whole = implementation("losses", block.loss.kind).build(
            block.loss, replace(setting, dim=prefix, target_dim=target_dim)
        )
        for weight, loss in getattr(whole, "terms", [(1.0, whole)]):
            if loss.of_vectors:
                terms.append(Term(weight / len(prefixes), loss, prefix, target_dim))
            elif prefix == block.dim:
                terms.append(Term(weight, loss, prefix, target_dim))
    return Objective(terms, whole)


class Distillation:
    """One student, its objective and its data."""

    def __init__(
        self,
        student: Student,
        objective: Objective,
        train: Examples,
        dev: Examples,
        params: Train,
        world: World,
    ) -> None:
        self._student = student
        self._objective = objective
        self._train = train
        self._dev = dev
        self._params = params
        self._world = world
        self._step = Step(
            student, objective, train, world, params.micro_batch, bfloat16=params.precision == "bfloat16"
        )

    def run(self, name: str, checkpoint: Checkpoint, checkpoint_seconds: float) -> list[Point]:
        """Train, and leave the student with the weights of the best dev value; the curve."""
        fields = set(Settings.__dataclass_fields__) - {"name", "rows"}
        settings = Settings(name=name, rows=len(self._train), **self._params.model_dump(include=fields))
        return fit(
            self._student.module,
            self._step.backward,
            self._dev_value,
            settings,
            checkpoint,
            checkpoint_seconds,
            losses=self._objective,
            world=self._world,
        )

    @torch.no_grad()
    def dev_vectors(self) -> NDArray[np.float32]:
        """The student's vectors of the dev texts, (n, dim)."""
        found = (self._student.encode(tokens).vectors for tokens, _ in self._dev_parts(DEV_ROWS_AT_A_TIME))
        return np.concatenate([part.float().cpu().numpy() for part in found])

    def mean_predictor_loss(self) -> float | None:
        """The dev loss of giving every text the mean training target: what a student must beat.

        None where the loss looks at more than vectors and targets of one dimension.
        """
        wanted = [term for term in self._objective.terms if term.loss.over == "sentences"]
        if len(wanted) < len(self._objective.terms):
            return None
        mean = torch.from_numpy(np.mean(self._train.targets, axis=0, dtype=np.float64).astype(np.float32))
        targets = torch.from_numpy(np.array(self._dev.targets))
        rows = torch.arange(len(targets))
        return float(self._objective.local(Batch(mean.expand_as(targets), targets, rows), 1.0, 1.0))

    @torch.no_grad()
    def _dev_value(self) -> float:
        if self._params.select == "agreement":
            return 1 - agreement(self.dev_vectors(), np.asarray(self._dev.targets))
        self._objective.eval()
        total = torch.zeros((), dtype=torch.float64)
        for tokens, targets in self._dev_parts(self._params.batch_size):
            batch = Step(self._student, self._objective, self._dev, World()).encode(
                tokens, targets, torch.arange(len(targets))
            )
            value: Tensor = self._objective.local(batch, 1.0, 1.0) + self._objective.over_batch(batch)
            total += value.double().cpu() * len(targets)
        self._objective.train()
        return float(total) / len(self._dev)

    def _dev_parts(self, rows: int) -> Iterator[tuple]:
        """Tokens and targets of the dev texts, `rows` at a time."""
        for start in range(0, len(self._dev), rows):
            yield self._dev.select(np.arange(start, min(start + rows, len(self._dev))))
