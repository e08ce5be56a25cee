from pathlib import Path

import pytest
from refusals import refuses
from small_params import small_params

from pipeline.params.load import check

TASKS = {
    "pairs": {"kind": "sts", "path": "pairs.tsv"},
    "sst2": {"kind": "sst2", "path": "SST-2"},
    "mnli": {"kind": "mnli", "path": "MNLI"},
}


def read(evaluated=TASKS, **transfer):
    off = {"wordnet": {"enabled": False}, "back_translation": {}}
    params = small_params(augment={**off, "transfer": transfer}, evaluate={"tasks": evaluated})
    return check(params, Path("params.yaml")).augment


def test_it_is_off_unless_it_is_given_and_is_no_method():
    augment = check(small_params(), Path("params.yaml")).augment
    assert augment.transfer is None
    assert [*augment.methods] == ["wordnet", "back_translation"]
    assert read(tasks=["sst2"]).enabled == augment.enabled == set()


def test_the_defaults_are_the_papers():
    found = read(tasks=["sst2", "mnli"]).transfer
    assert (found.mask, found.replace, found.ngram, found.longest) == (0.1, 0.1, 0.25, 5)
    assert (found.rounds, found.limit) == (20, 800_000)


@pytest.mark.parametrize(
    ("transfer", "named"),
    [
        ({}, (".tasks ",)),
        ({"tasks": []}, (".tasks ", "empty")),
        ({"tasks": ["sst"]}, (".tasks ", "'sst'", "evaluate.tasks", "sst2, mnli", "null")),
        ({"tasks": ["pairs"]}, (".tasks ", "'pairs'", "kind sts", "sst2, mnli", "null")),
        ({"tasks": ["mnli_matched"]}, (".tasks ", "'mnli_matched'", "sst2, mnli")),
        ({"tasks": ["sst2", "sst2"]}, ("tasks", "'sst2' twice", "remove")),
        ({"tasks": ["sst2"], "mask": 0.7, "replace": 0.4}, ("mask 0.7", "replace 0.4", "1;")),
        ({"tasks": ["sst2"], "ngram": 1.5}, (".ngram ", "1.5")),
        ({"tasks": ["sst2"], "longest": 0}, (".longest ", "0")),
        ({"tasks": ["sst2"], "round": 20}, (".round ", "'rounds'?")),
    ],
)
def test_faults_name_the_key_and_the_tasks_there_are(transfer, named):
    with refuses("params.yaml", "augment.transfer", *named):
        read(**transfer)


def test_without_labels_there_is_nothing_to_name():
    with refuses("augment.transfer.tasks", "'pairs'", "none", "null"):
        read({"pairs": TASKS["pairs"]}, tasks=["pairs"])
