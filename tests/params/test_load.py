from pathlib import Path

import pytest
from refusals import refuses
from small_params import small_params

from pipeline.params.load import check

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


@pytest.mark.parametrize("pairs", ["pairs", "sets_stsb", None])
def test_footprint_pairs_are_those_of_a_task(pairs):
    tasks = {"pairs": {"kind": "sts", "path": "pairs.tsv"}, "sets": SETS}
    check(small_params(evaluate={"tasks": tasks}, footprint={"pairs": pairs}), Path("params.yaml"))


@pytest.mark.parametrize(
    ("pairs", "tasks", "fix"),
    [
        (
            "stsb",
            {"pairs": {"kind": "sts", "path": "pairs.tsv"}, "sets": SETS},
            "name one (pairs, sets_stsb)",
        ),
        ("sets", {"sets": SETS}, "name one (sets_stsb)"),
        ("dev", {"dev": DEV, "search": SEARCH}, "; set it to null"),
        ("search", {"search": SEARCH}, "; set it to null"),
    ],
)
def test_footprint_pairs_of_no_task(pairs, tasks, fix):
    with refuses("params.yaml: footprint.pairs", repr(pairs), fix):
        check(small_params(evaluate={"tasks": tasks}, footprint={"pairs": pairs}), Path("params.yaml"))
