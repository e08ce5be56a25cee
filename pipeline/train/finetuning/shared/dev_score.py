"""The dev score of a fine-tuning, and what is told of the weights that it chose."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from pipeline.data.common import texts
from pipeline.params.finetune import Contrast
from pipeline.params.teacher import Similarity
from pipeline.prepare.dev import DevTasks
from pipeline.tasks import scoring as evaluation
from pipeline.tasks.embeddings import Embeddings
from pipeline.train.loop import guard
from pipeline.train.loop.loop import Point
from pipeline.train.loop.objective import autocast
from pipeline.train.students.shared.base.interface import Student


class DevScore:
    """Mean headline metric over the dev tasks, with the student, or the teacher in training, as it is."""

    def __init__(
        self,
        learner: Student,
        tasks: DevTasks,
        prompts: Mapping[str, str],
        similarity: Similarity,
        *,
        bfloat16: bool,
    ) -> None:
        self._learner, self._tasks, self._bfloat16 = learner, tasks, bfloat16
        self._similarity = similarity
        self._ids = tasks.texts["text_id"].to_numpy()
        self._tokens = learner.tokenise(texts.with_prompts(tasks.texts, prompts)["text"].to_list())
        self._main = {
            name: evaluation.headline(tasks.scoring[name], metric) for name, metric in tasks.metrics.items()
        }

    def __call__(self) -> float:
        """The mean, in one pass over the dev texts."""
        # Scoring may train classifiers, which need their gradients.
        with torch.no_grad(), autocast(self._learner.module, bfloat16=self._bfloat16):
            parts = [self._learner.encode(part).vectors.float().cpu() for part in self._tokens.in_parts()]
        vectors = np.concatenate([part.numpy() for part in parts])
        embeddings = Embeddings(self._ids, vectors, self._similarity)
        scores = evaluation.score_tasks(self._tasks.pairs, self._tasks.scoring, embeddings)
        return evaluation.average(scores, self._main)


def summary_of(
    points: list[Point],
    best: Point,
    unprojected: float | None,
    params: Contrast,
    name: str,
    unchanged: str,
) -> dict[str, Any]:
    """What was kept and why.

    Args:
        points: the curve.
        best: the point of it whose weights are kept.
        unprojected: the dev score before its projection, if there is one.
        params: how it was fine-tuned.
        name: the student's, or `teacher`.
        unchanged: what the weights before fine-tuning are called.
    """
    start, after = -points[0].dev_value, -best.dev_value
    before = start if unprojected is None else unprojected
    kept, reason = "finetuned", f"dev score {before:.4f} before, {after:.4f} at best"
    if unprojected is not None:
        reason = f"dev score {before:.4f} before, {start:.4f} with the projection, {after:.4f} at best"
    if best.step == 0:
        kept = unchanged if unprojected is None else "projected"
    elif params.interpolation < 1:
        reason += f"; the fine-tuned weights' share is {params.interpolation:g}"
    saturated = guard.saturated_kernels(points[-1].measures, f"{name}.finetune.hsic")
    return {
        "kept": kept,
        "reason": reason,
        "steps": points[-1].step,
        "best_step": best.step,
        "dev_before": before,
        **({} if unprojected is None else {"dev_projected": start}),
        "dev_after": after,
        **points[-1].measures,
        **({"saturated_kernels": ", ".join(saturated)} if saturated else {}),
    }
