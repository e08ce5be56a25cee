"""All trainings of one classifier: by learning rate, then by seed and by share of the rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from torch import nn
from torch.nn.functional import normalize

from pipeline.classifiers.training.inputs import Inputs, Rows
from pipeline.classifiers.training.joint import Joint, new_head, train
from pipeline.classifiers.training.start import Start
from pipeline.classifiers.training.task import ClassifierTask
from pipeline.core.errors import UserError
from pipeline.core.progress import say
from pipeline.data.common import texts
from pipeline.params.classifiers import Classifier
from pipeline.params.runtime import Runtime
from pipeline.tasks import classification
from pipeline.tasks.embeddings import Embeddings
from pipeline.tasks.heads import Classes
from pipeline.train.loop.checkpoint import Checkpoint
from pipeline.train.loop.guard import DivergenceError
from pipeline.train.loop.loop import Point
from pipeline.train.loop.precision import takes_bfloat16
from pipeline.train.loop.world import World
from pipeline.train.students.shared.base.interface import Student

PAPERS = (2e-4, 3e-4, 5e-4, 1e-3)
RATES = {"bilstm": PAPERS, "static": PAPERS}
"""`lr: auto` of these kinds, as SRA (Wu et al. 2020, section 4.3)."""
OF_TABLES = ("bilstm", "static")
"""Kinds most of whose weights are a table of token vectors: a step updates the rows that it meets."""
RATES_OF_ENCODERS = (2e-5, 5e-5, 1e-4)


@dataclass(frozen=True)
class Training:
    """One classifier, trained."""

    student: Student
    joint: Joint
    points: list[Point]

    @property
    def dev_score(self) -> float:
        """The best one."""
        return -min(point.dev_value for point in self.points)


@dataclass(frozen=True)
class Found:
    """The classifier that ships, and what all of them score."""

    shipped: Training
    rates: dict[float, float]
    """Learning rates that did not diverge with the dev score of each."""
    scores: dict[str, float]
    untuned: dict[str, float] | None

    @property
    def lr(self) -> float:
        """The learning rate that dev rows chose."""
        return max(self.rates, key=lambda rate: self.rates[rate])


class Trainings:
    """All trainings of a classifier: by learning rate, then by seed and by share of the rows.

    Args:
        name: the classifier's, for messages.
        block: how it is trained.
        start: its encoder.
        task: what it is trained on.
        runtime: where.
        key: where params have `precision`.
        states: with what the names of the trainings' states begin; no other classifier's begin so.

    Raises:
        UserError: the block asks for pairs, and the task has none.
    """

    def __init__(
        self,
        name: str,
        block: Classifier,
        start: Start,
        task: ClassifierTask,
        runtime: Runtime,
        *,
        key: str,
        states: str,
    ) -> None:
        if block.read == "together" and not task.pairs:
            raise UserError(f"read is together, and {task.name} has single texts; remove it")
        self._name, self._block, self._start = name, block, start
        self._task, self._runtime, self._key, self._beginning = task, runtime, key, states
        self._identity: dict[str, Any] = {
            "student": start.params.model_dump(mode="json", exclude={"finetune"}),
            "start": start.identity,
            "block": block.model_dump(mode="json", exclude={"seeds", "fractions", "train"}),
            "train": block.train.model_dump(mode="json", exclude={"lr", "seed"}),
            "task": task.identity,
        }
        self._world = World.join(runtime.device)
        self._checkpoints: list[Checkpoint] = []
        first = self._load()
        rows = [part.texts for part in (task.train, task.dev, task.test)]
        self._inputs = self.inputs(first, task.texts, rows)
        self._dim = first.encode(self._inputs.tokens.select(np.arange(1))).vectors.shape[1]
        # A student that reads pairs together has no vectors of their texts to compare.
        compares = task.is_of_alike and self._inputs.pairs is None
        self._untuned = task.untuned(self._vectors(first)) if compares else None

    def run(self) -> Found:
        """Train all of them.

        Raises:
            DivergenceError: every learning rate diverges, or the chosen one of other seeds or shares.
        """
        block, task = self._block, self._task
        rates = (
            RATES.get(self._start.params.kind, RATES_OF_ENCODERS)
            if block.train.lr == "auto"
            else block.train.lr
        )
        seed = block.train.seed
        shipped, best, dev = None, 0.0, dict[float, float]()
        diverged: DivergenceError | None = None
        for rate in dict.fromkeys(rates):  # a training twice would wait for itself
            try:
                other = self._train(rate, seed, 1.0)
            except DivergenceError as error:
                say(f"{self._name}: lr {rate:g} is left out: {error}")
                diverged = error.with_traceback(None)  # which holds its encoder
                continue
            dev[rate] = other.dev_score
            if shipped is None or other.dev_score > shipped.dev_score:
                shipped, best = other, rate
        if shipped is None:
            assert diverged is not None
            raise diverged
        predicted: dict[float, list[Classes]] = {}
        for fraction in sorted({1.0, *block.fractions}):
            for number in range(seed, seed + block.seeds):
                known = (fraction, number) == (1.0, seed)
                one = shipped if known else self._train(best, number, fraction)
                predicted.setdefault(fraction, []).append(one.joint.predict(task.test.texts))
        told = classification.Predictions(task.labelled, len(task.labels), task.test.classes, predicted)
        return Found(shipped, dev, classification.scores(told, task.metric), self._untuned)

    def clear(self, *, until_commit: bool = True) -> None:
        """Have the trainings' states removed, those of settings that it had before too.

        Args:
            until_commit: whether DVC commits what is made of them; else they go at once.
        """
        for checkpoint in self._checkpoints:
            checkpoint.clear() if until_commit else checkpoint.remove()
        Checkpoint.clear_all(Path(self._runtime.cache), self._beginning)

    def inputs(self, student: Student, table: pl.DataFrame, rows: Sequence[Rows]) -> Inputs:
        """What a student reads of these rows of a text set, its prompts before the texts."""
        prompted = texts.with_prompts(table, self._start.prompts)["text"].to_list()
        return Inputs.of(student, prompted, rows, together=self._block.read == "together")

    def untrained(
        self, seed: int, table: pl.DataFrame | None = None, rows: Sequence[Rows] = ()
    ) -> tuple[Student, Joint]:
        """The encoder as it starts, with a head of random weights by this seed.

        Args:
            seed: of the head.
            table: a text set whose `rows` it will be asked of; None: the task's.
            rows: of interest with a table.
        """
        student = self._load()
        inputs = self._inputs if table is None else self.inputs(student, table, rows)
        pairs = self._task.pairs and self._block.read == "apart"
        head = new_head(self._block, self._dim, len(self._task.labels), seed, pairs=pairs)
        joint = Joint(student, head, inputs, unit=self._start.unit)
        return student, joint.to(self._world.device)

    def _train(self, rate: float, seed: int, fraction: float) -> Training:
        block, task, labels = self._block, self._task, len(self._task.labels)
        training = {"rate": rate, "seed": seed, "fraction": fraction}
        name = f"{self._beginning}{rate:g},{seed},{fraction:g}"
        checkpoint = Checkpoint.of(Path(self._runtime.cache), name, **self._identity, training=training)
        checkpoint.hold()
        self._checkpoints.append(checkpoint)
        student, joint = self.untrained(seed)
        bfloat16 = takes_bfloat16(block.train.precision, student.module, self._world, checkpoint, self._key)

        def score(classes: Classes, predicted: Classes) -> float:
            return classification.scores_of(predicted, classes, labels)[task.metric]

        points = train(
            self._name,
            joint,
            task.share(fraction, seed),
            task.dev,
            block,
            rate,
            seed,
            score,
            checkpoint,
            self._runtime.checkpoint_seconds,
            bfloat16=bfloat16,
        )
        return Training(student, joint, points)

    def _load(self) -> Student:
        student = self._start.load()
        # Apple's GPUs have no sparse tensors.
        if self._start.params.kind in OF_TABLES and self._world.device != "mps":
            for part in student.module.modules():
                if isinstance(part, nn.Embedding):
                    part.sparse = True
        return student

    @torch.no_grad()
    def _vectors(self, student: Student) -> Embeddings:
        """Of the texts with labels, by the student as it starts and as it ships."""
        student.module.to(self._world.device)
        task = self._task
        labelled = np.unique(np.concatenate([task.train.texts[: task.labelled], task.test.texts]))
        tokens = self._inputs.tokens.select(labelled)
        parts = (student.encode(part).vectors.float() for part in tokens.in_parts())
        shipped = [(normalize(part, dim=1) if self._start.unit else part).cpu().numpy() for part in parts]
        ids = task.texts["text_id"].to_numpy()[labelled]
        return Embeddings(ids, np.concatenate(shipped), self._start.similarity)
