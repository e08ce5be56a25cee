"""Fine-tuning: supervised InfoNCE on triplets, the distilled weights kept unless dev improves."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import torch
from torch import Tensor

from pipeline.core.errors import UserError
from pipeline.core.params.students import Finetune
from pipeline.losses.infonce import infonce
from pipeline.students.interface import Student
from pipeline.training.checkpoint import Checkpoint
from pipeline.training.loop import Point, Rows, Settings, fit
from pipeline.training.tokens import Tokens


class Finetuning:
    """One student and its triplets, as rows of a table of tokenised texts."""

    def __init__(
        self, student: Student, triplets: pl.DataFrame, texts: pl.DataFrame, temperature: float
    ) -> None:
        self._student = student
        self._temperature = temperature
        ids = texts["text_id"].to_numpy()
        self._tokens: Tokens = student.tokenise(texts["text"].to_list())
        self._anchors = np.searchsorted(ids, triplets["left_id"].to_numpy())
        self._positives = np.searchsorted(ids, triplets["right_id"].to_numpy())
        self._negatives = [np.searchsorted(ids, row.to_numpy()) for row in triplets["negative_ids"]]

    def run(
        self,
        name: str,
        params: Finetune,
        dev_score: Callable[[], float],
        checkpoint: Checkpoint,
        seconds: float,
    ) -> list[Point]:
        """Train and leave the student with the weights of the best dev score, the distilled ones included."""
        settings = Settings(
            name=name,
            rows=len(self._anchors),
            schedule="linear",
            clip_norm=1.0,
            **params.model_dump(exclude={"data", "temperature"}),
        )
        return fit(
            self._student.module, self._batch_loss, lambda: -dev_score(), settings, checkpoint, seconds
        )

    def _batch_loss(self, rows: Rows) -> Tensor:
        positives = self._positives[rows]
        negatives = [self._negatives[row] for row in rows]
        # A text that is an anchor's positive in this batch would be counted twice, once as its own negative.
        hard = np.setdiff1d(np.concatenate(negatives), positives)
        parts = [self._anchors[rows], positives, hard]
        vectors = self._student.vectors(self._tokens.select(np.concatenate(parts)))
        anchors, positive, negative = torch.split(vectors, [len(part) for part in parts])
        return infonce(anchors, positive, negative, self._temperature)


def chosen_triplets(triplets: pl.DataFrame, params: Finetune, path: Path) -> pl.DataFrame:
    """The triplets of the data that a student names.

    Raises:
        UserError: there are fewer than a batch needs.
    """
    chosen = triplets.filter(pl.col("task").is_in(params.data))
    if len(chosen) < 2:
        raise UserError(
            f"{path} has {len(chosen)} triplets of {', '.join(params.data)}; "
            "at least 2 are needed to contrast"
        )
    return chosen
