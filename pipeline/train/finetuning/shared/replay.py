"""Replay: a student's distillation loss on a batch of its training texts, in each step of fine-tuning."""

from collections.abc import Mapping

from pipeline.train.loop.loop import Rows
from pipeline.train.loop.mixture import Batches
from pipeline.train.loop.objective import Step

LOSS = "replay_loss"
"""The column of the curve, before its weight."""


class Replay:
    """What is added to the gradients of every labelled batch.

    Args:
        step: of the student and its objective, which has the weight in it.
        weight: of the objective.
        batches: the texts of each step, as rows of the step's examples.
    """

    def __init__(self, step: Step, weight: float, batches: Batches) -> None:
        self._step, self._weight, self.batches = step, weight, batches

    def beside(self, told: Mapping[str, float], rows: Rows) -> dict[str, float]:
        """Add the gradients of these rows; what the labelled batch told, with the sum of both losses."""
        found = self._step.backward(rows)
        replayed = found.pop("loss")
        measures = {f"replay_{name}": value for name, value in found.items()}
        own = {LOSS: replayed / self._weight, "loss": told["loss"] + replayed}
        return {**told, **measures, **own}

    def read_ahead(self, rows: Rows) -> None:
        """Have the disk read what `beside` will want for these rows."""
        self._step.read_ahead(rows)
