"""Distillation: bring a student to the cached targets, or with `train: null` leave it at its start."""

from collections.abc import Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pipeline.core.errors import UserError, under
from pipeline.data.common import texts
from pipeline.data.tokens.tokens import Tokens
from pipeline.params.losses import hidden_states_of
from pipeline.params.students import StudentBlock
from pipeline.params.train import Train
from pipeline.train.distillation import states
from pipeline.train.distillation.states import TeacherStates
from pipeline.train.loop.checkpoint import Checkpoint
from pipeline.train.loop.data import MIN_TRAINING_TEXTS, Examples, Source, prompts_of, targets_of
from pipeline.train.loop.loop import Point, Settings, fit
from pipeline.train.loop.loss import Batch
from pipeline.train.loop.mixture import Portion
from pipeline.train.loop.objective import Objective, Step, autocast
from pipeline.train.loop.world import World
from pipeline.train.students.shared.base.interface import LearnsVocabulary, Student
from pipeline.vectors import collapse
from pipeline.vectors.sets import published
from pipeline.vectors.space.geometry import AGREEMENT_ROWS, agreement


def teacher_states(
    block: StudentBlock, folder: Path, corpus: Path, train: Sequence[Source]
) -> TeacherStates | None:
    """The teacher's hidden states of the corpus' training texts, as a student meets them.

    Args:
        block: the student's; None comes back where no loss of it reads them.
        folder: data/hidden.
        corpus: corpus/corpus.parquet.
        train: what the student is trained on, the corpus among it.

    Raises:
        UserError: there are none, or those of other texts.
    """
    if not hidden_states_of(block.loss):
        return None
    portions = [source.portion() for source in train]
    place = [source.texts for source in train].index(corpus)
    first = sum(portion.rows for portion in portions[:place])
    own, all_rows = portions[place], sum(portion.an_epoch for portion in portions)
    return states.read(folder, texts.ids(corpus, "train"), first, own.an_epoch / own.rows / all_rows)


class Distillation:
    """One student, its objective and its data.

    Without `portions`, an epoch reads every training row once. `bfloat16` is of dev values too.
    """

    def __init__(
        self,
        student: Student,
        objective: Objective,
        train: Examples,
        dev: Examples,
        params: Train,
        world: World,
        portions: tuple[Portion, ...] | None = None,
        *,
        bfloat16: bool = False,
    ) -> None:
        self._student = student
        self._objective = objective
        self._train = train
        self._dev = dev
        self._params = params
        self._world = world
        self._portions = portions or (Portion(len(train)),)
        self._bfloat16 = bfloat16
        self._step = Step(student, objective, train, world, params.micro_batch, bfloat16=bfloat16)

    def run(self, name: str, checkpoint: Checkpoint, checkpoint_seconds: float) -> list[Point]:
        """Train, and leave the student with the weights of the best dev value; the curve."""
        own = {"name", "portions", "average", "bfloat16"}
        fields = set(Settings.__dataclass_fields__) - own
        average = self._params.average
        settings = Settings(
            name=name,
            portions=self._portions,
            average=average.decay if average else None,
            bfloat16=self._bfloat16,
            **self._params.model_dump(include=fields),
        )
        return fit(
            self._student.module,
            self._step.backward,
            self._dev_value,
            settings,
            checkpoint,
            checkpoint_seconds,
            losses=self._objective,
            world=self._world,
            read_ahead=self._step.read_ahead,
        )

    @torch.no_grad()
    def dev_vectors(self, most: int | None = None) -> NDArray[np.float32]:
        """The student's vectors of the dev texts, or of the first of them, (n, dim)."""
        tokens = self._dev.tokens.select(np.arange(len(self._dev))[:most])
        with autocast(self._student.module, bfloat16=self._bfloat16):
            found = [self._student.encode(part).vectors.float().cpu().numpy() for part in tokens.in_parts()]
        return np.concatenate(found)

    def mean_predictor_loss(self) -> float | None:
        """The dev loss of giving every text the mean training target: what a student must beat.

        None where the dev value is no loss, or looks at more than vectors and targets of one dimension.
        """
        if self._params.select != "loss":
            return None
        losses = [term.loss for term in self._objective.terms]
        if not all(loss.over == "sentences" and loss.of_vectors for loss in losses):
            return None
        mean = torch.from_numpy(self._train.mean_target())
        targets = torch.from_numpy(np.array(self._dev.targets))
        rows = torch.arange(len(targets))
        return float(self._objective.local(Batch(mean.expand_as(targets), targets, rows), 1.0, 1.0))

    @torch.no_grad()
    def _dev_value(self) -> float:
        if self._params.select == "agreement":
            return 1 - agreement(
                self.dev_vectors(AGREEMENT_ROWS), np.asarray(self._dev.targets[:AGREEMENT_ROWS])
            )
        self._objective.eval()
        total = torch.zeros((), dtype=torch.float64)
        step = Step(
            self._student,
            self._objective,
            self._dev,
            World(),
            self._params.micro_batch,
            bfloat16=self._bfloat16,
        )
        rows = np.arange(len(self._dev))
        for part in np.split(rows, range(self._params.batch_size, len(rows), self._params.batch_size)):
            total += step.value(part).double() * len(part)
        self._objective.train()
        return float(total) / len(self._dev)


