"""`pipeline mteb`: tasks of the library `mteb` on the teacher and the students."""

import importlib.util
import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import numpy as np
import typer
from numpy.typing import NDArray

from pipeline.cli import mteb_tasks, store_files, tabular
from pipeline.cli.embed import find_student, known_students
from pipeline.cli.encoders import open_encoders
from pipeline.core import fingerprint
from pipeline.core.atomic import disk_errors
from pipeline.core.errors import UserError
from pipeline.core.progress import say
from pipeline.data.common.files import metrics
from pipeline.data.student.student_folder import similarity
from pipeline.params.base import Role
from pipeline.params.load import Params, load
from pipeline.params.teacher import Similarity

if TYPE_CHECKING:
    import torch
    from mteb import AbsTask

STUDENTS = Path("data/finetuned")
MEMBERS = Path("data/members")
"""The PCAs and flows of an ensemble's members."""
TEACHER = metrics.TEACHER
BATCH_SIZE = 64
Scores = dict[str, float | None]
"""Task -> main score; None where it is no number."""
Encode = Callable[[list[str], Role], NDArray[np.floating]]
"""Texts of one role to vectors (n, d)."""


@dataclass(frozen=True)
class _Model:
    name: str
    key: str
    """What decides its vectors; a teacher's, those of texts that are neither queries nor documents."""
    revision: str
    """What decides its scores: all its vectors, and how they are compared."""
    similarity: Similarity
    open: Callable[[], Encode]


def mteb(
    names: Annotated[
        list[str] | None, typer.Argument(help="Students, or `teacher`; none: it and the params' students.")
    ] = None,
    tasks: Annotated[str, typer.Option(help="Names of MTEB's tasks, separated by commas.")] = "",
    benchmark: Annotated[
        str | None, typer.Option(help='A list of tasks of MTEB\'s, such as "MTEB(eng, v2)".')
    ] = None,
    define: Annotated[
        Path | None,
        typer.Option(help="A Python file with tasks of your own, subclasses of mteb's AbsTask: all are run."),
    ] = None,
    out: Annotated[Path, typer.Option(help="A file NAME.json a model goes here.")] = Path("reports/mteb"),
    students: Annotated[Path, typer.Option(help="Where students lie by name.")] = STUDENTS,
    params_file: Annotated[Path, typer.Option("--params", help="The params file.")] = Path("params.yaml"),
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, ...: for students.")] = "auto",
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Score anew what is kept: the data of a task have changed.")
    ] = False,
) -> None:
    """Score models on MTEB's tasks, or on your own: a row a task, a column a model.

    A result is kept under runtime.cache by what the model's files hold; a task of your own also by the file
    that defines it, but not by what that file reads: then say --fresh. MTEB's tasks are downloaded once.
    """
    _check_installed()
    params = load(params_file)
    if students != STUDENTS and not students.is_dir():
        raise UserError(f"there is no folder {students}; --students names the one that holds students")
    kept = Path(params.runtime.cache) / store_files.MTEB
    own = mteb_tasks.defined(define) if define else []
    wanted = [(task, kept / "defined" / fingerprint.of_file(define)) for task in own if define]
    wanted += [(task, kept / "listed") for task in mteb_tasks.listed(tasks, benchmark)]
    if not wanted:
        raise UserError("name what to run with --tasks, --benchmark or --define")
    models = [
        _teacher(params) if name == TEACHER else _student(name, students, device)
        for name in names or [TEACHER, *_students_of(params, students)]
    ]
    if twice := [name for name, count in Counter(model.name for model in models).items() if count > 1]:
        raise UserError(
            f"two models are called {twice[0]}, as {out / twice[0]}.json would be; score them one at a time, "
            "each with an --out of its own"
        )
    categories = {task.metadata.name: str(task.metadata.type) for task, _ in wanted}
    found: dict[str, Scores] = {}
    for model in models:
        results = {task.metadata.name: _run(model, task, place, fresh=fresh) for task, place in wanted}
        found[model.name] = {name: result["main_score"] for name, result in results.items()}
        document = {"model": model.name, **_averages(found[model.name], categories), "tasks": results}
        metrics.write(document, out / f"{model.name}.json")
    _show(found, categories)


def _students_of(params: Params, students: Path) -> list[str]:
    """The students that there are; of the pipeline's own folder, those that the params still name."""
    known = known_students(students)
    if students != STUDENTS:
        return known
    if gone := [name for name in known if name not in params.students]:
        say(f"not in the params file, and only scored when named: {', '.join(gone)}")
    return [name for name in known if name in params.students]


def _check_installed() -> None:
    if importlib.util.find_spec("mteb") is None:
        raise UserError("`mteb` is not installed; run `pip install -e '.[mteb]'`")


def _teacher(params: Params) -> _Model:
    from pipeline.teacher.shared.members import load_teacher

    teacher = load_teacher(params.teacher, params.runtime, MEMBERS)

    def encode(texts: list[str], role: Role) -> NDArray[np.floating]:
        return teacher.encode(texts, ["sentence"], role)["sentence"]

    key = fingerprint.of_json(teacher.recipes["text"])
    revision = fingerprint.of_json({"recipes": teacher.recipes, "similarity": teacher.similarity})
    return _Model(TEACHER, key, revision, teacher.similarity, lambda: encode)


