from pathlib import Path

import pytest
from refusals import refuses
from small_params import small_params

from pipeline.params.load import check


def test_a_projection_up_is_refused():
    params = small_params()
    params["evaluate"]["tasks"]["dev"] = {"kind": "sts", "path": "pairs.tsv", "split": "dev"}
    params["finetune"]["data"] = {"ours": {"kind": "triplets", "path": "triplets.tsv"}}
    params["students"]["tiny"] |= {"kind": "transformer", "init": {"layers": [0]}}
    params["students"]["tiny"]["finetune"] = {"data": ["ours"], "projection": 8}
    check(params, Path("params.yaml"))
    params["students"]["tiny"]["finetune"]["projection"] = 9
    with refuses("params.yaml", "students.tiny.finetune.projection", " 9,", "choose 8"):
        check(params, Path("params.yaml"))


def test_mining_needs_the_view_that_it_compares():
    params = small_params(encode={"views": ["token_mean"]})
    params["students"]["tiny"]["view"] = "token_mean"
    params["finetune"]["mine"] = {"negatives": 2}
    with refuses("params.yaml", "'sentence'", "encode.views (token_mean)", "set finetune.mine to null"):
        check(params, Path("params.yaml"))


TABLE = {"kind": "static", "init": {}}
LEARNED = {"kind": "infonce", "projection": "learned"}
COSINE = {"weight": 1.0, "loss": {"kind": "cosine"}}


@pytest.mark.parametrize(
    ("student", "tuned", "named"),
    [
        ({}, {}, None),
        ({}, {"texts": {"corpus": 0.5}, "batch_size": 3}, None),
        ({"loss": {"kind": "sum", "terms": [COSINE, {"weight": 0.1, "loss": {"kind": "hsic"}}]}}, {}, None),
        ({}, {"weight": 0.0}, ("finetune.replay.weight", " 0.0")),
        ({}, {"batch_size": 1}, ("finetune.replay.batch_size", "2")),
        ({}, {"texts": []}, ("finetune.replay.texts",)),
        ({}, {"texts": ["corpus", "wordnet"]}, (".texts names wordnet", "train.texts (corpus)")),
        ({"train": None, "loss": None}, {}, ("goes on with a distillation", "set it to null")),
        ({"loss": LEARNED}, {}, ("infonce cannot be replayed", "learned projection is dropped")),
        ({"loss": {"kind": "token_embedding"}}, {}, ("token_embedding cannot", "teacher's layers")),
        (
            {"loss": {"kind": "sum", "terms": [COSINE, {"weight": 1, "loss": {"kind": "crd"}}]}},
            {},
            ("crd cannot",),
        ),
        (
            {"loss": {"kind": "sum", "terms": [COSINE, {"weight": 1, "loss": {"kind": "hidden_states"}}]}},
            {},
            ("hidden_states cannot", "change loss"),
        ),
        ({"finetune": {"projection": 4}}, {}, ("finetune.projection, 4", "one of the two to null")),
        (
            {"kind": "static", "init": {}},
            {},
            ("train.regularise turns", "regularise to null", "{pca: false, sif: null}"),
        ),
        (
            {**TABLE, "loss": {"kind": "mse"}, "regularise": {"pca": False}},
            {},
            ("mse teaches", "sif to null"),
        ),
        (
            {
                **TABLE,
                "loss": {"kind": "sum", "terms": [COSINE, {"weight": 1, "loss": {"kind": "kl"}}]},
                "regularise": {"pca": False, "sif": 1e-4},
            },
            {},
            ("kl teaches the targets' lengths", "sif to null"),
        ),
        ({**TABLE, "loss": {"kind": "mse"}, "regularise": {"pca": False, "sif": None}}, {}, None),
        ({**TABLE, "loss": {"kind": "cosine"}, "regularise": {"pca": False}}, {}, None),
        ({"kind": "static", "init": {}, "loss": {"kind": "relational"}}, {}, None),
    ],
)
def test_what_is_replayed_is_what_distillation_did(student, tuned, named):
    params = small_params(
        encode={"views": ["sentence"], "hidden": {}}, teacher={"kind": "transformer", "model": "m"}
    )
    params["evaluate"]["tasks"]["dev"] = {"kind": "sts", "path": "pairs.tsv", "split": "dev"}
    params["finetune"]["data"] = {"ours": {"kind": "triplets", "path": "triplets.tsv"}}
    tiny = params["students"]["tiny"] = {
        **params["students"]["tiny"],
        "kind": "transformer",
        "init": {"layers": [0]},
    }
    tiny["train"]["select"] = "agreement"
    if "regularise" in student:
        tiny["train"]["regularise"] = student["regularise"]
    tiny |= {key: value for key, value in student.items() if key not in ("finetune", "regularise")}
    tiny["finetune"] = {"data": ["ours"], "replay": {"weight": 0.3, **tuned}, **student.get("finetune", {})}
    if named is None:
        check(params, Path("params.yaml"))
        return
    with refuses("params.yaml", "students.tiny.finetune", *named):
        check(params, Path("params.yaml"))


def test_new_texts_that_nobody_makes_are_not_replayed():
    params = small_params()
    params["evaluate"]["tasks"]["dev"] = {"kind": "sts", "path": "pairs.tsv", "split": "dev"}
    params["finetune"]["data"] = {"ours": {"kind": "triplets", "path": "triplets.tsv"}}
    tiny = params["students"]["tiny"]
    tiny["train"] |= {"texts": ["corpus", "wordnet"], "regularise": None}
    tiny["finetune"] = {"data": ["ours"], "replay": {"weight": 1, "texts": ["wordnet"]}}
    with refuses("students.tiny.finetune.replay.texts", "wordnet", "augment.wordnet.enabled: true"):
        check(params, Path("params.yaml"))


@pytest.mark.parametrize("data", [["ours", "ours"], ["ours", "others", "ours"]])
def test_data_that_are_named_twice_are_refused(data):
    params = small_params()
    params["finetune"]["data"] = {
        name: {"kind": "triplets", "path": "triplets.tsv"} for name in ("ours", "others")
    }
    params["evaluate"]["tasks"]["dev"] = {"kind": "sts", "path": "pairs.tsv", "split": "dev"}
    params["students"]["tiny"]["finetune"] = {"data": data}
    with refuses("students.tiny", "finetune.data", "names ours twice; remove one"):
        check(params, Path("params.yaml"))
