"""A student and a head, trained together on labelled texts or pairs (SRA, section 3.2)."""

from collections.abc import Callable, Collection
from dataclasses import dataclass

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import normalize

from pipeline.classifiers.saved.head import Head
from pipeline.classifiers.training.inputs import Inputs
from pipeline.classifiers.training.losses import first_states, loss, patience
from pipeline.data.tokens.tokens import parts_of
from pipeline.params.classifiers import Classifier
from pipeline.tasks.heads import Classes
from pipeline.train.loop.checkpoint import Checkpoint
from pipeline.train.loop.loop import Point, Rows, Settings, fit
from pipeline.train.loop.mixture import Portion
from pipeline.train.loop.objective import autocast
from pipeline.train.loop.optimizers import sparse_parameters
from pipeline.train.students.shared.base.interface import HasLayers, Student

Score = Callable[[Classes, Classes], float]
"""True and predicted classes, (n,) each, to a score; the higher, the better."""

CLIP_NORM = 1.0
SCALED_ROWS = 4096
"""Training rows by which the head's features are centred and scaled."""


@dataclass(frozen=True)
class Examples:
    """n rows of texts, or of pairs of texts, as rows of a table of tokenised texts."""

    texts: NDArray[np.int64]
    """(n, 1), or (n, 2) of pairs."""
    classes: Classes
    """(n,)."""
    logits: NDArray[np.float32] | None = None
    """(n, c) of the task teacher."""
    states: NDArray[np.float16] | None = None
    """(n, layers, d) of its first tokens, perhaps in a file."""

    def __len__(self) -> int:
        return len(self.texts)

    def select(self, rows: NDArray[np.integer]) -> "Examples":
        """These rows."""
        logits = None if self.logits is None else self.logits[rows]
        states = None if self.states is None else np.asarray(self.states[rows])
        return Examples(self.texts[rows], self.classes[rows], logits, states)

    @classmethod
    def of(
        cls,
        rows: pl.DataFrame,
        ids: NDArray[np.uint64],
        classes: Classes,
        logits: NDArray[np.float32] | None = None,
    ) -> "Examples":
        """Rows with left_id and perhaps right_id, of texts with these ascending ids."""
        sides = ["left_id"] if rows["right_id"].null_count() == len(rows) else ["left_id", "right_id"]
        return cls(np.stack([np.searchsorted(ids, rows[s].to_numpy()) for s in sides], 1), classes, logits)


