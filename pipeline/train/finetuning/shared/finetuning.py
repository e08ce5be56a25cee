"""Fine-tuning: supervised InfoNCE on triplets, the distilled weights kept unless dev improves."""

import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray
from torch import Tensor

from pipeline.core.errors import UserError
from pipeline.data.common.texts import first_of_same
from pipeline.data.tokens.mapped import positions
from pipeline.data.tokens.tokens import Tokens
from pipeline.params.finetune import Finetune
from pipeline.train.finetuning.shared.replay import Replay
from pipeline.train.loop.checkpoint import Checkpoint
from pipeline.train.loop.data import Examples
from pipeline.train.loop.loop import Point, Rows, Settings, fit
from pipeline.train.loop.loss import Batch, Loss
from pipeline.train.loop.mixture import Portion
from pipeline.train.loop.objective import Objective, Step, Term
from pipeline.train.loop.optimizers import sparse_parameters
from pipeline.train.loop.world import World
from pipeline.train.losses.shared.hsic import CODE_GAMMA_FINETUNING, Hsic
from pipeline.train.losses.shared.infonce import infonce
from pipeline.train.students.shared.base.interface import Student
from pipeline.vectors.sets.shards import places

CLIP_NORM = 1.0
"""Longest gradient of a step: the default of transformers' Trainer."""
WHOLE = sys.maxsize
"""Contrasted are whole vectors, no prefixes of them."""


class Finetuning:
    """One student and its triplets, as rows of a table of tokenised texts.

    Args:
        student: what is trained.
        triplets: as `chosen_triplets` gives them.
        texts: text_id and text, some at a time, sorted by text_id; those that no triplet names are passed
            over.
        params: how it is trained.
        path: the triplets' file, for messages.

    Raises:
        UserError: a triplet names a text that is not there.
    """

    def __init__(
        self,
        student: Student,
        triplets: pl.DataFrame,
        texts: Iterable[pl.DataFrame],
        params: Finetune,
        path: Path,
    ) -> None:
        self._student = student
        self._params = params
        hard = triplets["negative_ids"].list.head(params.negatives)
        negatives = hard.explode().drop_nulls()
        named = np.unique(np.concatenate([triplets["left_id"], triplets["right_id"], negatives]))
        self._ids, self.tokens = _tokenised(student, texts, named)
        self._anchors, self._positives, self._negatives = (
            _rows_of(self._ids, side.to_numpy(), path)
            for side in (triplets["left_id"], triplets["right_id"], negatives)
        )
        self._negative_counts: Rows = hard.list.len().to_numpy().astype(np.int64)
        self._negative_starts: Rows = np.cumsum(self._negative_counts) - self._negative_counts
        self._same = first_of_same(self._ids)
        one = self._same[np.concatenate([self._anchors, self._positives])]
        other = self._same[np.concatenate([self._positives, self._anchors])]
        in_order = np.lexsort((other, one))
        self._known = one[in_order], other[in_order]
        # There are no targets: texts are contrasted with other texts.
        self._examples = Examples(self.tokens, np.empty((len(self._ids), 0), np.float32))

    @property
    def triplets(self) -> int:
        """How many it trains on."""
        return len(self._anchors)

    def run(
        self,
        name: str,
        dev_score: Callable[[], float],
        checkpoint: Checkpoint,
        seconds: float,
        *,
        bfloat16: bool = False,
        replay: Replay | None = None,
    ) -> list[Point]:
        """Train and leave the student with the weights of the best dev score, those before included.

        With `replay`, the distillation goes on in every step.
        """
        fields = {"epochs", "batch_size", "lr", "warmup", "evaluations", "seed", "interpolation"}
        settings = Settings(
            name=name,
            block="finetune",
            portions=(Portion(self.triplets),),
            schedule="linear",
            clip_norm=CLIP_NORM,
            sparse=bool(sparse_parameters(self._student.module)),
            bfloat16=bfloat16,
            beside=replay.batches if replay else None,
            **self._params.model_dump(include=fields),
        )

        def backward(rows: Rows) -> Mapping[str, float]:
            own, replayed = settings.split(rows)
            told = self._backward(own, bfloat16=bfloat16)
            return replay.beside(told, replayed) if replay else told

        def read_ahead(rows: Rows) -> None:
            if replay:
                replay.read_ahead(settings.split(rows)[1])

        return fit(
            self._student.module,
            backward,
            lambda: -dev_score(),
            settings,
            checkpoint,
            seconds,
            read_ahead=read_ahead if replay else None,
        )

    def _backward(self, rows: Rows, *, bfloat16: bool) -> dict[str, float]:
        texts, left_out = self._batch(rows)
        return self._step(_Contrast(self._params, torch.from_numpy(left_out)), texts, bfloat16=bfloat16)

    def _step(self, loss: Loss, texts: Rows, *, bfloat16: bool) -> dict[str, float]:
        """Add the gradients of a loss over these texts, in their order."""
        step = Step(
            self._student,
            Objective([Term(1.0, loss, WHOLE, WHOLE)]),
            self._examples,
            World(),
            self._params.micro_batch,
            bfloat16=bfloat16,
        )
        return step.backward(texts)

    def _batch(self, rows: Rows) -> tuple[Rows, NDArray[np.bool_]]:
        """The texts of n triplets, and what is left out of their contrast.

        Texts: n anchors, n positives, and the m hard negatives of all of them. Left out, (n, n + m): where a
        positive or hard negative is the anchor itself, or what another of the student's triplets calls its
        positive, or the anchor its positive's: in whatever roles.
        """
        anchors, positives = self._anchors[rows], self._positives[rows]
        # A text that is an anchor's positive in this batch would be counted twice, once as its own negative.
        negatives = self._negatives[positions(self._negative_starts[rows], self._negative_counts[rows])]
        hard = np.setdiff1d(negatives, positives)
        candidates = np.concatenate([positives, hard])
        asked, same = self._same[anchors], self._same[candidates]
        starts, ends = (np.searchsorted(self._known[0], asked, side) for side in ("left", "right"))
        left_out = np.stack(
            [
                np.isin(same, np.append(self._known[1][start:end], anchor))
                for anchor, start, end in zip(asked, starts, ends, strict=True)
            ]
        )
        np.fill_diagonal(left_out, False)
        return np.concatenate([anchors, candidates]), left_out


