"""Checks of what the other stages wrote; a fault names the stage to rerun."""

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from pipeline.core.errors import UserError
from pipeline.data.common.files.metrics import REFUSED
from pipeline.report.inputs import (
    FINETUNED,
    TEACHER,
    AugmentMetrics,
    ClassifierMetrics,
    EncodeMetrics,
    FinetuneMetrics,
    GateMetrics,
    Searches,
    Significance,
    Size,
    StudentMetrics,
    Timing,
    TransferMetrics,
)

Model = TypeVar("Model", bound=BaseModel)


def student_metrics(document: Mapping[str, Any], name: str) -> StudentMetrics:
    """Check the metrics of the student `name`.

    Raises:
        UserError: a field is missing or of a wrong type, the file is another student's, the teacher or the
            shipped student is not in it, or the teacher cannot give the student.
    """
    stage = f"evaluate@{name}"
    if REFUSED in document:
        raise UserError(f"the teacher cannot give {document[REFUSED]}")
    metrics = _check(StudentMetrics, document, f"the metrics of {name}", stage)
    absent = [v for v in (TEACHER, FINETUNED) if v not in metrics.scores or v not in metrics.average]
    if metrics.student != name or absent:
        foreign = metrics.student != name
        fault = f"are those of {metrics.student}" if foreign else f"lack {' and '.join(absent)}"
        raise UserError(f"the metrics of {name} {fault}; run `dvc repro -f {stage}`")
    return metrics


def finetune_metrics(document: Mapping[str, Any], name: str) -> FinetuneMetrics:
    """Check what fine-tuning reported about the student `name`.

    Raises:
        UserError: a field is missing or of a wrong type.
    """
    return _check(FinetuneMetrics, document, f"the fine-tuning metrics of {name}", f"finetune@{name}")


def classifier_metrics(document: Mapping[str, Any], name: str) -> ClassifierMetrics:
    """Check what was measured of the classifier `name`.

    Raises:
        UserError: a field is missing or of a wrong type.
    """
    return _check(ClassifierMetrics, document, f"the metrics of classifier {name}", f"classify@{name}")


def encode_metrics(document: Mapping[str, Any], stage: str) -> EncodeMetrics:
    """Check how much of a set's texts `stage`, as DVC calls it, had to cut.

    Raises:
        UserError: a field is missing or of a wrong type.
    """
    return _check(EncodeMetrics, document, f"the metrics of {stage}", stage)


def augment_metrics(document: Mapping[str, Any], method: str) -> AugmentMetrics:
    """Check what a method of augmentation made.

    Raises:
        UserError: a field is missing or of a wrong type.
    """
    return _check(AugmentMetrics, document, f"the metrics of augmentation by {method}", f"augment@{method}")


def transfer_metrics(document: Mapping[str, Any]) -> dict[str, TransferMetrics]:
    """Check what was made of each task for the transfer sets.

    Raises:
        UserError: a field is missing or of a wrong type.
    """
    tasks = document.get("tasks")
    if not isinstance(tasks, dict):
        raise UserError("the metrics of the transfer sets lack tasks; run `dvc repro -f transfer`")
    return {
        task: _check(TransferMetrics, made, f"the metrics of the transfer set of {task}", "transfer")
        for task, made in tasks.items()
    }


def gate_metrics(document: Mapping[str, Any], method: str) -> GateMetrics:
    """Check what the teacher's gate did to a method's texts.

    Raises:
        UserError: a field is missing or of a wrong type.
    """
    return _check(GateMetrics, document, f"the metrics of the gate of {method}", f"gate@{method}")


def significance(document: Mapping[str, Any], names: list[str]) -> Significance:
    """Check the intervals of the teacher and of each student in `names`; other models are left out.

    Raises:
        UserError: a model is missing, or a field is missing or of a wrong type.
    """
    found = _check(Significance, document, "the intervals and paired tests", "significance")
    models = (TEACHER, *names)
    if missing := [model for model in models if model not in found.intervals]:
        raise UserError(f"the intervals lack {', '.join(missing)}; run `dvc repro -f significance`")
    paired = tuple(c for c in found.paired if c.student in models and c.other in models)
    return found.model_copy(update={"paired": paired})


def searches(document: Mapping[str, Any]) -> Searches:
    """Check what searching takes.

    Raises:
        UserError: a field is missing or of a wrong type.
    """
    return _check(Searches, document, "the search times", "search_speed")


def timing(document: Mapping[str, Any], stage: str) -> Timing:
    """Check what `stage`, as DVC calls it, took.

    Raises:
        UserError: a field is missing or of a wrong type.
    """
    return _check(Timing, document, f"the time of {stage}", stage)


def sizes(document: Mapping[str, Any], names: list[str]) -> dict[str, Size]:
    """Check the footprint of the teacher and of each student in `names`; other models are left out.

    Raises:
        UserError: one is missing, or a field is missing or of a wrong type.
    """
    missing = [name for name in (TEACHER, *names) if name not in document]
    if missing:
        raise UserError(f"the footprint lacks {', '.join(missing)}; run `dvc repro -f footprint`")
    return {n: _check(Size, document[n], f"the footprint of {n}", "footprint") for n in (TEACHER, *names)}


def _check(model: type[Model], document: object, what: str, stage: str) -> Model:
    try:
        return model.model_validate(document)
    except ValidationError as error:
        faults = "; ".join(f"{'.'.join(map(str, d['loc']))}: {d['msg']}" for d in error.errors())
        raise UserError(f"{what} cannot be read ({faults}); run `dvc repro -f {stage}`") from None
