"""What a classifier is trained, chosen and scored on: a task's rows, and the task teacher's logits."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pipeline.augment.transfer_set import rows as transfer_rows
from pipeline.classifiers.training import untuned
from pipeline.classifiers.training.inputs import Rows
from pipeline.classifiers.training.joint import Examples
from pipeline.core import fingerprint
from pipeline.core.errors import UserError
from pipeline.data.common import texts
from pipeline.params.classifiers import Classifier
from pipeline.tasks import classification, sts
from pipeline.tasks.embeddings import Embeddings, Ids
from pipeline.tasks.heads import Classes
from pipeline.vectors.sets import published

PAIRS_AT_A_TIME = 8192
"""Whose vectors are held once more, side by side."""


@dataclass(frozen=True)
class Cached:
    """The teacher's vectors of a text set."""

    folder: Path
    """vectors/SET."""
    view: str

    def of(self, ids: Ids) -> Embeddings:
        """Those of these ascending ids."""
        found = published.open_set(self.folder, self.view)
        vectors = np.concatenate([*found.of(ids, self.view)]).astype(np.float32)
        return Embeddings(ids, vectors, found.similarity(self.view))


Teach = Callable[[pl.DataFrame], NDArray[np.float32]]
"""Training rows (n) to the logits (n, c) that a task teacher gives them which is trained on them alone."""


class Told(NamedTuple):
    """What a task teacher says."""

    logits: NDArray[np.float32]
    """Of the training rows, then of those of the transfer set, (n, c)."""
    scores: dict[str, float]
    """On the test rows."""
    teach: Teach | None = None
    """None: no other training rows are asked for."""
    states: NDArray[np.float16] | None = None
    """Of the same rows, (n, layers, d), its first tokens' in layers that were asked for."""
    key: str | None = None
    """Of what made the states."""


@dataclass(frozen=True)
class ClassifierTask:
    """The rows of a task with labels, and the texts that they name."""

    name: str
    metric: str
    """The task's headline."""
    labels: list[str]
    texts: pl.DataFrame
    """text_id, text, role; sorted by text_id."""
    train: Examples
    """Labelled rows first, then those of the transfer set."""
    labelled: int
    """How many of them are labelled."""
    dev: Examples
    test: Examples
    rows: pl.DataFrame
    """As in tasks.parquet."""
    told: Told | None = None
    """None where no task teacher is asked for."""

    @property
    def pairs(self) -> bool:
        """Whether its rows are pairs of texts."""
        return self.test.texts.shape[1] == 2

    @cached_property
    def identity(self) -> str:
        """Digest (hex) of all that decides a training: the texts, what is asked of each row, the metric."""
        parts = {"metric": self.metric, "labels": self.labels, "labelled": self.labelled}
        parts["told"] = self.told.key if self.told else None
        parts["texts"] = fingerprint.of_json(self.texts.to_dict(as_series=False))
        for name, rows in (("train", self.train), ("dev", self.dev)):
            for field in ("texts", "classes", "logits"):
                values = getattr(rows, field)
                parts[f"{name} {field}"] = None if values is None else fingerprint.of_bytes(values.tobytes())
        return fingerprint.of_json(parts)

    @property
    def is_of_alike(self) -> bool:
        """Whether it asks of pairs one thing or its opposite, which a threshold can tell."""
        return self.pairs and len(self.labels) == 2

    def share(self, fraction: float, seed: int) -> Examples:
        """Training rows of a share of the labelled ones, each class by its own share.

        The logits are of a task teacher that has learned from these rows alone.

        Args:
            fraction: of the rows; 1: all, and those of the transfer set.
            seed: of the choice.
        """
        if fraction == 1:
            return self.train
        classes: Classes = self.train.classes[: self.labelled]
        count = max(int(np.ceil(fraction * self.labelled)), len(self.labels))
        chosen = np.sort(classification.nested_order(classes, seed)[:count])
        part = self.train.select(chosen)
        if self.told is None or self.told.teach is None:
            return part
        return replace(part, logits=self.told.teach(self.rows.filter(subset="train")[chosen]))

    def untuned(self, vectors: Embeddings) -> dict[str, float]:
        """Scores of a threshold on the similarity of pairs of two classes.

        Args:
            vectors: of all texts.
        """
        train, test = (self.rows.filter(subset=subset) for subset in ("train", "test"))
        classes = classification.classes_of(train, self.labels)
        similarity = [
            np.concatenate([sts.similarity(piece, vectors) for piece in part.iter_slices(PAIRS_AT_A_TIME)])
            for part in (train, test)
        ]
        predicted, threshold = untuned.predict(similarity[0], classes, similarity[1])
        return {**classification.scores_of(predicted, self.test.classes, 2), "threshold": threshold}


