"""footprint: parameters, bytes, speed and latency of the teacher and all students, measured in one run."""

import os
from pathlib import Path
from typing import Annotated

import polars as pl
import typer

from pipeline.core.errors import report_user_errors
from pipeline.data.common import metrics, texts
from pipeline.data.student import student_folder
from pipeline.params.load import load
from pipeline.params.teacher import EnsembleTeacher, Teacher, TransformerTeacher, single_teachers
from pipeline.score.cost import Plan, describe, measure
from pipeline.teacher.shared.members import load_teacher

BATCH_SECONDS = 0.2
"""A batch of a table is over sooner, in times that the system's own work disturbs."""


def main(
    eval_texts: Annotated[Path, typer.Option(help="corpus/eval.parquet: what is encoded")],
    students: Annotated[Path, typer.Option(help="Folder of the students that ship")],
    out: Annotated[Path, typer.Option(help="reports/footprint.json")],
    params_file: Annotated[Path, typer.Option("--params")] = Path("params.yaml"),
    members: Annotated[Path, typer.Option(help="The PCAs of an ensemble's members")] = Path("data/members"),
) -> None:
    """Measure what every model costs."""
    params = load(params_file)
    os.environ["RAYON_NUM_THREADS"] = str(params.footprint.threads)  # of tokenizers, read at the first use
    # Students are measured on the CPU, and so is what they are compared with.
    on_cpu = params.runtime.model_copy(update={"device": "cpu"})
    block = in_float32(params.teacher)
    teacher = load_teacher(block, on_cpu, members)
    models = {
        "teacher": describe(
            teacher.encode_as_users_do,
            teacher.module,
            teacher.folders,
            teacher.dims["sentence"],
            repeats=all(one.kind == "transformer" for one in single_teachers(block).values()),
        )
    }
    for name in params.students:
        folder = students / name
        if student_folder.refusal(folder):
            continue
        model = student_folder.read(folder, f"finetune@{name}")
        models[name] = describe(model.encode, model, [folder], model.get_embedding_dimension() or 0)
    sample = texts.read_labelled(eval_texts).filter(pl.col("text") != "")["text"].to_list()
    plan = Plan(
        rounds=params.footprint.rounds,
        threads=params.footprint.threads,
        texts=sample[: params.footprint.sentences],
        single_texts=sample[: params.footprint.single],
        batch_seconds=BATCH_SECONDS,
    )
    metrics.write(measure(models, plan, "teacher"), out)


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
