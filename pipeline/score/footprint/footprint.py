"""footprint: parameters, bytes, speed and latency of the teacher and all students, measured in one run."""

import os
from pathlib import Path
from typing import Annotated

import polars as pl
import typer

from pipeline.core.errors import UserError, report_user_errors
from pipeline.data.common import texts
from pipeline.data.common.files import metrics
from pipeline.data.student import student_folder
from pipeline.params.load import load
from pipeline.params.teacher import EnsembleTeacher, Teacher, TransformerTeacher, single_teachers
from pipeline.score.footprint.cost import Plan, describe, measure
from pipeline.tasks import pairs
from pipeline.teacher.shared.local.described.tuned import TUNED
from pipeline.teacher.shared.members import load_teacher

BATCH_SECONDS = 0.2
"""A batch of a table is over sooner, in times that the system's own work disturbs."""


def main(
    eval_texts: Annotated[Path, typer.Option(help="corpus/eval.parquet: what is encoded")],
    tasks: Annotated[Path, typer.Option(help="corpus/tasks.parquet: where footprint.pairs is")],
    students: Annotated[Path, typer.Option(help="Folder of the students that ship")],
    out: Annotated[Path, typer.Option(help="reports/footprint.json")],
    params_file: Annotated[Path, typer.Option("--params")] = Path("params.yaml"),
    members: Annotated[Path, typer.Option(help="PCAs and flows of an ensemble's members")] = Path(
        "data/members"
    ),
    tuned: Annotated[Path, typer.Option(help="The fine-tuned teacher, if it is")] = TUNED,
) -> None:
    """Measure what every model costs."""
    params = load(params_file)
    os.environ["RAYON_NUM_THREADS"] = str(params.footprint.threads)  # of tokenizers, read at the first use
    # Students are measured on the CPU, and so is what they are compared with.
    on_cpu = params.runtime.model_copy(update={"device": "cpu"})
    block = in_float32(params.teacher)
    teacher = load_teacher(block, on_cpu, members, tuned)
    models = {
        "teacher": describe(
            teacher.encode_as_users_do,
            teacher.module,
            teacher.folders,
            teacher.dims["sentence"],
            repeats=all(one.kind in ("transformer", "elmo") for one in single_teachers(block).values()),
        )
    }
    for name in params.students:
        folder = students / name
        if student_folder.refusal(folder):
            continue
        model = student_folder.read(folder, f"finetune@{name}")
        models[name] = describe(model.encode, model, [folder], model.get_embedding_dimension() or 0)
    table = texts.read_labelled(eval_texts).filter(pl.col("text") != "")
    sample = table["text"].to_list()
    plan = Plan(
        rounds=params.footprint.rounds,
        threads=params.footprint.threads,
        texts=sample[: params.footprint.sentences],
        single_texts=sample[: params.footprint.single],
        batch_seconds=BATCH_SECONDS,
        pairs=pairs_of(params.footprint.pairs, tasks, table) if params.footprint.pairs else (),
    )
    metrics.write(measure(models, plan, "teacher"), out)


def pairs_of(task: str, tasks: Path, table: pl.DataFrame) -> list[tuple[str, str]]:
    """Both texts of each test pair of a task, but for pairs with an empty text, which not every model takes.

    Args:
        task: its name, of kind sts.
        tasks: corpus/tasks.parquet.
        table: text_id, text.

    Raises:
        UserError: there are none.
    """
    rows = pairs.read(tasks).filter(pl.col("split") == "test")
    found = rows.filter(pl.col("task") == task).select("left_id", "right_id")
    for side in ("left", "right"):
        named = table.select(pl.col("text_id").alias(f"{side}_id"), pl.col("text").alias(side))
        found = found.join(named, on=f"{side}_id", maintain_order="left")
    if found.is_empty():
        raise UserError(
            f"footprint.pairs is {task!r}, and {tasks} has no test pairs of this name; it has "
            f"{', '.join(rows['task'].unique().sort()) or 'none at all'}"
        )
    return found.select("left", "right").rows()


def in_float32(teacher: Teacher) -> Teacher:
    """The teacher without its precision, which is for encoding: students are loaded in float32."""
    if isinstance(teacher, EnsembleTeacher):
        members = [
            member.model_copy(update={"teacher": in_float32(member.teacher)}) for member in teacher.members
        ]
        return teacher.model_copy(update={"members": tuple(members)})
    if isinstance(teacher, TransformerTeacher):
        return teacher.model_copy(update={"precision": "float32"})
    return teacher


if __name__ == "__main__":
    typer.run(report_user_errors(main))
