import numpy as np
import polars as pl
import pytest
from sklearn.neighbors import NearestNeighbors

from pipeline.tasks import entity_resolution
from pipeline.tasks.embeddings import Embeddings

SCHEMA = {"subset": pl.String, "left_id": pl.UInt64, "right_id": pl.UInt64}
ANGLES = np.radians([0, 5, 10, 20, 40, 80, 120])
ON_A_CIRCLE = Embeddings(np.arange(7, dtype=np.uint64), np.stack([np.cos(ANGLES), np.sin(ANGLES)], axis=1))


def score(rows, embeddings=ON_A_CIRCLE):
    return entity_resolution.score(pl.DataFrame(rows, schema=SCHEMA, orient="row"), embeddings)


def test_subsets_are_searched_apart_and_weigh_alike():
    # In German query 0 (0 degrees) meets 2 and query 3 (20) meets 2; in French query 0 alone meets 1.
    german = [("de", 0, 2), ("de", 3, 4), ("de", None, 6)]
    french = [("fr", 0, 1), ("fr", None, 2)]
    assert score([*german, *french]) == {
        "recall@1": pytest.approx((1 / 2 + 1) / 2),
        "recall@1_all": pytest.approx(2 / 3),
        "recall@1/de": 0.5,
        "recall@1/fr": 1,
        "queries": 3,
        "entities": 5,
    }


def test_any_of_several_matches_resolves_a_query():
    assert score([("", 0, 6), ("", 0, 1), ("", None, 2)])["recall@1"] == 1
    assert score([("", 0, 6), ("", 0, 5), ("", None, 2)])["recall@1"] == 0
    assert score([("", 0, 6), ("", 0, 5)])["recall@1"] == 1


def test_an_entity_of_the_querys_own_text_is_a_candidate():
    assert score([("", 2, 2), ("", None, 1)])["recall@1"] == 1
    assert score([("", 2, 1), ("", None, 2)])["recall@1"] == 0


@pytest.mark.parametrize("rows", [[("", 0, 1), ("", None, 2)], [("", 0, 2), ("", None, 1)]])
def test_a_match_that_ties_with_another_entity_resolves_nothing(rows):
    vectors = np.array([[1, 0], [1, 1], [1, 1 + 1e-6]])
    assert score(rows, Embeddings(np.arange(3, dtype=np.uint64), vectors))["recall@1"] == 0


def test_a_match_that_is_just_nearer_resolves():
    nearer = Embeddings(np.arange(3, dtype=np.uint64), np.array([[1, 0], [1, 1], [1, 1 + 1e-5]]))
    assert score([("", 0, 1), ("", None, 2)], nearer)["recall@1"] == 1


def test_a_tie_among_matches_resolves():
    same = Embeddings(np.arange(4, dtype=np.uint64), np.array([[1, 0], [1, 1], [1, 1], [0, 1]]))
    assert score([("", 0, 1), ("", 0, 2), ("", None, 3)], same)["recall@1"] == 1


@pytest.mark.parametrize("vector", [np.zeros(5), np.ones(5)])
def test_a_collapsed_model_scores_0(vector):
    collapsed = Embeddings(np.arange(7, dtype=np.uint64), np.tile(vector, (7, 1)))
    rows = [("", query, query + 3) for query in range(4)]
    assert score(rows, collapsed)["recall@1"] == 0


def test_it_is_the_accuracy_of_one_nearest_neighbour():
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(200, 6)).astype(np.float32)
    # Entity 100 + n is near query n, and often not the nearest.
    vectors[100:] = vectors[:100] + rng.normal(size=(100, 6)) * 0.8
    found = score(
        [("", n, n + 100) for n in range(100)], Embeddings(np.arange(200, dtype=np.uint64), vectors)
    )
    neighbours = NearestNeighbors(n_neighbors=1, metric="cosine").fit(vectors[100:].astype(np.float64))
    nearest = neighbours.kneighbors(vectors[:100].astype(np.float64), return_distance=False)[:, 0]
    assert found["recall@1"] == pytest.approx((nearest == np.arange(100)).mean())
    assert 0.2 < found["recall@1"] < 0.9


def test_neither_the_order_of_the_rows_nor_the_length_of_the_vectors_matters():
    rows = [("de", 0, 2), ("de", 3, 4), ("de", None, 6), ("fr", 0, 1), ("fr", None, 2)]
    lengths = np.arange(1, 8)[:, None]
    scaled = Embeddings(ON_A_CIRCLE.ids, ON_A_CIRCLE.vectors * lengths)
    assert score(rows[::-1], scaled) == score(rows)
