from pathlib import Path

import pytest
from small_params import small_params

from pipeline.core.errors import UserError
from pipeline.params.load import check

TINY = small_params()["students"]["tiny"]
LONG = 65 * "a"


@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        ({"encode": {"views": "sentence"}}, "encode.views is 'sentence'; expected a list"),
        ({"encode": {"views": None}}, "encode.views is null; expected a list"),
        *(
            (
                {"encode": {"views": views}},
                f"encode.views is [{', '.join(views)}]; write [{wanted}]: the first stands for the teacher "
                "where students are compared with it",
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
            f"students.{LONG}: name a-z, 0-9, - and _ only, a letter first, 64 at most",
        ),
        (
            {"students": {"tiny": TINY | {"train": TINY["train"] | {"seed": 2**63}}}},
            f"students.tiny.train.seed is {2**63}; expected less than {2**63}",
        ),
        (
            {"students": {"tiny": TINY | {"train": TINY["train"] | {"lr": True}}}},
            "students.tiny.train.lr is true; expected number",
        ),
        (
            {
                "finetune": {
                    "data": {"mine": {"kind": "triplets", "path": "x.csv", "negatives": ["no", "no"]}},
                    "mine": None,
                }
            },
            "finetune.data.mine: triplets takes negatives from 'no' twice; name it once",
        ),
    ],
)
def test_a_fault_is_told_as_the_file_has_it(blocks, message):
    with pytest.raises(UserError) as told:
        check(small_params(**blocks), Path("params.yaml"))
    assert str(told.value) == f"params.yaml: {message}"


def test_the_largest_seed_and_the_longest_name_are_taken():
    longest = TINY | {"train": TINY["train"] | {"seed": 2**63 - 1}}
    assert check(small_params(students={LONG[1:]: longest}), Path("params.yaml")).student(LONG[1:])
