"""What stands beside the scores of choices and of clusterings: examples, positive pairs, smaller vectors."""

import numpy as np
import pytest
from small_students import static_block

from pipeline.params.search import Budget
from pipeline.score.evaluation import budget, embedding_space, examples
from pipeline.tasks import pairs, scoring
from pipeline.tasks.embeddings import Embeddings

VECTORS = np.random.default_rng(0).normal(size=(60, 64)).astype(np.float32)
VECTORS[30:] = VECTORS[:30] + 0.8 * VECTORS[30:]
EMBEDDINGS = Embeddings(np.arange(1, 61, dtype=np.uint64), VECTORS)
HOW = {"choose": "choice", "cluster": "clustering"}
MAIN = {"choose": "accuracy", "cluster": "nmi"}


@pytest.fixture
def tasks():
    left = np.arange(1, 21)
    others = [[q + 31, q % 20 + 36] for q in left]
    choose = {"left_id": left, "right_id": left + 30, "negative_ids": others}
    label = ["ab"[int(VECTORS[q - 1, 0] > 0)] for q in left]
    cluster = {"left_id": left, "right_id": [None] * 20, "label": label}
    return {"choose": pairs.make("choose", "test", choose), "cluster": pairs.make("cluster", "test", cluster)}


def test_examples_of_a_choice_show_its_candidates_and_of_a_clustering_pairs_by_chance(tasks):
    other = Embeddings(EMBEDDINGS.ids, VECTORS[::-1].copy())
    found = examples.of_tasks(tasks, HOW, (EMBEDDINGS, other), str)
    first = found["choose"].nearest[0]
    assert (first.query, first.relevant) == ("1", ("31",))
    assert {one.text for one in first.teacher} == {"31", "32", "37"}
    assert [one.relevant for one in first.teacher] == [one.text == "31" for one in first.teacher]
    assert found["cluster"].nearest[0].relevant == ()
    assert all(one.gold is None for one in found["cluster"].disagreements)
    assert found["cluster"].disagreements


def test_an_answer_and_its_query_are_a_positive_pair(tasks):
    left, right = embedding_space.positive_pairs(tasks, HOW)
    assert (left.tolist(), right.tolist()) == ([*range(1, 21)], [*range(31, 51)])
    assert embedding_space.positive_pairs({"cluster": tasks["cluster"]}, HOW) is None


def test_both_are_scored_at_fewer_bytes(tasks):
    asked = Budget(types=["float32", "int8"], dims=[32])
    rows = budget.score_tasks(tasks, HOW, MAIN, EMBEDDINGS, static_block(), asked)
    whole = scoring.score_tasks(tasks, HOW, EMBEDDINGS)
    assert rows[0]["scores"] == {name: pytest.approx(whole[name][MAIN[name]]) for name in MAIN}
    assert [(row["dim"], row["type"]) for row in rows] == [
        (64, "float32"),
        (64, "int8"),
        (32, "float32"),
        (32, "int8"),
    ]
    first = Embeddings(EMBEDDINGS.ids, VECTORS[:, :32])
    halved = scoring.score_tasks(tasks, HOW, first)
    assert rows[2]["scores"] == {name: pytest.approx(halved[name][MAIN[name]]) for name in MAIN}
