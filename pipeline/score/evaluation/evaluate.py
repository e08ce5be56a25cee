"""evaluate@NAME: score a student untrained, distilled and fine-tuned, beside the teacher's cached vectors."""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import polars as pl
import typer

from pipeline.core import fingerprint
from pipeline.core.atomic import scratch_folder
from pipeline.core.errors import UserError, report_user_errors
from pipeline.core.progress import say
from pipeline.data.common import texts
from pipeline.data.common.files import metrics
from pipeline.data.student import student_folder
from pipeline.params.evaluate import AGREEMENT, Agreement, Evaluate, Scoring, Task
from pipeline.params.load import load
from pipeline.params.search import Budget
from pipeline.params.students import Student
from pipeline.score.evaluation import (
    agreement_groups,
    asymmetric,
    budget,
    embedding_space,
    examples,
    items,
)
from pipeline.score.evaluation.searches import indexes, shipped
from pipeline.score.evaluation.teacher_vectors import Sources, TeacherVectors, changed
from pipeline.score.statistics import examined
from pipeline.tasks import agreement, pairs
from pipeline.tasks import scoring as evaluation
from pipeline.tasks.embeddings import Embeddings
from pipeline.tasks.subtasks import spelled_out
from pipeline.vectors import collapse
from pipeline.vectors.sets import published
from pipeline.vectors.space import pca
from pipeline.vectors.space.targets import left_out, reduction

Tasks = Mapping[str, Task | Agreement]
LOOKED_UP, LOOKED_UP_PLACES = 4096, 8
"""Texts that are read where one is shown, and of how many places they are kept."""


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
    corpus: Annotated[Path, typer.Option(help="corpus/corpus.parquet")] = Path("data/corpus/corpus.parquet"),
    corpus_vectors: Annotated[Path, typer.Option(help="vectors/corpus")] = Path("data/vectors/corpus"),
    teacher_parts: Annotated[Path, typer.Option(help="The teacher's tokenizer")] = Path("data/teacher"),
) -> None:
    """Score a student on the test tasks, and on how far it agrees with the teacher."""
    params = spelled_out(load(params_file))
    block = params.student(name)
    if refused := student_folder.refusal(finetuned):
        student_folder.write_refusal(refused, examined_folder)
        metrics.write({metrics.REFUSED: str(refused)}, out)
        return
    test = evaluation.split_of(pairs.read(tasks), "test")
    compared = agreement.held_out(corpus, params.evaluate.agreement)
    ids = _evaluated(test, compared)
    precision = params.evaluate.precision
    sources = _sources(
        eval_vectors, evaluation.text_ids(test), corpus_vectors, ids, (teacher_view, block.view)
    )
    states = {"untrained": untrained, "distilled": distilled, "finetuned": finetuned}
    files = {state: fingerprint.of_folder(folder) for state, folder in states.items()}
    with shipped.kept(params, f"evaluate-{name}", ids).folder() as kept, scratch_folder(kept) as scratch:
        table = scratch / "texts.parquet"
        shipped.write_texts(eval_texts, compared.texts, ids, table)

        def encoded(state: str) -> Embeddings:
            wrote = f"{'finetune' if state == 'finetuned' else 'distill'}@{name}"
            file = kept / f"{files[state]}.bin"
            return shipped.embeddings(states[state], wrote, table, precision, params.runtime, file)

        student = encoded("finetuned")
        cached = TeacherVectors(sources, ids, scratch)
        teacher = cached.of(teacher_view)
        target = cached.target(block.view, student.dim, pca_folder)
        specs: dict[str, Task | Agreement] = {**params.evaluate.tasks}
        if params.evaluate.agreement and len(compared.texts):
            own = compared.texts["text_id"].to_numpy()
            test[AGREEMENT] = agreement.task(Embeddings(own, teacher.of(own), teacher.similarity))
            specs[AGREEMENT] = params.evaluate.agreement
        scoring = {task: specs[task].scoring for task in test}
        depths = {task: depth for task in test if (depth := getattr(specs[task], "depth", None))}

        def scored(one: Embeddings) -> Scored:
            return Scored(one.dim, *items.score_tasks(test, scoring, one, depths))

        models = {"teacher": teacher, "finetuned": student}  # of the others nothing is kept but their scores
        by_model = {"teacher": scored(teacher)}
        by_model["teacher_pca"] = by_model["teacher"] if target is teacher else scored(target)
        targets = collapse.describe(target.vectors)
        # A student that is not fine-tuned is the distilled one again, and is scored once.
        by_files = {files["finetuned"]: scored(student)}
        for state in states:
            if files[state] not in by_files:
                by_files[files[state]] = scored(encoded(state))
            by_model[state] = by_files[files[state]]
        block = block.model_copy(update={"dim": by_model["distilled"].dim})
        summary = _summary({model: found.scores for model, found in by_model.items()}, specs)
        summary["geometry"] = _geometry(models, test, scoring)
        summary["agreement"] = {"left_out": compared.left_out, "groups": []}
        if AGREEMENT in test:
            found = agreement_groups.groups(test[AGREEMENT], student, compared.texts, teacher_parts)
            summary["agreement"]["groups"] = found
        fix = _fix(name, block)
        collapse.check_collapse(summary["geometry"]["finetuned"], f"the vectors of {name}", fix, targets)
        shape: dict[str, Any] = {
            "ships": "distilled" if files["finetuned"] == files["distilled"] else "finetuned",
            "dim": by_model["finetuned"].dim,
            "dims": {model: found.dim for model, found in by_model.items()},
            "views": {"teacher": teacher_view, "teacher_pca": block.view},
        }
        how = {model: one.similarity for model, one in models.items()}
        if set(how.values()) != {"cosine"}:
            shape["similarity"] = how
        in_use = {
            **_search(
                block, models, test, scoring, params.evaluate, cached, teacher_view, pca_folder, scratch
            ),
            **_budget(block, models, test, specs, params.evaluate.budget),
        }
        metrics.write({"student": name, "kind": block.kind, **shape, **summary, **in_use}, out)
        parts = [
            by_model[model].items.with_columns(pl.lit(model).alias("model")) for model in examined.MODELS
        ]
        _examine(pl.concat(parts), models, test, scoring, table, examined_folder)


