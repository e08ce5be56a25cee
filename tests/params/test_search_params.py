from pathlib import Path

import pytest
from small_params import small_params

from pipeline.core.errors import UserError
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
    ("block", "said"),
    [
        (
            {"indexes": [{"kind": "flat"}, {"kind": "ivf", "nlist": 4, "nprobe": 9}]},
            "evaluate.indexes.1.nprobe is 9, above nlist, 4",
        ),
        (
            {"indexes": [{"kind": "ivf"}, {"kind": "flat"}, {"kind": "ivf", "nlist": 1024}]},
            "evaluate.indexes.2 is evaluate.indexes.0 again; remove one",
        ),
        ({"indexes": [{"kind": "ivff"}]}, "evaluate.indexes.0.kind is 'ivff'; allowed: flat, ivf, hnsw"),
        ({"indexes": [{"kind": "ivf", "nlists": 9}]}, "nlists is unknown; did you mean 'nlist'?"),
        (
            {"indexes": [{"kind": "hnsw", "ef_search": 5}]},
            "ef_search is 5; expected greater than or equal to 11",
        ),
        (
            {"budget": {"types": ["int4"]}},
            "evaluate.budget.types.0 is 'int4'; allowed: float32, float16, int8",
        ),
        ({"budget": {"types": []}}, "evaluate.budget.types is empty"),
        ({"budget": {"dims": [0]}}, "evaluate.budget.dims.0 is 0"),
    ],
)
def test_a_fault_is_named_with_its_place_and_what_is_allowed(block, said):
    with pytest.raises(UserError) as error:
        evaluate(**block)
    assert said in str(error.value)
    assert str(error.value).startswith("params.yaml: ")
