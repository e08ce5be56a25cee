"""Retrieval with the teacher's documents and a student's queries: a store stays, only queries get cheaper."""

from collections.abc import Mapping
from dataclasses import replace

import polars as pl

from pipeline.params.students import Student
from pipeline.tasks import ranking
from pipeline.tasks.embeddings import Embeddings


def score_tasks(
    tasks: Mapping[str, pl.DataFrame], queries: Embeddings, documents: Embeddings
) -> dict[str, dict[str, float]]:
    """MRR@10, recall@10 and nDCG@10 of exact search by the queries' similarity, by task.

    Args:
        tasks: retrieval tasks.
        queries: one model's vectors (n, d).
        documents: another's (n, d).
    """
    scores = {}
    for name, pairs in tasks.items():
        task = ranking.collection(pairs)
        how = queries.similarity
        stored = replace(documents, similarity=how)
        sides = ranking.searchable(stored, task.documents), ranking.searchable(queries, task.queries)
        scores[name] = ranking.score(task, ranking.exact(*sides, how=how))
    return scores


def left_out(student: Student, teacher_dim: int, teacher_view: str) -> str | None:
    """Why a student's vectors are not comparable with its teacher's; None: they are.

    Args:
        student: its block.
        teacher_dim: of the view that it learns.
        teacher_view: the one that the teacher's users have stored.
    """
    losses = [term.loss for term in student.loss.terms] if student.loss.kind == "sum" else [student.loss]
    regularise = getattr(student.train, "regularise", None)
    if student.view != teacher_view:
        return f"it learns the view {student.view}, and the teacher's users have {teacher_view}"
    if student.finetune and student.finetune.projection:
        return "fine-tuning adds a learned projection"
    if regularise and regularise.pca:
        return "train.regularise rotates its vectors after training"
    if student.train.target == "full" and student.width != teacher_dim:
        return "its target has another dimension"
    if not any(
        loss.kind in ("mse", "cosine") or (loss.kind == "infonce" and loss.projection == "none")
        for loss in losses
    ):
        return "its loss meets the teacher's vectors by their cosines or through a learned projection alone"
    return None
