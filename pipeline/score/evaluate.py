"""evaluate@NAME: score a student untrained, distilled and fine-tuned, beside the teacher's cached vectors."""

from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import polars as pl
import typer

from pipeline.core import fingerprint
from pipeline.core.errors import UserError, report_user_errors
from pipeline.core.progress import say
from pipeline.data.common import metrics, texts
from pipeline.data.student import student_folder
from pipeline.params.load import Params, load
from pipeline.params.students import Student
from pipeline.prepare.subtasks import spelled_out
from pipeline.score.evaluation import asymmetric, budget, embedding_space, examples, indexes, items
from pipeline.score.evaluation.shipped import embeddings
from pipeline.score.statistics import examined
from pipeline.tasks import pairs
from pipeline.tasks import scoring as evaluation
from pipeline.tasks.embeddings import Embeddings
from pipeline.vectors import collapse
from pipeline.vectors.sets import published
from pipeline.vectors.space import pca
from pipeline.vectors.space.targets import left_out, reduced_similarity, reduction


class Scored(NamedTuple):
    """What a model's vectors come to."""

    dim: int
    scores: evaluation.Scores
    items: pl.DataFrame


def main(
    name: Annotated[str, typer.Argument(help="The student's name in params.yaml")],
    tasks: Annotated[Path, typer.Option(help="corpus/tasks.parquet")],
    eval_texts: Annotated[Path, typer.Option(help="corpus/eval.parquet")],
    eval_vectors: Annotated[Path, typer.Option(help="vectors/eval, the teacher's")],
    teacher_view: Annotated[str, typer.Option(help="What stands for the teacher: the first of encode.views")],
    pca_folder: Annotated[Path, typer.Option("--pca", help="Folder of one PCA a view")],
    untrained: Annotated[Path, typer.Option(help="The student before training")],
    distilled: Annotated[Path, typer.Option(help="The distilled student")],
    finetuned: Annotated[Path, typer.Option(help="The student that ships")],
    out: Annotated[Path, typer.Option(help="Metrics of this student")],
    examined_folder: Annotated[Path, typer.Option("--examined", help="examined/NAME")],
    params_file: Annotated[Path, typer.Option("--params")] = Path("params.yaml"),
) -> None:
    """Score a student on the test tasks."""
    params = spelled_out(load(params_file))
    block = params.student(name)
    if refused := student_folder.refusal(finetuned):
        student_folder.write_refusal(refused, examined_folder)
        metrics.write({metrics.REFUSED: str(refused)}, out)
        return
    scoring = {task: spec.scoring for task, spec in params.evaluate.tasks.items()}
    test = evaluation.split_of(pairs.read(tasks), "test")
    if not test:
        raise UserError(f"{tasks} has no test task; give a task under evaluate.tasks `split: test`")
    wanted = evaluation.text_ids(test)
    if len(wanted) < 2:
        raise UserError(f"the test tasks ({', '.join(test)}) have one text between them; give them more rows")
    table = texts.read_labelled(eval_texts).filter(pl.col("text_id").is_in(pl.Series(wanted).implode()))

    def scored(one: Embeddings) -> Scored:
        return Scored(one.vectors.shape[1], *items.score_tasks(test, scoring, one))

    ids = table["text_id"].to_numpy()
    precision = params.evaluate.precision
    vector_set = published.open_set(eval_vectors, teacher_view, block.view)
    shipped = embeddings(finetuned, f"finetune@{name}", table, precision)
    teacher, target = _teacher(
        vector_set, teacher_view, block.view, shipped.vectors.shape[1], ids, pca_folder
    )
    models = {"teacher": teacher, "finetuned": shipped}  # of the others nothing is kept but their scores
    by_model = {"teacher": scored(teacher)}
    by_model["teacher_pca"] = by_model["teacher"] if target is teacher else scored(target)
    targets = collapse.describe(target.vectors)
    del target
    # A student that is not fine-tuned is the distilled one again, and is scored once.
    by_files = {fingerprint.of_folder(finetuned): scored(shipped)}
    for stage, folder in (("untrained", untrained), ("distilled", distilled), ("finetuned", finetuned)):
        files = fingerprint.of_folder(folder)
        if files not in by_files:
            by_files[files] = scored(embeddings(folder, f"distill@{name}", table, precision))
        by_model[stage] = by_files[files]
    block = block.model_copy(update={"dim": by_model["distilled"].dim})
    summary = _summary({model: found.scores for model, found in by_model.items()}, params)
    summary["geometry"] = _geometry(models, test, scoring)
    trained = "finetune" if block.finetune else "train"
    fix = f"lower students.{name}.{trained}.lr, or change its loss"
    collapse.check_collapse(summary["geometry"]["finetuned"], f"the vectors of {name}", fix, targets)
    shape = {
        "dim": by_model["finetuned"].dim,
        "dims": {model: found.dim for model, found in by_model.items()},
        "views": {"teacher": teacher_view, "teacher_pca": block.view},
    }
    compared = {model: one.similarity for model, one in models.items()}
    if set(compared.values()) != {"cosine"}:
        shape["similarity"] = compared
    in_use = {
        **_search(block, models, test, params, vector_set, teacher_view, pca_folder),
        **_budget(block, models, test, params),
    }
    metrics.write({"student": name, "kind": block.kind, **shape, **summary, **in_use}, out)
    parts = [by_model[model].items.with_columns(pl.lit(model).alias("model")) for model in examined.MODELS]
    _examine(pl.concat(parts), models, test, scoring, table, examined_folder)


