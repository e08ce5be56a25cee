"""What does not go together in a student's block."""

from pathlib import Path

import pytest
from small_params import small_params

from pipeline.core.errors import UserError
from pipeline.params.load import check


@pytest.mark.parametrize(
    ("kind", "train", "message"),
    [
        ("bilstm", {"matryoshka": [4]}, None),
        ("static", {"matryoshka": [4]}, "students.tiny.train.matryoshka: regularise.pca would rotate"),
        ("static", {"sparse": True}, None),
        ("static", {"whiten": True, "shrinkage": 0.1, "centre": True}, None),
        ("static", {"shrinkage": 0.1}, "students.tiny.train.shrinkage is of whitened targets; set whiten"),
        (
            "bilstm",
            {"matryoshka": [4, 4]},
            r"train.matryoshka is \[4, 4\]; name each prefix once",
        ),
        ("static", {"sparse": True, "average": {"decay": 0.99}}, None),
        ("static", {"average": {"decay": 1.0}}, "students.tiny.*train.average.decay"),
        ("transformer", {"sparse": True}, "students.tiny.train.sparse is for static and bilstm students"),
    ],
)
def test_settings_that_a_student_cannot_follow(kind, train, message):
    params = small_params()
    tiny = params["students"]["tiny"]
    tiny["kind"], tiny["init"] = kind, {"layers": [0]} if kind == "transformer" else {}
    tiny["train"] |= train
    if message is None:
        check(params, Path("params.yaml"))
        return
    with pytest.raises(UserError, match=message):
        check(params, Path("params.yaml"))


@pytest.mark.parametrize(
    ("kind", "init", "message"),
    [
        ("bilstm", {"max_words": 10}, "students.tiny.init.max_words is of a file of word vectors; set"),
        ("bilstm", {"lowercase": False}, "students.tiny.init.lowercase is of a file of word vectors; set"),
        (
            "transformer",
            {"layers": [0], "revision": "v1"},
            "init.revision is that of init.model",
        ),
    ],
)
def test_an_option_that_would_do_nothing(kind, init, message):
    params = small_params()
    params["students"]["tiny"] |= {"kind": kind, "init": init}
    with pytest.raises(UserError, match=message):
        check(params, Path("params.yaml"))


def test_a_mean_that_the_pca_leaves_out_cannot_be_subtracted():
    params = small_params(pca={"centre": False})
    params["students"]["tiny"]["train"]["centre"] = True
    with pytest.raises(UserError, match=r"tiny\.train\.centre subtracts the mean that pca\.centre: false"):
        check(params, Path("params.yaml"))