def _student(name: str, students: Path, device: str) -> _Model:
    folder = find_student(name, students)

    @cache
    def opened() -> Encode:
        ways = open_encoders(folder, device, BATCH_SIZE, "auto", "torch")
        how = {"text": ways.texts, "query": ways.queries, "document": ways.documents}
        return lambda texts, role: how[role](texts)

    key, compared = fingerprint.of_folder(folder), similarity(folder)
    revision = fingerprint.of_json({"files": key, "similarity": compared})
    return _Model(folder.name, key, revision, compared, opened)


def _run(model: _Model, task: "AbsTask", place: Path, *, fresh: bool) -> dict[str, Any]:
    """Score a model on a task, or read what is kept: the main score, and that by split and subset."""
    from mteb import ResultCache, evaluate
    from mteb.models import ModelMeta

    class Kept(ResultCache):
        """MTEB's results in files, which it does not write whole or not at all."""

        def load_task_result(self, *args: Any, **options: Any) -> Any:  # noqa: ANN401 - as mteb calls it
            """Read a result; None where there is none, or a part of one."""
            try:
                return super().load_task_result(*args, **options)
            except ValueError:
                say(f"what {place} holds of {task.metadata.name} is damaged: it is scored again")
                return None

        def save_to_cache(self, *args: Any, **options: Any) -> None:  # noqa: ANN401 - as mteb calls it
            """Write a result."""
            with disk_errors(place):
                try:
                    super().save_to_cache(*args, **options)
                except ValueError:  # mteb adds to the settings of earlier results, which nothing here reads
                    for settings in place.rglob("run_settings.jsonl"):
                        settings.unlink()
                    super().save_to_cache(*args, **options)

    with disk_errors(place):
        kept = Kept(place)
    say(f"{model.name}: {task.metadata.name}")
    name = f"{store_files.MTEB_OWNER}/{model.key[: store_files.MTEB_LETTERS]}"
    described = {"name": name, "revision": model.revision, "loader": _loader(model)}
    found = evaluate(
        ModelMeta.create_empty(overwrites=described),
        task,
        cache=kept,
        overwrite_strategy="always" if fresh else "only-missing",
        co2_tracker=False,
        show_progress_bar=False,
    ).task_results[0]
    # What is kept may be of more languages than are asked for.
    result = found.validate_and_filter_scores(task)
    by_split = {
        split: {str(one["hf_subset"]): _finite(one["main_score"]) for one in subsets}
        for split, subsets in result.scores.items()
    }
    main = {"metric": task.metadata.main_score, "main_score": _finite(result.get_score())}
    return {**main, "scores": by_split}


def _loader(model: _Model) -> Callable[..., Any]:
    """What mteb calls to load the model, if a result is missing."""
    from mteb.models.abs_encoder import AbsEncoder
    from sentence_transformers import SimilarityFunction

    class Encoder(AbsEncoder):
        """The model as mteb asks it."""

        def __init__(self) -> None:
            self.model = model.open()

        def encode(self, inputs: Any, *, prompt_type: Any = None, **_: Any) -> NDArray[np.floating]:  # noqa: ANN401
            """Vectors (n, d) of the texts of all batches."""
            role = cast("Role", prompt_type.value if prompt_type else "text")
            return self.model([text for batch in inputs for text in batch["text"]], role)

        def similarity(self, embeddings1: Any, embeddings2: Any) -> "torch.Tensor":  # noqa: ANN401
            """Similarity of each vector of (n, d) with each of (m, d), as the model compares them: (n, m)."""
            return SimilarityFunction.to_similarity_fn(model.similarity)(embeddings1, embeddings2)

        def similarity_pairwise(self, embeddings1: Any, embeddings2: Any) -> "torch.Tensor":  # noqa: ANN401
            """Similarity of each vector of (n, d) with the same one of another (n, d): (n,)."""
            return SimilarityFunction.to_similarity_pairwise_fn(model.similarity)(embeddings1, embeddings2)

    return lambda *_, **__: Encoder()


def _finite(value: float) -> float | None:
    """The same whether mteb has just found it or reads it from what it keeps, which has six decimals."""
    return round(float(value), 6) if math.isfinite(value) else None


def _mean(scores: Scores) -> float | None:
    values = [score for score in scores.values() if score is not None]
    return float(np.mean(values)) if len(values) == len(scores) else None


def _averages(scores: Scores, categories: Mapping[str, str]) -> dict[str, Any]:
    """The mean over the tasks, that of each category, and the mean of these: each category counts alike.

    MTEB's leaderboard calls the first Mean (Task) and the last Mean (TaskType). A mean is None where a score
    is.

    Args:
        scores: of one model, by task.
        categories: task -> its type, such as STS.
    """
    each = {
        category: _mean({name: score for name, score in scores.items() if categories[name] == category})
        for category in sorted(set(categories.values()))
    }
    return {"average": _mean(scores), "categories": each, "average_of_categories": _mean(each)}


def _show(found: Mapping[str, Scores], categories: Mapping[str, str]) -> None:
    columns = ["task", *found]
    rows = [
        [task, *(_cell(scores[task]) for scores in found.values())] for task in next(iter(found.values()))
    ]
    averages = [_averages(scores, categories) for scores in found.values()]
    rows.append(["average", *(_cell(one["average"]) for one in averages)])
    if len(each := averages[0]["categories"]) > 1:
        rows += [[name, *(_cell(one["categories"][name]) for one in averages)] for name in each]
        rows.append(["average of categories", *(_cell(one["average_of_categories"]) for one in averages)])
    if tabular.on_terminal():
        tabular.table(columns, rows, left={"task"})
    else:
        tabular.lines([columns, *rows])


def _cell(score: float | None) -> str:
    return "-" if score is None else f"{score:.4f}"