class Joint(nn.Module):
    """The encoder and its head, as they are trained, and as they predict.

    Args:
        student: the encoder.
        head: what reads its vectors.
        inputs: all texts, as the student reads them.
        unit: whether the head reads vectors of length 1, as the student ships them.
    """

    def __init__(self, student: Student, head: Head, inputs: Inputs, *, unit: bool) -> None:
        super().__init__()
        self.encoder, self.head = student.module, head
        self._student, self._inputs, self._unit = student, inputs, unit

    def vectors(self, texts: NDArray[np.int64]) -> Tensor:
        """Of rows (n, 1) or (n, 2) of the texts: (n, d), or (2n, d) of pairs that are read apart.

        Then those of a pair follow each other.
        """
        tokens = self._inputs.tokens.select(self._inputs.rows(texts).reshape(-1))
        return self._shipped(self._student.encode(tokens).vectors)

    def lengths(self, texts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Tokens of rows, (n,)."""
        return self._inputs.lengths(texts)

    def logits_and_states(
        self, texts: NDArray[np.int64], layers: Collection[int]
    ) -> tuple[Tensor, Tensor | None]:
        """(n, c), and the states (n, layers, d) of the first tokens that these layers give.

        None where no layer is asked for.
        """
        if not layers:
            return self.logits(texts), None
        assert isinstance(self._student, HasLayers)
        tokens = self._inputs.tokens.select(self._inputs.rows(texts).reshape(-1))
        found = self._student.encode_layers(tokens, layers)
        first = torch.from_numpy(tokens.offsets[:-1].copy()).to(found.vectors.device)
        return self.head(self._shipped(found.vectors)), first_states({**found.states}, first)

    def _shipped(self, vectors: Tensor) -> Tensor:
        return normalize(vectors.float(), dim=1) if self._unit else vectors.float()

    def logits(self, texts: NDArray[np.int64]) -> Tensor:
        """(n, c)."""
        return self.head(self.vectors(texts))

    @torch.no_grad()
    def fit_scale(self, texts: NDArray[np.int64]) -> None:
        """Centre and scale the head's features as these rows ask."""
        rows = texts[:SCALED_ROWS]
        parts = [self.head.features(self.vectors(rows[part])) for part in parts_of(self.lengths(rows))]
        self.head.fit_scale(torch.cat(parts))

    @torch.no_grad()
    def predict(self, texts: NDArray[np.int64], *, bfloat16: bool = False) -> Classes:
        """The classes of rows, (n,)."""
        # By length, so that a student which fills texts up has little to fill.
        lengths = self.lengths(texts)
        order = np.argsort(lengths, kind="stable")
        found = np.empty(len(texts), np.int64)
        for part in parts_of(lengths[order]):
            rows = order[part]
            with autocast(self, bfloat16=bfloat16):
                found[rows] = self.logits(texts[rows]).float().argmax(1).cpu().numpy()
        return found


def new_head(block: Classifier, dim: int, classes: int, seed: int, *, pairs: bool) -> Head:
    """A head of random weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Head(dim, block.hidden, classes, pairs=pairs)


def train(
    name: str,
    joint: Joint,
    train_rows: Examples,
    dev: Examples,
    block: Classifier,
    lr: float,
    seed: int,
    score: Score,
    checkpoint: Checkpoint,
    seconds: float,
    *,
    bfloat16: bool,
) -> list[Point]:
    """Train all parameters and leave them as they were best on dev.

    Args:
        name: the classifier's.
        joint: what is trained.
        train_rows: the rows.
        dev: rows that choose the weights.
        block: how.
        lr: peak learning rate of Adam.
        seed: of the order.
        score: true and predicted classes to the score to bring up.
        checkpoint: where an interrupted training's state lies.
        seconds: how often it is written.
        bfloat16: whether products are of bfloat16.
    """
    settings = Settings(
        name=name,
        portions=(Portion(len(train_rows)),),
        schedule="linear",
        clip_norm=CLIP_NORM,
        sparse=bool(sparse_parameters(joint)),
        block="classify",
        bfloat16=bfloat16,
        lr=lr,
        seed=seed,
        epochs=block.train.epochs,
        batch_size=block.train.batch_size,
        warmup=block.train.warmup,
        evaluations=block.train.evaluations,
    )
    alpha = block.kd.alpha if block.kd else 1.0
    temperature = block.kd.temperature if block.kd and block.kd.distance == "kl" else None
    weight = block.kd.patience.weight if block.kd and block.kd.patience else 0.0
    layers = range(0 if train_rows.states is None else train_rows.states.shape[1])
    joint.fit_scale(train_rows.texts)

    def backward(rows: Rows) -> dict[str, float]:
        part = train_rows.select(rows)
        with autocast(joint, bfloat16=bfloat16):
            logits, states = joint.logits_and_states(part.texts, layers)
        device = logits.device
        taught = None if part.logits is None else torch.from_numpy(part.logits).to(device)
        value = loss(logits.float(), torch.from_numpy(part.classes).to(device), taught, alpha, temperature)
        if states is not None and part.states is not None:
            value = value + weight * patience(states, torch.from_numpy(part.states).to(device).float())
        value.backward()
        return {"loss": float(value.detach())}

    def dev_value() -> float:
        return -score(dev.classes, joint.predict(dev.texts, bfloat16=bfloat16))

    return fit(joint, backward, dev_value, settings, checkpoint, seconds)
