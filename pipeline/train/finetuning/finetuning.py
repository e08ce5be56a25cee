"""Fine-tuning: supervised InfoNCE on triplets, the distilled weights kept unless dev improves; whitening."""

import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import normalize

from pipeline.core.errors import UserError
from pipeline.core.progress import say
from pipeline.data.common import texts as text_sets
from pipeline.data.tokens.tokens import Tokens
from pipeline.params.finetune import Finetune, Whitening
from pipeline.params.students import StudentBlock
from pipeline.train.loop.checkpoint import Checkpoint
from pipeline.train.loop.data import Examples
from pipeline.train.loop.loop import Point, Rows, Settings, fit
from pipeline.train.loop.loss import Batch, Loss
from pipeline.train.loop.mixture import Portion
from pipeline.train.loop.objective import Objective, Step, Term
from pipeline.train.loop.optimizers import sparse_parameters
from pipeline.train.loop.world import World
from pipeline.train.losses.hsic import CODE_GAMMA_FINETUNING, Hsic
from pipeline.train.losses.infonce import infonce
from pipeline.train.students.shared.interface import MapsLinearly, Student
from pipeline.vectors.space import pca

CLIP_NORM = 1.0
"""Longest gradient of a step: the default of transformers' Trainer."""
PROJECTION_TEXTS = 20_000
"""Texts that a projection is fitted on: many times as many as it has numbers a row."""
TEXTS_AT_A_TIME = 4096
"""That whitening tokenises."""
WHOLE = sys.maxsize
"""Contrasted are whole vectors, no prefixes of them."""


