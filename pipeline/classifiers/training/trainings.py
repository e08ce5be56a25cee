"""All trainings of one classifier: by learning rate, then by seed and by share of the rows."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.functional import normalize

from pipeline.classifiers.training.joint import Joint, new_head, train
from pipeline.classifiers.training.task import ClassifierTask
from pipeline.core import fingerprint
from pipeline.core.registry import implementation
from pipeline.data.common import texts
from pipeline.data.student import layout, student_folder
from pipeline.params.classifiers import Classifier
from pipeline.params.runtime import Runtime
from pipeline.params.students import Student as StudentParams
from pipeline.tasks import classification
from pipeline.tasks.embeddings import Embeddings
from pipeline.tasks.heads import Classes
from pipeline.train.loop.checkpoint import Checkpoint
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
    """Learning rates with the dev score of each."""
    scores: dict[str, float]
    untuned: dict[str, float] | None


class Trainings:
    """All trainings of a classifier: by learning rate, then by seed and by share of the rows."""

    def __init__(
        self,
        name: str,
        block: Classifier,
        student: StudentParams,
        start: Path,
        task: ClassifierTask,
        runtime: Runtime,
    ) -> None:
        self._name, self._block, self._params, self._start = name, block, student, start
        self._task, self._runtime = task, runtime
        self._identity: dict[str, Any] = {
            "student": student.model_dump(mode="json", exclude={"finetune"}),
            "start": fingerprint.of_folder(start),
            "block": block.model_dump(mode="json", exclude={"seeds", "fractions", "train"}),
            "train": block.train.model_dump(mode="json", exclude={"lr", "seed"}),
            "task": task.identity,
        }
        self._world = World.join(runtime.device)
        self._unit = layout.is_unit(start)
        self._checkpoints: list[Checkpoint] = []
        prompted = texts.with_prompts(task.texts, student_folder.prompts(start))
        first = self._load()
        self._tokens = first.tokenise(prompted["text"].to_list())
        self._dim = first.encode(self._tokens.select(np.arange(1))).vectors.shape[1]
        self._untuned = task.untuned(self._vectors(first)) if task.is_of_alike else None

    def run(self) -> Found:
        """Train all of them."""
        block, task = self._block, self._task
        rates = (
            RATES.get(self._params.kind, RATES_OF_ENCODERS) if block.train.lr == "auto" else block.train.lr
        )
        seed = block.train.seed
        rates = tuple(dict.fromkeys(rates))  # a training twice would wait for itself
        shipped, dev = self._train(rates[0], seed, 1.0), dict.fromkeys(rates, 0.0)
        dev[rates[0]], best = shipped.dev_score, rates[0]
        for rate in rates[1:]:
            other = self._train(rate, seed, 1.0)
            dev[rate] = other.dev_score
            if other.dev_score > shipped.dev_score:
                shipped, best = other, rate
        predicted: dict[float, list[Classes]] = {}
        for fraction in sorted({1.0, *block.fractions}):
            for number in range(seed, seed + block.seeds):
                known = (fraction, number) == (1.0, seed)
                one = shipped if known else self._train(best, number, fraction)
                predicted.setdefault(fraction, []).append(one.joint.predict(task.test.texts))
        told = classification.Predictions(task.labelled, len(task.labels), task.test.classes, predicted)
        return Found(shipped, dev, classification.scores(told, task.metric), self._untuned)

    def clear(self) -> None:
        """Remove the trainings' states, those of settings that it had before too."""
        for checkpoint in self._checkpoints:
            checkpoint.clear()
        Checkpoint.clear_all(Path(self._runtime.cache), self._beginning)

    @property
    def _beginning(self) -> str:
        """Of its states' names; no other classifier's begin so."""
        return f"classify-{self._name}@"

    def _train(self, rate: float, seed: int, fraction: float) -> Training:
        block, task, labels = self._block, self._task, len(self._task.labels)
        training = {"rate": rate, "seed": seed, "fraction": fraction}
        name = f"{self._beginning}{rate:g},{seed},{fraction:g}"
        checkpoint = Checkpoint.of(Path(self._runtime.cache), name, **self._identity, training=training)
        checkpoint.hold()
        self._checkpoints.append(checkpoint)
        student = self._load()
        head = new_head(block, self._dim, labels, seed, pairs=task.pairs)
        joint = Joint(student, head, self._tokens, unit=self._unit).to(self._world.device)
        key = f"classifiers.{self._name}.train.precision"
        bfloat16 = takes_bfloat16(block.train.precision, student.module, self._world, checkpoint, key)

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
        student = implementation("train.students.kinds", self._params.kind).load(self._params, self._start)
        # Apple's GPUs have no sparse tensors.
        if self._params.kind in OF_TABLES and self._world.device != "mps":
            for part in student.module.modules():
                if isinstance(part, nn.Embedding):
                    part.sparse = True
        return student

    @torch.no_grad()
    def _vectors(self, student: Student) -> Embeddings:
        """Of all texts, by the student as it starts and as it ships."""
        student.module.to(self._world.device)
        parts = (student.encode(part).vectors.float() for part in self._tokens.in_parts())
        shipped = [(normalize(part, dim=1) if self._unit else part).cpu().numpy() for part in parts]
        vectors = np.concatenate(shipped)
        ids = self._task.texts["text_id"].to_numpy()
        return Embeddings(ids, vectors, student_folder.similarity(self._start))
