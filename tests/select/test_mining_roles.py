"""One text is a query and a document: it is no negative of itself, nor of what its other role is near to."""

from pathlib import Path

import numpy as np
import pytest

from pipeline.data.common.texts import in_role, text_ids
from pipeline.params.corpus import Mine
from pipeline.select.mining.mining import Miner
from pipeline.tasks import pairs

OFF = {"margin": None, "percentile": None, "max_similarity": None}


@pytest.mark.parametrize("roles", [("text", "text"), ("query", "document"), ("document", "text")])
def test_a_text_in_another_role_is_the_same_text(roles):
    """Of paraphrases, all of which are near: "a" is "b" and "b" is "a", "c" is itself."""
    known = [("a", "b"), ("b", "a"), ("c", "c2"), ("d", "c"), ("e", "a")]
    sides = [
        [in_role(text_ids([text]), [roles[place]])[0] for text in side]
        for place, side in enumerate(zip(*known, strict=True))
    ]
    texts = {
        int(one): text
        for side, row in zip(sides, zip(*known, strict=True), strict=True)
        for one, text in zip(side, row, strict=True)
    }
    ids = np.array(sorted(texts), np.uint64)
    units = np.tile(np.float32([[1, 0]]), (len(ids), 1))
    triplets = pairs.make("one", "train", {"left_id": sides[0], "right_id": sides[1]})
    found, counts = Miner(triplets, ids, units, Mine(**OFF, negatives=9), Path("vectors")).mine()
    negatives = {
        (texts[row["left_id"]], texts[row["right_id"]]): {texts[one] for one in row["negative_ids"]}
        for row in found.iter_rows(named=True)
    }
    assert negatives == {
        ("a", "b"): {"c", "c2"},  # not "a": of "e" it is a positive
        ("b", "a"): {"c", "c2"},
        ("c", "c2"): {"a", "b"},
        ("d", "c"): {"a", "b", "c2"},
        ("e", "a"): {"b", "c", "c2"},
    }
    assert counts.dropped["anchor"] == 3