class _Contrast(Loss):
    """InfoNCE, and HSIC of the anchors, of a batch as `Finetuning` makes it: IBKD eqs. 9 and 10."""

    over = "batch"

    def __init__(self, params: Finetune, left_out: Tensor) -> None:
        super().__init__()
        self._left_out = left_out
        self._temperature = params.temperature
        self._hsic = Hsic(params.hsic.loss, CODE_GAMMA_FINETUNING) if params.hsic else None
        self._weight = params.hsic.weight if params.hsic else 0.0
        self.needs_inputs = params.hsic is not None

    def forward(self, batch: Batch) -> Tensor:
        """The loss of n anchors, n positives and m hard negatives, ()."""
        n, candidates = self._left_out.shape
        anchors, positives, negatives = batch.vectors.split([n, n, candidates - n])
        left_out = self._left_out.to(anchors.device)
        loss = infonce(anchors, positives, negatives, self._temperature, left_out)
        if self._hsic and batch.inputs is not None:
            loss = loss + self._weight * self._hsic.of(batch.inputs[:n], anchors)
        return loss

    def measures(self) -> dict[str, float]:
        """Those of HSIC."""
        return self._hsic.measures() if self._hsic else {}


def chosen_triplets(
    triplets: pl.DataFrame, params: Finetune, path: Path, key: str = "the student's finetune"
) -> pl.DataFrame:
    """The triplets of the data that a student, or the teacher, names; `key` says where, for messages.

    Raises:
        UserError: there are fewer than a batch needs.
    """
    chosen = triplets.filter(pl.col("task").is_in(params.data))
    if len(chosen) < 2:
        raise UserError(
            f"{path} has {len(chosen)} triplets of {', '.join(params.data)}, and at least 2 are needed to "
            f"contrast; add some to finetune.data, or set {key} to null"
        )
    return chosen


def _tokenised(
    student: Student, texts: Iterable[pl.DataFrame], named: NDArray[np.uint64]
) -> tuple[NDArray[np.uint64], Tokens]:
    """The ids and tokens of the texts that are named, ascending."""
    ids, parts = [np.empty(0, np.uint64)], []
    for part in texts:
        chosen = part.filter(pl.Series(places(named, part["text_id"].to_numpy())[1]))
        ids.append(chosen["text_id"].to_numpy())
        parts.append(student.tokenise(chosen["text"].to_list()))
    return np.concatenate(ids), Tokens.joined(parts)


def _rows_of(ids: NDArray[np.uint64], sought: NDArray[np.uint64], path: Path) -> Rows:
    """Positions of those sought in the ascending `ids`."""
    at, known = places(ids, sought)
    if not known.all():
        raise UserError(
            f"{path} names {(~known).sum()} texts (first text_id {sought[~known][0]}) that are none of the "
            "fine-tuning texts; run `dvc repro -f prepare mine`"
        )
    return at
