"""What the params say of each kind of loss, and what its file has."""

from typing import get_args

import pytest
from pydantic import TypeAdapter
from small_batches import batch, context, vectors

from pipeline.core.registry import implementation
from pipeline.params.losses import Term

KINDS = [loss.model_fields["kind"].annotation for loss in get_args(Term)]
BLOCKS: TypeAdapter[Term] = TypeAdapter(Term)


@pytest.mark.parametrize("kind", [*(get_args(kind)[0] for kind in KINDS), "sum"])
def test_each_kind_has_a_file_of_its_name_that_builds_it(kind):
    assert callable(implementation("train.losses", kind).build)


@pytest.mark.parametrize(
    ("block", "compares"),
    [
        ({"kind": "mse"}, "vectors"),
        ({"kind": "cosine"}, "directions"),
        ({"kind": "infonce"}, "directions"),
        ({"kind": "kl"}, "distributions"),
        ({"kind": "infonce", "projection": "learned"}, None),
        ({"kind": "relational"}, None),
    ],
)
def test_what_compares_dimension_by_dimension_takes_equal_ones_alone(block, compares):
    params = BLOCKS.validate_python(block)
    assert params.compares == compares
    loss = implementation("train.losses", params.kind).build(params, context(dim=7, target_dim=5))
    pair = batch(vectors(4, 7), vectors(4, 5, seed=1))
    if compares:
        with pytest.raises(RuntimeError, match=r"size|shapes"):
            loss.double()(pair)
    else:
        assert loss.double()(pair).isfinite()
