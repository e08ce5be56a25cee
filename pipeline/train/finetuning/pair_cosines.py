"""Fine-tuning to the teacher's cosines of given pairs of texts: no label is read (SRA sec. 5.5)."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import normalize

from pipeline.core.atomic import disk_errors
from pipeline.data.tokens.mapped import Rows, gather, map_file, positions, read_ahead
from pipeline.params.finetune import Finetune
from pipeline.params.teacher import View
from pipeline.train.finetuning.shared.finetuning import Finetuning
from pipeline.train.loop.loss import Batch, Loss
from pipeline.train.students.shared.base.interface import Student
from pipeline.vectors.sets.published import VectorSet

PART_BYTES = 64 << 20
"""Of the teacher's vectors, as float32, that are compared at a time."""


class PairCosines(Finetuning):
    """As `Finetuning`: the pairs of a triplet are the anchor and its positive, or a hard negative of it.

    Args:
        student, triplets, texts, params, path: as there.
        vectors: the teacher's, of these texts and others.
        view: of the vectors.
        scratch: a folder for the texts' vectors until they are compared.

    Raises:
        UserError: a triplet names a text that is not there or has no vector, or the disk is full.
    """

    def __init__(
        self,
        student: Student,
        triplets: pl.DataFrame,
        texts: Iterable[pl.DataFrame],
        params: Finetune,
        path: Path,
        vectors: VectorSet,
        view: View,
        scratch: Path,
    ) -> None:
        super().__init__(student, triplets, texts, params, path)
        self._counts = 1 + self._negative_counts
        self._starts = np.cumsum(self._counts) - self._counts
        self._left = np.repeat(self._anchors, self._counts)
        self._right = np.insert(self._negatives, self._negative_starts, self._positives)
        stored = scratch / "vectors.bin"
        with disk_errors(stored), stored.open("wb") as file:
            for part in vectors.of(self._ids, view):
                file.write(np.ascontiguousarray(part).data)  # tofile does not notice a full disk
        shape = (len(self._ids), vectors.dims[view])
        self._cosines = _cosines(map_file(stored, np.float16, shape), self._left, self._right)

    def _backward(self, rows: Rows, *, bfloat16: bool) -> dict[str, float]:
        pairs = positions(self._starts[rows], self._counts[rows])
        texts, at = np.unique(np.stack([self._left[pairs], self._right[pairs]]), return_inverse=True)
        wanted = torch.from_numpy(self._cosines[pairs])
        left, right = torch.from_numpy(at.reshape(2, -1))
        return self._step(_PairLoss(left, right, wanted), texts, bfloat16=bfloat16)


class _PairLoss(Loss):
    """How far the student's cosines of a batch's pairs are from the teacher's."""

    over = "batch"

    def __init__(self, left: Tensor, right: Tensor, cosines: Tensor) -> None:
        super().__init__()
        self._left, self._right, self._cosines = left, right, cosines

    def forward(self, batch: Batch) -> Tensor:
        """Mean over the pairs of (cos_s - cos_t)^2, ()."""
        unit = normalize(batch.vectors, dim=1)
        left, right, wanted = (one.to(unit.device) for one in (self._left, self._right, self._cosines))
        found = (unit.index_select(0, left) * unit.index_select(0, right)).sum(dim=1)
        return (found - wanted).square().mean()


def _cosines(vectors: NDArray[np.float16], left: Rows, right: Rows) -> NDArray[np.float32]:
    """The cosine of each pair of rows, (n,); that of a vector of zeros is 0."""
    found = np.empty(len(left), np.float32)
    at_a_time = max(1, PART_BYTES // (8 * max(1, vectors.shape[1])))
    for start in range(0, len(left), at_a_time):
        part = slice(start, start + at_a_time)
        ones = np.ones_like(left[part])
        read_ahead(vectors, np.concatenate([left[part], right[part]]), np.tile(ones, 2))  # all at once
        sides = [gather(vectors, side[part], ones).astype(np.float32) for side in (left, right)]
        lengths = np.prod([np.linalg.norm(side, axis=1) for side in sides], axis=0)
        found[part] = (sides[0] * sides[1]).sum(axis=1) / np.where(lengths > 0, lengths, 1)
    return found
