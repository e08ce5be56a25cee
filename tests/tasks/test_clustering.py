import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.metrics import normalized_mutual_info_score

from pipeline.tasks import clustering, pairs
from pipeline.tasks.embeddings import Embeddings

RNG = np.random.default_rng(0)
CLASSES = np.arange(120) % 3
CENTRES = RNG.normal(size=(3, 6))
VECTORS = (CENTRES[CLASSES] + 0.8 * RNG.normal(size=(120, 6))) * RNG.uniform(0.5, 5, size=(120, 1))


def rows(ids=range(120)):
    labels = [("PER", "LOC", "ORG")[CLASSES[one]] for one in ids]
    return pairs.make("t", "test", {"left_id": [*ids], "right_id": [None] * len(labels), "label": labels})


def embedded(vectors, similarity="cosine"):
    return Embeddings(np.arange(len(vectors), dtype=np.uint64), vectors, similarity)


def by_sklearn(vectors, classes):
    found = [KMeans(3, random_state=seed).fit(vectors.astype(np.float32)).labels_ for seed in range(3)]
    return np.mean([normalized_mutual_info_score(classes, one) for one in found])


def test_the_score_is_scikit_learns_on_vectors_of_length_1():
    unit = VECTORS / np.linalg.norm(VECTORS, axis=1, keepdims=True)
    found = clustering.score(rows(), embedded(VECTORS))
    assert found == {"nmi": pytest.approx(by_sklearn(unit, CLASSES)), "texts": 120, "classes": 3}
    assert 0.2 < found["nmi"] < 0.95


def test_vectors_that_are_not_compared_by_their_cosine_keep_their_lengths():
    found = clustering.score(rows(), embedded(VECTORS, "euclidean"))["nmi"]
    assert found == pytest.approx(by_sklearn(VECTORS, CLASSES))
    assert found != pytest.approx(clustering.score(rows(), embedded(VECTORS))["nmi"])


def test_a_text_of_several_rows_counts_as_often():
    ids = [0, 0, 0, *range(1, 120)]
    unit = VECTORS / np.linalg.norm(VECTORS, axis=1, keepdims=True)
    found = clustering.score(rows(ids), embedded(VECTORS))
    assert found["texts"] == 122
    assert found["nmi"] == pytest.approx(by_sklearn(unit[ids], CLASSES[ids]))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("vector", [np.zeros(6), np.ones(6)])
def test_a_collapsed_model_scores_0(vector):
    assert clustering.score(rows(), embedded(np.tile(vector, (120, 1))))["nmi"] == 0


def test_classes_that_lie_apart_are_found():
    assert clustering.score(rows(), embedded(np.eye(3)[CLASSES]))["nmi"] == 1