def untrained(
    name: str, block: StudentBlock, learner: Student, corpus: Path, vectors: Path, pca: Path
) -> tuple[dict[str, str], dict[str, Any]]:
    """Make of a student that was just built the one that a training on the corpus alone would start from.

    The corpus' training texts decide its vocabulary (`init.tokens`, `init.words`), the first of them all that
    is solved in closed form. The teacher's vectors are read for `init.projection: ridge` alone.

    Args:
        name: of the student, for messages.
        block: its params.
        learner: the student; it is changed.
        corpus: corpus/corpus.parquet.
        vectors: the folder of vector sets.
        pca: the folder of one PCA a view.

    Returns:
        What it has before the texts of each role; the metrics. `steps` are 0.

    Raises:
        UserError: an artifact is missing or does not fit.
    """
    source = Source(corpus, published.open_set(vectors / "corpus", block.view), "train")
    prompts = prompts_of(block, [source])
    if isinstance(learner, LearnsVocabulary):
        with under(f"students.{name}"):
            learner.learn_vocabulary(lambda: texts.stream(corpus, "train", prompts))
    most = max(getattr(block.init, "ridge_rows", 0), collapse.SAMPLE_ROWS)
    sample = list(islice(chain.from_iterable(texts.stream(corpus, "train", prompts)), most))
    if len(sample) < MIN_TRAINING_TEXTS:
        raise UserError(
            f"{corpus} has {len(sample)} training texts, {MIN_TRAINING_TEXTS} or more are needed; add "
            "corpus.sources, or lower corpus.dev_fraction"
        )
    tokens = learner.tokenise(sample)
    learner.fit_projection(tokens, _targets(name, block, source, pca, len(sample)))
    health = collapse.describe(
        _vectors_of(learner, tokens.select(np.arange(len(sample))[: collapse.SAMPLE_ROWS]))
    )
    return prompts, {"steps": 0, **{f"student_{key}": value for key, value in health.items()}}


def _targets(name: str, block: StudentBlock, source: Source, pca: Path, rows: int) -> NDArray[np.float32]:
    """Those of the first training texts, (rows, dim); (rows, 0) where nothing is fitted to them."""
    if not block.meets_targets:
        return np.empty((rows, 0), np.float32)
    _, reduce = targets_of(name, block, pca)
    ids = texts.ids(source.texts, source.split)[:rows]
    return np.concatenate([reduce(part) for part in source.vectors.of(ids, block.view)])


@torch.no_grad()
def _vectors_of(learner: Student, tokens: Tokens) -> NDArray[np.float32]:
    return np.concatenate([learner.encode(part).vectors.numpy() for part in tokens.in_parts()])
