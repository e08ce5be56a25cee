"""classify@NAME: a student and a head, trained together on a task's labels."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from torch import nn

from pipeline.classifiers.saved import head as head_file
from pipeline.classifiers.saved.said import Said
from pipeline.classifiers.training.start import Start
from pipeline.classifiers.training.task import Ask, Cached, ClassifierTask, Transfer, read_task
from pipeline.classifiers.training.trainings import Found, Trainings
from pipeline.classifiers.training.tuned import TaskTeacher
from pipeline.core.errors import UserError, report_user_errors, under
from pipeline.core.progress import say
from pipeline.data.common import texts
from pipeline.data.common.files import metrics
from pipeline.data.model_card import model_card
from pipeline.data.models import teacher_facts
from pipeline.data.models.teacher_facts import TeacherFacts
from pipeline.data.student import layout, student_folder
from pipeline.params.base import without_folders
from pipeline.params.classifiers import Classifier
from pipeline.params.classifiers import TaskTeacher as KdParams
from pipeline.params.load import load
from pipeline.params.runtime import Runtime
from pipeline.params.students import Student as StudentParams
from pipeline.tasks import pairs
from pipeline.tasks import scoring as evaluation
from pipeline.train.loop import curves
from pipeline.train.loop.world import processes
from pipeline.train.students.shared.base.interface import Student
from pipeline.train.students.shared.verdict import verdict


def main(
    name: Annotated[str, typer.Argument(help="The classifier's name in params.yaml")],
    start: Annotated[Path, typer.Option(help="The student that it starts from")],
    tasks: Annotated[Path, typer.Option(help="corpus/tasks.parquet")],
    eval_texts: Annotated[Path, typer.Option(help="corpus/eval.parquet")],
    eval_vectors: Annotated[Path, typer.Option(help="vectors/eval")],
    transfer_texts: Annotated[Path, typer.Option(help="augmented/transfer.parquet")],
    transfer_rows: Annotated[Path, typer.Option(help="augmented/transfer_rows.parquet")],
    transfer_vectors: Annotated[Path, typer.Option(help="vectors/transfer")],
    teacher_view: Annotated[str, typer.Option(help="The first of encode.views")],
    facts: Annotated[Path, typer.Option(help="What the teacher is, by `look`")],
    out: Annotated[Path, typer.Option(help="The classifier")],
    curve: Annotated[Path, typer.Option(help="The training curve, tsv")],
    metrics_file: Annotated[Path, typer.Option("--metrics")],
    params_file: Annotated[Path, typer.Option("--params")] = Path("params.yaml"),
) -> None:
    """Train a classifier at each learning rate, keep the one that dev rows choose, and score it."""
    if processes() > 1:
        raise UserError("one process trains a classifier: run it with `python`, not with `torchrun`")
    params = load(params_file)
    block = params.classifier(name)
    if refused := student_folder.refusal(start):
        student_folder.write_refusal(refused, out)
        curves.write([], "dev_score", -1, curve)
        metrics.write({metrics.REFUSED: str(refused)}, metrics_file)
        return
    student_folder.check(start, f"{'finetune' if block.start == 'finetuned' else 'distill'}@{block.student}")
    teacher = teacher_facts.read(facts)
    student = verdict(block.student, params.student(block.student), teacher).block
    tuned = _task_teacher(name, block, student, teacher, params.runtime)
    rows = pairs.read(tasks).filter(task=block.task)
    if rows.is_empty():
        raise UserError(f"{tasks} has no task {block.task!r}; run `dvc repro -f prepare`")
    vectors, transfer = Cached(eval_vectors, teacher_view), None
    if block.transfer:
        made = Cached(transfer_vectors, teacher_view)
        transfer = Transfer.read(transfer_rows, transfer_texts, made, block)
    metric = evaluation.main_metrics(params.evaluate.tasks)[block.task]
    task = read_task(rows, texts.read_labelled(eval_texts), transfer, block, metric, vectors, tuned)
    with under(f"classifiers.{name}"):
        trainings = Trainings(
            name,
            block,
            Start.of_folder(student, start),
            task,
            params.runtime,
            key=f"classifiers.{name}.train.precision",
            states=f"classify-{name}@",
        )
        found = trainings.run()
    together = block.read == "together"
    joint, said = found.shipped.joint.cpu(), Said(block.task, tuple(task.labels), task.pairs, together)
    student_folder.write(
        _Classifier(found.shipped.student, joint.head, said),
        model_card(block.student, student.kind, student, params.teacher, params.augment.enabled),
        out,
        student_folder.prompts(start),
        student_folder.similarity(start),
        unit=layout.is_unit(start),
    )
    curves.write(found.shipped.points, "dev_score", -1, curve)
    told = _told(block, task, found, joint)
    metrics.write({**told, "untuned_teacher": _untuned(task, vectors)}, metrics_file)
    say(f"classify {name}: {metric} {found.scores[metric]:.4f} on {block.task}")
    trainings.clear()


def _task_teacher(
    name: str, block: Classifier, student: StudentParams, facts: TeacherFacts, runtime: Runtime
) -> Ask | None:
    """What asks the model of `kd.teacher`; None where there is none."""
    if block.kd is None or block.kd.teacher is None:
        return None
    tuned = TaskTeacher.of(name, block.kd.teacher, facts, runtime)
    layers: tuple[int, ...] = ()
    if block.kd.patience:
        with under(f"classifiers.{name}"):
            layers = tuned.patient_layers(student, facts, block.kd.patience.layers)
    return lambda task, table, rows: tuned.tell(task, table, rows, layers)


@dataclass(frozen=True)
class _Classifier:
    """An encoder and its head, which are saved into one folder."""

    student: Student
    head: head_file.Head
    said: Said

    def save(self, folder: Path) -> None:
        self.student.save(folder)
        head_file.write(self.head, self.said, folder)


def _told(block: Classifier, task: ClassifierTask, found: Found, joint: nn.Module) -> dict[str, Any]:
    """The metrics file."""
    tables = (part for part in joint.modules() if isinstance(part, nn.Embedding | nn.EmbeddingBag))
    total, embedded = _size(joint), sum(map(_size, tables))
    return {
        "task": task.name,
        "metric": task.metric,
        "student": block.student,
        "start": block.start,
        "kd": block.kd is not None,
        "alpha": block.kd.alpha if block.kd else None,
        "transfer_rows": len(task.train) - task.labelled,
        "lr": found.lr,
        "dev": {f"{rate:g}": score for rate, score in found.rates.items()},
        "scores": found.scores,
        "seeds": block.seeds,
        "task_teacher": task.told.scores if task.told else None,
        "untuned": found.untuned,
        "settings": block.train.model_dump(mode="json") | {"hidden": block.hidden} | _ways(block),
        "parameters": total,
        "parameters_without_embeddings": total - embedded,
    }


def _untuned(task: ClassifierTask, vectors: Cached) -> dict[str, float] | None:
    """Scores of the teacher's own vectors of pairs; None where the task asks no such thing."""
    if not task.is_of_alike:
        return None
    return task.untuned(vectors.of(np.unique(task.rows.select("left_id", "right_id").to_numpy())))


def _ways(block: Classifier) -> dict[str, Any]:
    """How it reads pairs and learns from a task teacher, where that is not by default."""
    asked = block.kd.model_dump(mode="json", exclude={"alpha"}) if block.kd else {}
    fields = KdParams.model_fields
    other = {key: value for key, value in asked.items() if value != fields[key].default}
    if other.get("teacher"):
        other["teacher"]["model"] = without_folders(other["teacher"]["model"])
    return ({"read": block.read} if block.read != "apart" else {}) | ({"kd": other} if other else {})


def _size(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


if __name__ == "__main__":
    typer.run(report_user_errors(main))