class Finetuning:
    """One student and its triplets, as rows of a table of tokenised texts.

    Args:
        student: what is trained.
        triplets: as `chosen_triplets` gives them.
        texts: text_id and text, sorted by text_id; those that no triplet names are passed over.
        params: how it is trained.
        path: the triplets' file, for messages.

    Raises:
        UserError: a triplet names a text that is not there.
    """

    def __init__(
        self, student: Student, triplets: pl.DataFrame, texts: pl.DataFrame, params: Finetune, path: Path
    ) -> None:
        self._student = student
        self._params = params
        hard = triplets["negative_ids"].list.head(params.negatives)
        named = pl.concat([triplets["left_id"], triplets["right_id"], hard.explode().drop_nulls()]).unique()
        texts = texts.filter(pl.col("text_id").is_in(named.implode()))
        ids = texts["text_id"].to_numpy()
        self._anchors = _rows_of(ids, triplets["left_id"], path)
        self._positives = _rows_of(ids, triplets["right_id"], path)
        negatives = _rows_of(ids, hard.explode().drop_nulls(), path)
        self._negatives = np.split(negatives, hard.list.len().cum_sum().to_numpy()[:-1])
        by_anchor = np.lexsort((self._positives, self._anchors))
        self._known = self._anchors[by_anchor], self._positives[by_anchor]
        self.tokens: Tokens = student.tokenise(texts["text"].to_list())
        # There are no targets: texts are contrasted with other texts.
        self._examples = Examples(self.tokens, np.empty((len(texts), 0), np.float32))

    def run(
        self,
        name: str,
        dev_score: Callable[[], float],
        checkpoint: Checkpoint,
        seconds: float,
        *,
        bfloat16: bool = False,
    ) -> list[Point]:
        """Train and leave the student with the weights of the best dev score, those before included."""
        fields = {"epochs", "batch_size", "lr", "warmup", "evaluations", "seed", "interpolation"}
        settings = Settings(
            name=name,
            block="finetune",
            portions=(Portion(len(self._anchors)),),
            schedule="linear",
            clip_norm=CLIP_NORM,
            sparse=bool(sparse_parameters(self._student.module)),
            bfloat16=bfloat16,
            **self._params.model_dump(include=fields),
        )
        backward = partial(self._backward, bfloat16=bfloat16)
        return fit(self._student.module, backward, lambda: -dev_score(), settings, checkpoint, seconds)

    def _backward(self, rows: Rows, *, bfloat16: bool) -> dict[str, float]:
        texts, left_out = self._batch(rows)
        contrast = _Contrast(self._params, torch.from_numpy(left_out))
        step = Step(
            self._student,
            Objective([Term(1.0, contrast, WHOLE, WHOLE)]),
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
        positive.
        """
        anchors, positives = self._anchors[rows], self._positives[rows]
        # A text that is an anchor's positive in this batch would be counted twice, once as its own negative.
        hard = np.setdiff1d(np.concatenate([self._negatives[row] for row in rows]), positives)
        candidates = np.concatenate([positives, hard])
        starts, ends = (np.searchsorted(self._known[0], anchors, side) for side in ("left", "right"))
        left_out = np.stack(
            [
                np.isin(candidates, np.append(self._known[1][start:end], anchor))
                for anchor, start, end in zip(anchors, starts, ends, strict=True)
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


@torch.no_grad()
def append_projection(student: Student, tokens: Tokens, dim: int) -> None:
    """Append a linear layer from d to `dim` to the student's model. IBKD eq. 11.

    It starts as an orthogonal projection, the one that keeps most of these texts' vectors at length 1, of the
    first PROJECTION_TEXTS. It is not centred, so that cosines change as little as they can.

    Raises:
        UserError: the student's `encode` does not run it.
    """
    sample = tokens.select(np.arange(min(len(tokens), PROJECTION_TEXTS)))
    found = (normalize(student.encode(part).vectors.cpu().double(), dim=1) for part in sample.in_parts())
    products = sum((vectors.T @ vectors for vectors in found), torch.zeros(()))
    weights = torch.linalg.eigh(products).eigenvectors.flip(1)[:, :dim].float()
    first = tokens.select(np.arange(1))
    before = student.encode(first).vectors
    append_layer(student, weights, torch.zeros(dim))
    try:
        after = student.encode(first).vectors
    except RuntimeError:  # a layer of the student's own reads what the new one gives
        after = before
    if after.shape != (1, dim) or torch.equal(after, before):
        raise UserError(
            "finetune.projection appends a layer, which this kind's `encode` does not run; set it to null"
        )


def check_last_layer(block: StudentBlock, student: Student) -> None:
    """Fail where the student cannot get a last layer that its block asks for, before anything is trained."""
    from sentence_transformers import SentenceTransformer

    projection = block.finetune and block.finetune.projection
    if (projection or block.whitening) and not isinstance(student.module, SentenceTransformer):
        if not projection and isinstance(student, MapsLinearly):
            return
        key = "finetune.projection" if projection else "whitening"
        raise UserError(f"{key} appends a layer, which this kind of student does not take; set it to null")


def append_layer(student: Student, weights: Tensor, bias: Tensor) -> None:
    """Append a linear layer to the student's model: v @ weights + bias; weights (d, dim), bias (dim,)."""
    from sentence_transformers.base.modules import Dense

    model: Any = student.module  # a SentenceTransformer: `check_last_layer` has seen it
    width, dim = weights.shape
    layer = Dense(width, dim, activation_function=None, init_weight=weights.T.contiguous(), init_bias=bias)
    model.append(layer.to(model.device))


def whiten(
    name: str,
    student: Student,
    params: Whitening,
    corpus: Path,
    prompts: Mapping[str, str],
    device: str = "cpu",
) -> dict[str, Any]:
    """Give the student a last layer after which its vectors of the corpus have mean 0 and covariance 1.

    w = diag(variance)^(-1/2) C (v - mean), C the `dim` principal components of the largest variance of the
    vectors v of the corpus' training texts, before they are brought to length 1. In float32, whatever the
    student was trained in.

    Args:
        name: of the student, for messages.
        student: is changed, and left on the CPU.
        params: its block.
        corpus: corpus/corpus.parquet.
        prompts: what it has before the texts of each role.
        device: where its vectors are computed.

    Returns:
        Metrics: dimensions, texts, and the share of the variance that the dimensions had.

    Raises:
        UserError: the vectors vary in fewer directions than are to be kept.
    """
    student.module.to(device)
    wanted = islice(chain.from_iterable(text_sets.stream(corpus, "train", prompts)), params.max_rows)
    content = list(wanted)
    say(f"{name}: whitening is fitted on the vectors of {len(content):,} texts")
    width = len(next(_vectors(student, content[:1]))[0])
    fitted = pca.fit(_vectors(student, content), width, centre=True)
    if params.dim > fitted.rank:
        raise UserError(
            f"students.{name}.whitening.dim is {params.dim}, but its vectors of {len(content):,} texts of "
            f"{corpus} vary in {fitted.rank} directions; choose {fitted.rank} or less, or add texts"
        )
    weights = (fitted.components[: params.dim] / np.sqrt(fitted.explained_variance[: params.dim, None])).T
    bias = -fitted.mean @ weights
    student.module.to("cpu")
    if isinstance(student, MapsLinearly):
        student.map_linearly(weights.astype(np.float32), bias.astype(np.float32))
    else:
        append_layer(student, torch.from_numpy(weights).float(), torch.from_numpy(bias).float())
    kept = fitted.explained_variance[: params.dim].sum() / fitted.explained_variance.sum()
    return {"whitened_dim": params.dim, "whitened_texts": len(content), "whitened_variance": float(kept)}


def _vectors(student: Student, content: list[str]) -> Iterator[NDArray[np.float32]]:
    """The student's vectors (n, d), some at a time."""
    for at in range(0, len(content), TEXTS_AT_A_TIME):
        for part in student.tokenise(content[at : at + TEXTS_AT_A_TIME]).in_parts():
            with torch.no_grad():
                yield student.encode(part).vectors.float().cpu().numpy()


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


def _rows_of(ids: NDArray[np.uint64], wanted: pl.Series, path: Path) -> Rows:
    """Positions of `wanted` in the ascending `ids`."""
    sought = wanted.to_numpy()
    at = np.searchsorted(ids, sought)
    known = at < len(ids)
    known[known] = ids[at[known]] == sought[known]
    if not known.all():
        raise UserError(
            f"{path} names {(~known).sum()} texts (first text_id {sought[~known][0]}) that are none of the "
            "fine-tuning texts; run `dvc repro -f prepare mine`"
        )
    return at
