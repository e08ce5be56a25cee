from pathlib import Path

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
