import numpy as np
import pytest
from refusals import refuses

from pipeline.tasks.embeddings import Embeddings

IDS = np.array([3, 8, 2**63, 2**64 - 1], np.uint64)
VECTORS = np.arange(8, dtype=np.float32).reshape(4, 2)


def test_vectors_come_in_the_order_they_are_asked_for():
    wanted = np.array([2**64 - 1, 3, 3, 2**63], np.uint64)
    assert Embeddings(IDS, VECTORS).of(wanted).tolist() == [[6, 7], [0, 1], [0, 1], [4, 5]]


def test_nothing_asked_for_is_nothing():
    assert Embeddings(IDS, VECTORS).of(IDS[:0]).shape == (0, 2)


@pytest.mark.parametrize("absent", [0, 5, 2**64 - 2])
def test_an_id_without_a_vector_is_an_error(absent):
    with refuses("data/vectors/eval", "dvc repro -f encode@eval"):
        Embeddings(IDS, VECTORS).of(np.array([3, absent], np.uint64))


def test_an_id_above_all_others_is_an_error():
    with refuses("data/vectors/eval", "dvc repro -f encode@eval"):
        Embeddings(IDS[:3], VECTORS[:3]).of(np.array([2**64 - 1], np.uint64))
