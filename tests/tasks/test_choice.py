import numpy as np
import pytest

from pipeline.tasks import choice, pairs
from pipeline.tasks.embeddings import Embeddings

RNG = np.random.default_rng(0)
COUNT = 300
VECTORS = RNG.normal(size=(COUNT, 8))
VECTORS[100:200] = VECTORS[:100] + 1.6 * VECTORS[100:200]
"""Text n + 100 is near to text n."""


def embedded(vectors, similarity="cosine"):
    return Embeddings(np.arange(len(vectors), dtype=np.uint64), vectors, similarity)


def rows(*questions):
    left, right, others = zip(*questions, strict=True)
    return pairs.make("t", "test", {"left_id": left, "right_id": right, "negative_ids": others})


QUESTIONS = rows(*((n, n + 100, RNG.choice(np.arange(200, 300), 1 + n % 5).tolist()) for n in range(100)))


def pearls_own(questions, vectors):
    """The largest of the dot products with vectors of length 1, the answer being the first candidate."""
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    found = questions.select("left_id", "right_id", "negative_ids").iter_rows()
    return [np.argmax(unit[[answer, *others]] @ unit[query]) == 0 for query, answer, others in found]


def test_the_answers_that_pearls_program_chooses_are_right():
    expected = pearls_own(QUESTIONS, VECTORS)
    assert 0.4 < np.mean(expected) < 0.95
    assert choice.right(QUESTIONS, embedded(VECTORS)).tolist() == expected
    assert choice.score(QUESTIONS, embedded(VECTORS)) == {"accuracy": np.mean(expected), "questions": 100}


def test_the_models_own_similarity_decides():
    vectors = np.array([[1.0, 0.0], [2.0, 2.0], [1.0, 0.1]])
    asked = rows((0, 1, [2]))
    assert [choice.score(asked, embedded(vectors, how))["accuracy"] for how in ("cosine", "dot")] == [0, 1]


@pytest.mark.parametrize("vector", [np.zeros(5), np.ones(5)])
@pytest.mark.parametrize("how", ["cosine", "dot", "euclidean"])
def test_a_collapsed_model_scores_0(vector, how):
    assert choice.score(QUESTIONS, embedded(np.tile(vector, (COUNT, 1)), how))["accuracy"] == 0


def test_a_tie_is_no_choice_and_a_little_nearer_is():
    vectors = np.array([[1, 0], [1, 1], [1, 1 + 1e-8], [1, 1 + 1e-4]])
    assert choice.right(rows((0, 1, [2]), (0, 1, [3])), embedded(vectors)).tolist() == [False, True]


def test_one_query_may_be_asked_twice():
    vectors = np.array([[1, 0], [1, 1], [1, 0.1], [0, 1]])
    assert choice.right(rows((0, 1, [2]), (0, 1, [3])), embedded(vectors)).tolist() == [False, True]
