"""search_speed: how long indexes of the teacher's and all students' vectors take, measured in one run."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import polars as pl
import typer

from pipeline.core import fingerprint
from pipeline.core.atomic import scratch_folder
from pipeline.core.errors import report_user_errors
from pipeline.core.progress import say
from pipeline.data.common import texts
from pipeline.data.common.files import metrics
from pipeline.data.student import student_folder
from pipeline.params.load import load
from pipeline.score.evaluation.searches import shipped
from pipeline.score.search.search_times import Plan, measure
from pipeline.tasks import pairs
from pipeline.tasks import scoring as evaluation
from pipeline.tasks.embeddings import Embeddings, in_file
from pipeline.tasks.subtasks import spelled_out
from pipeline.vectors.sets import published


def main(
    tasks: Annotated[Path, typer.Option(help="corpus/tasks.parquet")],
    eval_texts: Annotated[Path, typer.Option(help="corpus/eval.parquet")],
    eval_vectors: Annotated[Path, typer.Option(help="vectors/eval, the teacher's")],
    teacher_view: Annotated[str, typer.Option(help="What stands for the teacher: the first of encode.views")],
    students: Annotated[Path, typer.Option(help="Folder of the students that ship")],
    out: Annotated[Path, typer.Option(help="reports/search.json")],
    params_file: Annotated[Path, typer.Option("--params")] = Path("params.yaml"),
) -> None:
    """Time the indexes of `evaluate.indexes` on the retrieval tasks."""
    params = spelled_out(load(params_file))
    plan = Plan(rounds=params.footprint.rounds, threads=params.footprint.threads)
    test = evaluation.split_of(pairs.read(tasks), "test")
    retrieval = {
        name: rows for name, rows in test.items() if params.evaluate.tasks[name].scoring == "retrieval"
    }
    rows = []
    if retrieval and params.evaluate.indexes:
        ids = evaluation.text_ids(retrieval)
        shown = [name for name in params.students if not student_folder.refusal(students / name)]
        files = {name: fingerprint.of_folder(students / name) for name in shown}
        with shipped.kept(params, "search_speed", ids).folder() as kept, scratch_folder(kept) as folder:
            table = folder / "texts.parquet"
            shipped.write_texts(eval_texts, pl.DataFrame(schema=texts.LABELLED_SCHEMA), ids, table)

            def models() -> Iterator[tuple[str, Embeddings]]:
                teacher = published.open_set(eval_vectors, teacher_view)
                blocks, compared = teacher.of(ids, teacher_view), teacher.similarity(teacher_view)
                yield "teacher", in_file(folder / "teacher.bin", ids, blocks, compared)
                for name in shown:
                    how, file = params.evaluate.precision, kept / f"{files[name]}.bin"
                    wrote = f"finetune@{name}"
                    yield name, shipped.embeddings(students / name, wrote, table, how, params.runtime, file)

            rows = measure(retrieval, models(), params.evaluate.indexes, plan, folder)
    else:
        why = "evaluate.indexes is empty" if retrieval else "no test task is a retrieval task"
        say(f"search_speed: {why}; nothing is measured")
    metrics.write({"rounds": plan.rounds, "threads": plan.threads, "searches": rows}, out)


if __name__ == "__main__":
    typer.run(report_user_errors(main))