def _fix(name: str, block: Student) -> str:
    """What to change where a student has collapsed."""
    if not block.train and not block.finetune:
        return f"give students.{name} a train or finetune block"
    return f"lower students.{name}.{'finetune' if block.finetune else 'train'}.lr, or change its loss"


def _evaluated(test: Mapping[str, pl.DataFrame], compared: agreement.HeldOut) -> np.ndarray:
    """Ids of all texts that a model is scored on, ascending.

    Raises:
        UserError: there are none, or one alone.
    """
    if not test and compared.texts.is_empty():
        raise UserError(
            f"there is nothing to score: no task has test rows, and no agreement is measured "
            f"({compared.left_out}) Give a task under evaluate.tasks `split: test`"
        )
    ids = np.union1d(evaluation.text_ids(test), compared.texts["text_id"].to_numpy())
    if len(ids) < 2:
        raise UserError(f"the test tasks ({', '.join(test)}) have one text between them; give them more rows")
    return ids


def _sources(
    eval_vectors: Path, tested: np.ndarray, corpus_vectors: Path, ids: np.ndarray, views: tuple[str, str]
) -> Sources:
    """Where the teacher's vectors of all `ids` lie: those of the tasks' texts, and of the corpus' own."""
    wanted = ((eval_vectors, tested), (corpus_vectors, np.setdiff1d(ids, tested)))
    return [(published.open_set(folder, *views), own) for folder, own in wanted if len(own)]


