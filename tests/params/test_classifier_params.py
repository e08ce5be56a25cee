from pathlib import Path

import pytest
from refusals import refuses
from small_params import small_params

from pipeline.params.classes import Probe
from pipeline.params.classifiers import with_labels
from pipeline.params.evaluate import Evaluate
from pipeline.params.load import check
from pipeline.tasks.subtasks import one_by_one

TASKS = {
    "pairs": {"kind": "sts", "path": "pairs.tsv"},
    "sst2": {"kind": "sst2", "path": "SST-2"},
    "mnli": {"kind": "mnli", "path": "MNLI"},
    "half_mnli": {"kind": "mnli", "path": "MNLI", "genres": "matched"},
    "phrases": {"kind": "pearl", "path": "PEARL"},
    "few_phrases": {"kind": "pearl", "path": "PEARL", "sets": ["ppdb", "turney"]},
    "kinds": {"kind": "wordnet_supersense"},
}


def read(task, made_of=(), **block):
    params = small_params(
        augment={
            "wordnet": {"enabled": False},
            "back_translation": {},
            "transfer": {"tasks": [*made_of]} if made_of else None,
        },
        evaluate={"tasks": TASKS},
    )
    student = next(iter(params["students"]))
    params["classifiers"] = {"one": {"student": student, "start": "finetuned", "task": task, **block}}
    return check(params, Path("params.yaml"))


def test_tasks_with_labels_are_those_that_prepare_makes():
    found = with_labels(Evaluate.model_validate({"tasks": TASKS}).tasks)
    each = one_by_one(Evaluate.model_validate({"tasks": TASKS}).tasks)
    assert {*found} == {name for name, task in each.items() if isinstance(task.scoring, Probe)}
    assert found["mnli_matched"] == found["mnli_mismatched"] == "mnli"
    assert found["few_phrases_ppdb"] == "few_phrases"


@pytest.mark.parametrize("task", ["sst2", "mnli_mismatched", "half_mnli", "phrases_ppdb_filtered", "kinds"])
def test_a_classifier_is_of_any_task_with_labels(task):
    assert read(task).classifier("one").task == task


@pytest.mark.parametrize("task", ["pairs", "mnli", "half_mnli_matched", "phrases", "phrases_bird", "nothing"])
def test_other_tasks_are_refused_by_name(task):
    with refuses("params.yaml", "classifiers.one.task", repr(task), "mnli_matched", "sst2"):
        read(task)


def test_a_transfer_set_is_made_of_the_entry_that_the_task_is_of():
    kd = {"kd": {"alpha": 0.0}, "transfer": True}
    assert read("mnli_matched", ["mnli"], **kd).classifier("one").transfer
    with refuses("classifiers.one.transfer", "mnli_matched", "name mnli in augment.transfer.tasks"):
        read("mnli_matched", ["half_mnli"], **kd)
    with refuses("classifiers.one.transfer", "name sst2 in augment.transfer.tasks"):
        read("sst2", ["mnli"], **kd)


def test_a_classifier_that_is_not_there():
    with refuses("classifiers has no 'two'", "one"):
        read("sst2").classifier("two")