def _teacher(
    vector_set: published.VectorSet,
    teacher_view: str,
    view: str,
    dim: int,
    ids: np.ndarray,
    pca_folder: Path,
) -> tuple[Embeddings, Embeddings]:
    """The view that stands for the teacher, and the one that the student learns, reduced to its dimension."""
    full = target = Embeddings(
        ids, _vectors_of(vector_set, teacher_view, ids), vector_set.similarity(teacher_view)
    )
    if view != teacher_view:
        target = Embeddings(ids, _vectors_of(vector_set, view, ids), vector_set.similarity(view))
    if dim < target.vectors.shape[1]:
        fitted = pca.read(pca_folder, view)
        reduced = fitted.reduce(target.vectors, min(dim, fitted.rank))
        target = Embeddings(ids, reduced, reduced_similarity(target.similarity, fitted))
    return full, target


def _vectors_of(vector_set: published.VectorSet, view: str, ids: np.ndarray) -> np.ndarray:
    return np.concatenate([*vector_set.of(ids, view)]).astype(np.float32)


def _summary(scores: dict[str, evaluation.Scores], params: Params) -> dict[str, Any]:
    known, tasks = scores["teacher"], params.evaluate.tasks
    main_metrics = evaluation.main_metrics({name: task for name, task in tasks.items() if name in known})
    return {
        "builtin": [name for name, task in tasks.items() if task.kind.startswith("wordnet_")],
        "main": main_metrics,
        "scores": scores,
        "average": {model: evaluation.average(values, main_metrics) for model, values in scores.items()},
        "retention": {
            model: evaluation.retention(values, scores["teacher"], main_metrics)
            for model, values in scores.items()
            if model != "teacher"
        },
    }


def _geometry(
    models: dict[str, Embeddings], test: dict[str, pl.DataFrame], scoring: dict[str, Any]
) -> dict[str, dict[str, float]]:
    positives = embedding_space.positive_pairs(test, scoring)
    teacher = models["teacher"]
    beside = {"teacher": None, "finetuned": teacher}
    return {
        model: collapse.describe(models[model].vectors)
        | embedding_space.describe(models[model], other, positives)
        for model, other in beside.items()
    }


def _examine(
    scores: pl.DataFrame,
    models: dict[str, Embeddings],
    test: dict[str, pl.DataFrame],
    scoring: dict[str, Any],
    table: pl.DataFrame,
    out: Path,
) -> None:
    """Write what single items, texts and features look like to the teacher and to the student that ships."""
    ids = table["text_id"].to_numpy()

    def text(wanted: int) -> str:
        return table["text"][int(np.searchsorted(ids, np.uint64(wanted)))]

    beside = (models["teacher"], models["finetuned"])
    shown = examples.of_tasks(test, scoring, beside, text)
    correlation = {model: embedding_space.correlation(one.vectors) for model, one in models.items()}
    examined.write(scores, shown, correlation, out)


def _search(
    block: Student,
    models: dict[str, Embeddings],
    test: dict[str, pl.DataFrame],
    params: Params,
    vector_set: published.VectorSet,
    teacher_view: str,
    pca_folder: Path,
) -> dict[str, Any]:
    """Retrieval by the indexes, and by a student's queries among the teacher's documents."""
    shipped, ids = models["finetuned"], models["finetuned"].ids
    tasks = {name: rows for name, rows in test.items() if params.evaluate.tasks[name].scoring == "retrieval"}
    shown = {"teacher": models["teacher"], "finetuned": shipped}
    found: dict[str, Any] = {"indexes": indexes.score_tasks(tasks, shown, params.evaluate.indexes)}
    fitted = pca.read(pca_folder, block.view)
    why = left_out(block, fitted.dim, teacher_view)
    if why and tasks:
        say(f"evaluate: no student queries among the teacher's documents: {why}")
    elif tasks:
        vectors_of_view = _vectors_of(vector_set, block.view, ids)
        documents = Embeddings(ids, reduction(block, fitted)(vectors_of_view))
        found["asymmetric"] = asymmetric.score_tasks(tasks, shipped, documents)
    return {"asymmetric": {}, **found, "asymmetric_left_out": why}


def _budget(
    block: Student, models: dict[str, Embeddings], test: dict[str, pl.DataFrame], params: Params
) -> dict[str, Any]:
    """The shipped student's scores at fewer bytes, and the tasks that they are not of."""
    asked, tasks = params.evaluate.budget, params.evaluate.tasks
    if asked is None:
        return {"budget": [], "budget_left_out": list(test)}
    scoring, main = {name: tasks[name].scoring for name in test}, evaluation.main_metrics(tasks)
    return {
        "budget": budget.score_tasks(test, scoring, main, models["finetuned"], block, asked),
        "budget_left_out": [name for name in test if not budget.can_score(scoring[name])],
    }


if __name__ == "__main__":
    typer.run(report_user_errors(main))
