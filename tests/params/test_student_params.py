"""What does not go together in a student's block."""

from pathlib import Path

import pytest
from refusals import refuses
from small_params import small_params

from pipeline.params.load import check


@pytest.mark.parametrize(
    ("kind", "train", "named"),
    [
        ("bilstm", {"matryoshka": [4]}, None),
        ("static", {"matryoshka": [4]}, ("train.matryoshka", "set regularise.pca: false")),
        ("static", {"sparse": True}, None),
        ("static", {"whiten": True, "shrinkage": 0.1, "centre": True}, None),
        ("static", {"shrinkage": 0.1}, ("train.shrinkage", "set whiten: true")),
        ("bilstm", {"matryoshka": [4, 4]}, ("train.matryoshka", "[4, 4]")),
        ("static", {"sparse": True, "average": {"decay": 0.99}}, None),
        ("static", {"average": {"decay": 1.0}}, ("train.average.decay", " 1.0;", " 1")),
        ("transformer", {"interpolation": 0.5}, None),
        ("transformer", {"interpolation": 0.0}, ("train.interpolation", " 0.0;", " 0")),
        (
            "static",
            {"interpolation": 0.5, "average": {"decay": 0.9}},
            ("train.interpolation", "train.average; leave one"),
        ),
        ("transformer", {"sparse": True}, ("train.sparse", "static and bilstm", "remove it")),
    ],
)
def test_settings_that_a_student_cannot_follow(kind, train, named):
    params = small_params()
    tiny = params["students"]["tiny"]
    tiny["kind"], tiny["init"] = kind, {"layers": [0]} if kind == "transformer" else {}
    tiny["train"] |= train
    if named is None:
        check(params, Path("params.yaml"))
        return
    with refuses("params.yaml", "students.tiny", *named):
        check(params, Path("params.yaml"))


@pytest.mark.parametrize(
    ("kind", "init", "named"),
    [
        ("bilstm", {"max_words": 10}, ("init.max_words", "set `embeddings: file`")),
        ("bilstm", {"lowercase": False}, ("init.lowercase", "set `embeddings: file`")),
        (
            "bilstm",
            {"embeddings": "vocabulary", "max_words": 10},
            ("init.max_words", "set `embeddings: file`"),
        ),
        ("bilstm", {"ridge_lambda": 0.0}, ("init.ridge_lambda is 0.0;", "0.000000000001")),
        (
            "transformer",
            {"layers": [0], "ridge_lambda": 1e-300},
            ("init.ridge_lambda is 1e-300;", "0.000000000001"),
        ),
        (
            "transformer",
            {"layers": [0], "revision": "v1"},
            ("init.revision", "init.model", "remove revision"),
        ),
        (
            "compact",
            {"layers": [0], "table_dim": 4, "revision": "v1"},
            ("init.revision", "init.model", "remove revision"),
        ),
        (
            "bilstm",
            {"embeddings": "file", "path": "words.txt", "tokens": 9},
            ("init.tokens", "set init.max_words"),
        ),
        (
            "transformer",
            {"layers": [0], "projection": "none", "activation": "tanh"},
            ("init.activation", "set init.projection"),
        ),
    ],
)
def test_an_option_that_would_do_nothing(kind, init, named):
    params = small_params()
    params["students"]["tiny"] |= {"kind": kind, "init": init}
    with refuses("params.yaml", "students.tiny", *named):
        check(params, Path("params.yaml"))


def in_a_sum(loss):
    return {"kind": "sum", "terms": [{"weight": 1.0, "loss": one} for one in ({"kind": "mse"}, loss)]}


@pytest.mark.parametrize("around", [lambda loss: loss, in_a_sum], ids=["alone", "in a sum"])
@pytest.mark.parametrize(
    ("kind", "loss", "train", "named"),
    [
        ("static", {"kind": "infonce"}, {"batch_size": 1}, ("batch_size is 1, and infonce", "2 or more")),
        ("static", {"kind": "relational"}, {"batch_size": 1}, ("relational", "2 or more")),
        ("transformer", {"kind": "hsic"}, {"batch_size": 1}, ("hsic", "2 or more")),
        ("transformer", {"kind": "hsic", "kernel": "linear", "gamma": 9.0}, {}, ("gamma", "rbf and imq")),
        ("static", {"kind": "relational", "temperature": 0.05}, {}, ("temperature", "set form: kl")),
        ("static", {"kind": "mse"}, {"sparse": True, "weight_decay": 0.1}, ("weight_decay", "SparseAdam")),
    ],
)
def test_a_setting_of_training_that_would_do_nothing(kind, loss, train, named, around):
    params = small_params()
    params["students"]["tiny"] |= {"kind": kind, "loss": around(loss)}
    params["students"]["tiny"]["init"] = {"layers": [0]} if kind == "transformer" else {}
    params["students"]["tiny"]["train"] |= train
    with refuses("params.yaml", "students.tiny", *named):
        check(params, Path("params.yaml"))


@pytest.mark.parametrize("name", ["teacher", "tiny_finetune", "classify_topics"])
def test_names_that_the_report_has_for_itself(name):
    params = small_params()
    params["students"][name] = params["students"].pop("tiny")
    with refuses("params.yaml", f"students.{name}", "choose another"):
        check(params, Path("params.yaml"))


def test_vectors_of_single_tokens_are_no_token_table():
    params = small_params()
    loss = {
        "kind": "sum",
        "terms": [{"weight": 1.0, "loss": {"kind": one}} for one in ("mse", "token_embedding")],
    }
    params["students"]["tiny"] |= {"kind": "bilstm", "init": {"embeddings": "vocabulary"}, "loss": loss}
    with refuses("params.yaml", "students.tiny", "token_embedding", "set init.embeddings to teacher"):
        check(params, Path("params.yaml"))
    params["students"]["tiny"]["init"] = {"embeddings": "teacher"}
    check(params, Path("params.yaml"))


def test_a_mean_that_the_pca_leaves_out_cannot_be_subtracted():
    params = small_params(pca={"centre": False})
    params["students"]["tiny"]["train"]["centre"] = True
    with refuses("params.yaml", "students.tiny.train.centre", "set pca.centre: true", "train.centre: false"):
        check(params, Path("params.yaml"))


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"train": None, "loss": None}, None),
        ({"train": None, "loss": None, "whitening": {"dim": 8}}, None),
        ({"train": None}, ("train and loss", "set both to null")),
        ({"loss": None}, ("train and loss", "set both to null")),
        ({"whitening": {"dim": 9}}, ("whitening.dim is 9", "dim is 8", "choose 8 or less")),
        ({"whitening": {"dim": 4, "max_rows": 1}}, ("whitening.max_rows", "1", "2")),
    ],
)
def test_students_without_distillation_and_with_whitening(changes, named):
    params = small_params()
    params["students"]["tiny"] |= changes
    if named is None:
        check(params, Path("params.yaml"))
        return
    with refuses("params.yaml", "students.tiny", *named):
        check(params, Path("params.yaml"))


def test_whitening_has_no_more_dimensions_than_a_projection_leaves():
    params = small_params(finetune={"data": {"mine": {"kind": "triplets", "path": "x.tsv"}}, "mine": None})
    tuned = {"data": ["mine"], "projection": 4, "select": "agreement"}
    changes = {"kind": "transformer", "init": {"layers": [0]}, "finetune": tuned, "whitening": {"dim": 5}}
    params["students"]["tiny"] |= changes
    with refuses("students.tiny.whitening.dim is 5", "finetune.projection is 4"):
        check(params, Path("params.yaml"))