@dataclass(frozen=True)
class Transfer:
    """The transfer set of a task: rows without labels."""

    rows: pl.DataFrame
    """left_id, right_id."""
    texts: pl.DataFrame
    vectors: Cached

    @classmethod
    def read(cls, rows_file: Path, texts_file: Path, vectors: Cached, block: Classifier) -> "Transfer":
        """That of a classifier's task.

        Raises:
            UserError: there is none.
        """
        rows = transfer_rows.read(rows_file).filter(task=block.task)
        if rows.is_empty():
            raise UserError(
                f"{rows_file} has no rows of {block.task}; name it in augment.transfer.tasks, or set the "
                "classifier's transfer to false"
            )
        ids = pl.concat([rows["left_id"], rows["right_id"]]).drop_nulls().unique()
        table = texts.read_labelled(texts_file)
        return cls(rows, table.filter(pl.col("text_id").is_in(ids.implode())), vectors)


Ask = Callable[[ClassifierTask, pl.DataFrame, Rows], Told]
"""A task without a task teacher, a table of texts and rows of it, the task's training rows first, to what a
task teacher says of them."""


def read_task(
    rows: pl.DataFrame,
    table: pl.DataFrame,
    transfer: Transfer | None,
    block: Classifier,
    metric: str,
    vectors: Cached,
    tuned: Ask | None = None,
) -> ClassifierTask:
    """The rows of a task, with what its task teacher says of them where the classifier asks for one.

    Args:
        rows: of tasks.parquet.
        table: corpus/eval.parquet.
        transfer: the task's transfer set; None: it is not used.
        block: the classifier's.
        metric: the task's headline.
        vectors: the teacher's of the evaluation texts.
        tuned: the task teacher; None: a head on those vectors.
    """
    labels = classification.labels_of(rows)
    named = pl.concat([rows["left_id"], rows["right_id"]]).drop_nulls().unique()
    table = table.filter(pl.col("text_id").is_in(named.implode())).select(*texts.IDENTITY)
    plain = _plain(rows, table, labels, block.task, metric)
    if block.kd is None:
        return plain
    whole = (
        table if transfer is None else pl.concat([table, transfer.texts]).unique("text_id").sort("text_id")
    )
    trained = rows.filter(subset="train").select("left_id", "right_id")
    if transfer:
        trained = pl.concat([trained, transfer.rows.select("left_id", "right_id")])
    asked = Examples.of(trained, whole["text_id"].to_numpy(), np.empty(0, np.int64)).texts
    told = tuned(plain, whole, asked) if tuned else _head_told(rows, plain, transfer, vectors)
    # Texts of the transfer set have no labels but the task teacher's.
    said = told.logits[plain.labelled :].argmax(axis=1)
    classes = np.concatenate([plain.train.classes, said])
    task = _plain(rows, whole, labels, block.task, metric)
    return replace(task, train=Examples(asked, classes, told.logits, told.states), told=told)


def _plain(
    rows: pl.DataFrame, table: pl.DataFrame, labels: list[str], name: str, metric: str
) -> ClassifierTask:
    """A task without a task teacher, whose texts are in a table."""
    ids = table["text_id"].to_numpy()
    subsets = (rows.filter(subset=subset) for subset in ("train", "dev", "test"))
    train, dev, test = (Examples.of(part, ids, classification.classes_of(part, labels)) for part in subsets)
    return ClassifierTask(name, metric, labels, table, train, len(train), dev, test, rows)


def _head_told(rows: pl.DataFrame, plain: ClassifierTask, transfer: Transfer | None, vectors: Cached) -> Told:
    """What a head on the teacher's vectors says."""
    own = vectors.of(plain.texts["text_id"].to_numpy())
    subsets = {subset: rows.filter(subset=subset) for subset in ("train", "dev", "test")}

    def teach(share: pl.DataFrame) -> NDArray[np.float32]:
        ask, _ = classification.task_teacher(pl.concat([share, subsets["dev"], subsets["test"]]), own)
        return ask(share, own)

    ask, predicted = classification.task_teacher(rows, own)
    logits = ask(subsets["train"], own)
    if transfer:
        made = transfer.vectors.of(transfer.texts["text_id"].to_numpy())
        logits = np.concatenate([logits, ask(transfer.rows, made)])
    return Told(logits, classification.scores_of(predicted, plain.test.classes, len(plain.labels)), teach)
