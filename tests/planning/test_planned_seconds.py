"""What a change of params adds to a stage's planned seconds, by the steps, texts and models that it adds.

The teacher takes a millisecond a token, the student 0.3 in training and 0.1 else; a text has 12 tokens.
"""

from typing import Any

import pytest
from planned_work import params, work
from small_params import small_params

from pipeline.params.runtime import Footprint
from pipeline.planning import times
from pipeline.planning.scoring import A_BATCH, ALONE, TESTED, USERS_WAY
from pipeline.planning.training import A_DEV_SCORE, DEV, OF_A_TRIPLET

TRAIN, FORWARD, TEACHER, TOKENS = 3e-4, 1e-4, 1e-3, 12
TRAINED, DEV_TEXTS, EVALUATED, TRIPLETS = 800, 200, 100, 2000
RETRIEVAL = {"found": {"kind": "retrieval", "path": "beir"}}
SCORED_PAIRS = {"pairs": {"kind": "sts", "path": "pairs.tsv"}}
TUNED = {"data": ["ours"], "lr": 1e-3}


def seconds(address: str, *, student: dict[str, Any] | None = None, **blocks: Any) -> float:
    """Of a stage, with these keys of the student and these blocks."""
    tiny = small_params()["students"]["tiny"]
    for key, value in (student or {}).items():
        tiny[key] = tiny[key] | value if isinstance(tiny[key], dict) and value else value
    finetune = {"data": {"ours": {"kind": "triplets", "path": "t.tsv"}}, "mine": None}
    dev = {"kind": "sts", "path": "d.tsv", "split": "dev"}
    usual = {"students": {"tiny": tiny}, "evaluate": {"tasks": {"dev": dev}}, "finetune": finetune}
    found = work(params(**(usual | blocks)))
    found.sizes.triplets["ours"] = TRIPLETS
    return times.seconds(address, found)


def test_every_epoch_takes_its_steps():
    one, three = (seconds("distill@tiny", student={"train": {"epochs": epochs}}) for epochs in (1, 3))
    assert three - one == pytest.approx(2 * TRAINED * TOKENS * TRAIN)
    one, three = (seconds("finetune@tiny", student={"finetune": {**TUNED, "epochs": n}}) for n in (1, 3))
    assert three - one == pytest.approx(2 * TRIPLETS * OF_A_TRIPLET * TRAIN)


def test_every_evaluation_encodes_the_dev_texts():
    few, more = (seconds("distill@tiny", student={"train": {"evaluations": n}}) for n in (2, 5))
    assert more - few == pytest.approx(3 * DEV_TEXTS * TOKENS * FORWARD)
    few, more = (seconds("finetune@tiny", student={"finetune": {**TUNED, "evaluations": n}}) for n in (2, 5))
    assert more - few == pytest.approx(3 * (EVALUATED * TOKENS * DEV * FORWARD + A_DEV_SCORE))


def test_every_state_of_a_student_is_scored():
    def scored(**student: Any) -> float:
        return seconds("evaluate@tiny", student=student)

    one = (TESTED * EVALUATED + DEV_TEXTS) * TOKENS * FORWARD
    assert scored() - scored(train=None, loss=None) == pytest.approx(one)
    assert scored(finetune=TUNED) - scored() == pytest.approx(one)


def test_the_footprint_is_taken_in_rounds_of_all_models():
    few, more = (seconds("footprint", footprint={"rounds": rounds}) for rounds in (3, 5))
    asked = Footprint()
    slower = work(params()).slower
    one_round = sum(
        max(A_BATCH, asked.sentences * TOKENS * token) + asked.single * (slower * ALONE + TOKENS * token)
        for token in (USERS_WAY * TEACHER, USERS_WAY * FORWARD)
    )
    assert more - few == pytest.approx(2 * one_round)


def test_searches_are_planned_where_a_task_searches():
    def searching(**evaluate: Any) -> float:
        return seconds("search_speed", evaluate={"tasks": SCORED_PAIRS, **evaluate})

    assert searching(tasks=SCORED_PAIRS | RETRIEVAL) > searching()
    assert searching(tasks=SCORED_PAIRS | RETRIEVAL, indexes=[]) == searching()


def test_a_classifier_is_trained_by_each_seed_and_epoch():
    def trained(**block: Any) -> float:
        tasks = {"said": {"kind": "sst2", "path": "SST-2"}}
        asked = {"student": "tiny", "start": "distilled", "task": "said", **block}
        return seconds("classify@one", classifiers={"one": asked}, evaluate={"tasks": tasks})

    once = trained(train={"epochs": 1.0})
    assert trained(train={"epochs": 3.0}) - once == pytest.approx(2 * EVALUATED * TOKENS * TRAIN)
    assert trained(train={"epochs": 1.0}, seeds=4) - once == pytest.approx(3 * EVALUATED * TOKENS * TRAIN)


def test_samples_of_significance_add_up():
    one, two, three = (seconds("significance", significance={"samples": n}) for n in (1000, 2000, 3000))
    assert three - two == pytest.approx(two - one) != 0
