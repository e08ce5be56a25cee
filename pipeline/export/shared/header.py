"""The head of a model card, as the hub wants it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pipeline.export.shared.ledger.licences import OTHER, strictest
from pipeline.export.shared.ledger.origins import Origin
from pipeline.params.evaluate import Task
from pipeline.params.export import Format
from pipeline.params.load import Params

if TYPE_CHECKING:
    from huggingface_hub import EvalResult, ModelCardData

LICENCES = "LICENSE.md"
"""Beside the card where the hub has no identifier for the licence; the hub links to it."""
TASK_TYPES = {
    "sts": "semantic-similarity",
    "retrieval": "information-retrieval",
    "entity_resolution": "entity-resolution",
    "choice": "semantic-similarity",
    "clustering": "clustering",
}
CLASSIFICATION = "text-classification"


def header(
    name: str, params: Params, formats: Iterable[Format], scores: Mapping[str, Any], made_of: Sequence[Origin]
) -> "ModelCardData":
    """The metadata of a student's card.

    Args:
        name: the student's.
        params: of the run that made it, with `evaluate.tasks` one by one.
        formats: that were exported.
        scores: metrics of `evaluate`.
        made_of: all that the student is made from.
    """
    from huggingface_hub import ModelCardData

    licence = strictest(one.licence for one in made_of)
    return ModelCardData(
        base_model=base_models(made_of) or None,
        datasets=_distinct(one.hub_ids for one in made_of if not _is_model(one)) or None,
        eval_results=results(params.evaluate.tasks, scores) or None,
        language=languages(made_of) or None,
        library_name="model2vec" if params.student(name).kind == "static" else "sentence-transformers",
        license=licence.identifier,
        license_name=licence.name,
        license_link=LICENCES if licence.identifier == OTHER else None,
        model_name=name,
        pipeline_tag="sentence-similarity",
        tags=[
            "sentence-transformers",
            "feature-extraction",
            *(["distillation"] if params.student(name).train else []),
            *(["onnx", "transformers.js"] if "onnx" in formats else []),
        ],
    )


def base_models(made_of: Sequence[Origin]) -> list[str]:
    """The hub's ids of the teacher and of the models that the student starts from."""
    return _distinct(one.hub_ids for one in made_of if _is_model(one) and not one.key.startswith("augment."))


def languages(made_of: Sequence[Origin]) -> list[str]:
    """ISO 639 codes of the corpus, if all its sources have one, else of the teacher; []: nobody knows.

    Without a teacher, they are those of the model that the student starts from.
    """
    of_corpus = [one.languages for one in made_of if one.key.startswith("corpus.")]
    of_teacher = [one.languages for one in made_of if one.key.startswith("teacher")]
    of_start = [one.languages for one in made_of if one.key.endswith(".init.model")]
    return sorted(_distinct(of_corpus if of_corpus and all(of_corpus) else of_teacher or of_start))


def results(tasks: Mapping[str, Task], metrics: Mapping[str, Any]) -> "list[EvalResult]":
    """The student's headline scores on the test tasks."""
    from huggingface_hub import EvalResult

    own = metrics["scores"]["finetuned"]
    return [
        EvalResult(
            task_type=TASK_TYPES.get(str(tasks[task].scoring), CLASSIFICATION),
            dataset_type=task,
            dataset_name=f"{task}, made from WordNet" if task in metrics["builtin"] else task,
            dataset_split="test",
            metric_type=metric,
            metric_value=own[task][metric],
        )
        for task, metric in metrics["main"].items()
        if task in tasks  # agreement with the teacher is none
    ]


def _is_model(origin: Origin) -> bool:
    return not origin.key.startswith(("corpus.", "finetune."))


def _distinct(several: Iterable[Iterable[str]]) -> list[str]:
    return list(dict.fromkeys(one for found in several for one in found))