def _summary(scores: dict[str, evaluation.Scores], tasks: Tasks) -> dict[str, Any]:
    main_metrics = evaluation.main_metrics({name: tasks[name] for name in scores["teacher"]})
    return {
        "builtin": [name for name in main_metrics if getattr(tasks[name], "kind", "").startswith("wordnet_")],
        "main": main_metrics,
        "averaged": evaluation.averaged(main_metrics),
        "scores": scores,
        "average": {model: evaluation.average(values, main_metrics) for model, values in scores.items()},
        "retention": {
            model: evaluation.retention(values, scores["teacher"], main_metrics)
            for model, values in scores.items()
            if model != "teacher"
        },
    }


def _geometry(
    models: dict[str, Embeddings], test: dict[str, pl.DataFrame], scoring: dict[str, Scoring]
) -> dict[str, dict[str, float]]:
    positives = embedding_space.positive_pairs(test, scoring)
    return {
        model: collapse.describe(one.vectors) | embedding_space.describe(one, positives)
        for model, one in models.items()
    }


def _examine(
    scores: pl.DataFrame,
    models: dict[str, Embeddings],
    test: dict[str, pl.DataFrame],
    scoring: dict[str, Scoring],
    table: Path,
    out: Path,
) -> None:
    """Write what single items, texts and features look like to the teacher and to the student that ships."""
    ids = models["teacher"].ids

    @lru_cache(LOOKED_UP_PLACES)
    def some(first: int) -> list[str]:
        return texts.read_slice(table, first, first + LOOKED_UP)

    def text(wanted: int) -> str:
        first, row = divmod(int(np.searchsorted(ids, np.uint64(wanted))), LOOKED_UP)
        return some(first * LOOKED_UP)[row]

    beside = (models["teacher"], models["finetuned"])
    shown = examples.of_tasks(test, scoring, beside, text)
    correlation = {model: embedding_space.correlation(one.vectors) for model, one in models.items()}
    examined.write(scores, shown, correlation, out)


def _search(
    block: Student,
    models: dict[str, Embeddings],
    test: dict[str, pl.DataFrame],
    scoring: dict[str, Scoring],
    params: Evaluate,
    cached: TeacherVectors,
    teacher_view: str,
    pca_folder: Path,
    scratch: Path,
) -> dict[str, Any]:
    """Retrieval by the indexes, and by a student's queries among the teacher's documents."""
    student = models["finetuned"]
    tasks = {name: rows for name, rows in test.items() if scoring[name] == "retrieval"}
    shown = {"teacher": models["teacher"], "finetuned": student}
    found: dict[str, Any] = {"indexes": indexes.score_tasks(tasks, shown, params.indexes, scratch)}
    fitted = pca.read(pca_folder, block.view)
    why = left_out(block, fitted.dim, teacher_view)
    if why and tasks:
        say(f"evaluate: no student queries among the teacher's documents: {why}")
    elif tasks:
        change = reduction(block, fitted)
        documents = changed(cached.of(block.view), change, scratch / "learnt.bin", "cosine")
        found["asymmetric"] = asymmetric.score_tasks(tasks, student, documents)
    return {"asymmetric": {}, **found, "asymmetric_left_out": why}


def _budget(
    block: Student,
    models: dict[str, Embeddings],
    test: dict[str, pl.DataFrame],
    tasks: Tasks,
    asked: Budget | None,
) -> dict[str, Any]:
    """The shipped student's scores at fewer bytes, and the tasks that they are not of."""
    if asked is None:
        return {"budget": [], "budget_left_out": list(test)}
    scoring, main = {name: tasks[name].scoring for name in test}, evaluation.main_metrics(tasks)
    return {
        "budget": budget.score_tasks(test, scoring, main, models["finetuned"], block, asked),
        "budget_left_out": [name for name in test if not budget.can_score(scoring[name])],
    }


if __name__ == "__main__":
    typer.run(report_user_errors(main))
