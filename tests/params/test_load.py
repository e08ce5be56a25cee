from pathlib import Path

import pytest
from refusals import refuses
from small_params import small_params

from pipeline.params.evaluate import Evaluate
from pipeline.params.graded import graded_tasks
from pipeline.params.load import check
from pipeline.tasks.subtasks import one_by_one

TINY = small_params()["students"]["tiny"]
LONG = 65 * "a"


@pytest.mark.parametrize(
    ("blocks", "named"),
    [
        ({"encode": {"views": "sentence"}}, ("encode.views ", "'sentence'", "list")),
        ({"encode": {"views": None}}, ("encode.views ", "null", "list")),
        *(
            (
                {"encode": {"views": views}},
                ("encode.views ", f"[{', '.join(views)}]", f"write [{wanted}]"),
            )
            for views, wanted in (
                (["cls", "sentence"], "sentence, cls"),
                (["cls", "token_mean"], "token_mean, cls"),
                (["sentence", "cls", "token_mean"], "sentence, token_mean, cls"),
                (["sentence", "sentence"], "sentence"),
            )
        ),
        (
            {"students": {LONG: TINY}},
            (f"students.{LONG}:", "a-z, 0-9, - and _ ", "64"),
        ),
        (
            {"students": {"tiny": TINY | {"train": TINY["train"] | {"seed": 2**63}}}},
            ("students.tiny.train.seed ", f" {2**63};", f" {2**63}"),
        ),
        (
            {"students": {"tiny": TINY | {"train": TINY["train"] | {"lr": True}}}},
            ("students.tiny.train.lr ", "true", "number"),
        ),
        (
            {
                "finetune": {
                    "data": {"mine": {"kind": "triplets", "path": "x.csv", "negatives": ["no", "no"]}},
                    "mine": None,
                }
            },
            ("finetune.data.mine:", "negatives", "'no'"),
        ),
    ],
)
def test_a_fault_is_told_as_the_file_has_it(blocks, named):
    with refuses("params.yaml: ", *named) as told:
        check(small_params(**blocks), Path("params.yaml"))
    assert "\n" not in str(told.value)


def test_the_largest_seed_and_the_longest_name_are_taken():
    longest = TINY | {"train": TINY["train"] | {"seed": 2**63 - 1}}
    assert check(small_params(students={LONG[1:]: longest}), Path("params.yaml")).student(LONG[1:])


SETS = {"kind": "sts_sets", "path": "downstream"}
DEV = {"kind": "sts", "path": "dev.tsv", "split": "dev"}
SEARCH = {"kind": "retrieval", "path": "beir"}


WORDS = {"kind": "word_similarity_sets", "path": "words", "sets": ["men", "simlex"]}
PEARL = {"kind": "pearl", "path": "pearl"}


@pytest.mark.parametrize("pairs", ["pairs", "sets_stsb", "words_simlex", "pearl_bird", "word", None])
def test_footprint_pairs_are_those_of_a_task(pairs):
    tasks = {"pairs": {"kind": "sts", "path": "pairs.tsv"}, "sets": SETS, "words": WORDS, "pearl": PEARL}
    tasks["word"] = {"kind": "word_similarity", "path": "pairs.tsv"}
    check(small_params(evaluate={"tasks": tasks}, footprint={"pairs": pairs}), Path("params.yaml"))


@pytest.mark.parametrize(
    ("pairs", "tasks", "fix"),
    [
        (
            "stsb",
            {"pairs": {"kind": "sts", "path": "pairs.tsv"}, "sets": SETS},
            "name one (pairs, sets_sts12, ",
        ),
        ("sets", {"sets": SETS}, "name one (sets_sts12, "),
        ("sets_stb", {"sets": SETS}, "sets_stsb, sets_sickr)"),
        ("words", {"words": WORDS}, "name one (words_men, words_simlex)"),
        ("words_rareword", {"words": WORDS}, "name one (words_men, words_simlex)"),
        ("pearl", {"pearl": PEARL}, "name one (pearl_bird)"),
        ("pearl_turney", {"pearl": PEARL}, "name one (pearl_bird)"),
        ("pearl_bird", {"pearl": PEARL | {"sets": ["turney"]}}, "; set it to null"),
        ("dev", {"dev": DEV, "search": SEARCH}, "; set it to null"),
        ("search", {"search": SEARCH}, "; set it to null"),
    ],
)
def test_footprint_pairs_of_no_task(pairs, tasks, fix):
    with refuses("params.yaml: footprint.pairs", repr(pairs), fix):
        check(small_params(evaluate={"tasks": tasks}, footprint={"pairs": pairs}), Path("params.yaml"))


def test_the_tasks_of_graded_pairs_are_those_that_prepare_makes():
    tasks = {"sets": SETS, "words": WORDS, "pearl": PEARL, "dev": DEV, "search": SEARCH}
    tasks |= {"mnli": {"kind": "mnli", "path": "mnli"}, "near": {"kind": "wordnet_relatedness"}}
    blocks = Evaluate.model_validate({"tasks": tasks}).tasks
    made = {
        name
        for name, task in one_by_one(blocks).items()
        if task.scoring == "sts" and getattr(task, "split", "test") == "test"
    }
    assert {*graded_tasks(blocks)} == made
    assert len(made) == 7 + 2 + 1 + 1
