from pathlib import Path

import pytest
from refusals import refuses
from small_params import small_params

from pipeline.params.load import check


def evaluate(**block):
    tasks = {"pairs": {"kind": "sts", "path": "pairs.tsv"}}
    return check(small_params(evaluate={"tasks": tasks, **block}), Path("params.yaml")).evaluate


def test_the_defaults_are_hpds_lists_beside_exact_search_and_a_graph():
    flat, ivf, hnsw = evaluate().indexes
    assert (flat.kind, hnsw.kind) == ("flat", "hnsw")
    assert (ivf.nlist, ivf.nprobe) == (1024, 5)
    assert evaluate(indexes=[]).indexes == ()
    assert evaluate(budget=None).budget is None


@pytest.mark.parametrize(
    ("block", "named"),
    [
        (
            {"indexes": [{"kind": "flat"}, {"kind": "ivf", "nlist": 4, "nprobe": 9}]},
            ("evaluate.indexes.1.nprobe ", " 9,", "nlist, 4"),
        ),
        (
            {"indexes": [{"kind": "ivf"}, {"kind": "flat"}, {"kind": "ivf", "nlist": 1024}]},
            ("evaluate.indexes.2 ", "evaluate.indexes.0 ", "remove one"),
        ),
        ({"indexes": [{"kind": "ivff"}]}, ("evaluate.indexes.0.kind ", "'ivff'", "flat, ivf, hnsw")),
        ({"indexes": [{"kind": "ivf", "nlists": 9}]}, ("evaluate.indexes.0.nlists ", "'nlist'?")),
        ({"indexes": [{"kind": "hnsw", "ef_search": 5}]}, ("evaluate.indexes.0.ef_search ", " 5;", " 11")),
        (
            {"budget": {"types": ["int4"]}},
            ("evaluate.budget.types.0 ", "'int4'", "float32, float16, int8"),
        ),
        ({"budget": {"types": []}}, ("evaluate.budget.types ",)),
        ({"budget": {"dims": [0]}}, ("evaluate.budget.dims.0 ", " 0;")),
    ],
)
def test_a_fault_is_named_with_its_place_and_what_is_allowed(block, named):
    with refuses("params.yaml: ", *named):
        evaluate(**block)
