import math

import numpy as np
import polars as pl
import pytest
from scipy.spatial.distance import pdist

from pipeline.params.evaluate import ClassificationTask
from pipeline.score.evaluation import embedding_space as space
from pipeline.tasks import pairs
from pipeline.tasks.embeddings import Embeddings

RNG = np.random.default_rng(0)
VECTORS = (RNG.normal(size=(60, 80)) + 0.5).astype(np.float32)
TEACHER = VECTORS + RNG.normal(size=(60, 80)).astype(np.float32)
IDS = np.arange(1, 61, dtype=np.uint64)


def unit(rows):
    return np.stack([row / math.sqrt(sum(row**2)) for row in rows.astype(np.float64)])


def test_alignment_is_the_papers_equation():
    rows, others = unit(VECTORS), unit(TEACHER)
    expected = np.mean([np.linalg.norm(x - y) ** 2 for x, y in zip(rows, others, strict=True)])
    assert space.alignment(VECTORS, TEACHER) == pytest.approx(expected)
    assert space.alignment(VECTORS, 3 * VECTORS) == pytest.approx(0)
    assert space.alignment(VECTORS, -VECTORS) == pytest.approx(4)


def test_uniformity_is_the_papers_equation():
    # Wang & Isola's own code: torch.pdist(x, p=2).pow(2).mul(-2).exp().mean().log()
    expected = np.log(np.exp(-2 * pdist(unit(VECTORS)) ** 2).mean())
    assert space.uniformity(VECTORS) == pytest.approx(expected)
    assert space.uniformity(np.ones((5, 3))) == pytest.approx(0)
    # Two opposite points at distance 2.
    assert space.uniformity(np.array([[1.0, 0], [-2, 0]])) == pytest.approx(-8)
    assert space.uniformity(np.array([[1.0, 0], [0, 0]])) == pytest.approx(-2)


def test_correlation_is_numpys_of_the_first_64_features():
    found = space.correlation(VECTORS)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, np.corrcoef(unit(VECTORS)[:, :64], rowvar=False), atol=1e-6)
    assert space.correlation(VECTORS[:, :5]).shape == (5, 5)


def test_a_constant_feature_correlates_with_itself_alone():
    rows = np.array([[0, 1.0, 2], [0, 2, 1], [0, 3, 5]])
    found = space.correlation(rows)
    assert found[0].tolist() == [1, 0, 0]
    assert abs(found[1, 2]) > 0.5


def task(name, **rows):
    return {name: pairs.make(name, "test", rows)}


def test_positive_pairs_are_those_that_tasks_say_mean_the_same():
    probe = ClassificationTask.model_validate({"kind": "classification", "train": "a", "test": "b"})
    tasks = {
        **task("sts", left_id=range(1, 11), right_id=range(11, 21), score=[0.0, 1, 2, 3, 4, 5, 1, 1, 4, 2]),
        **task("find", left_id=[21, 21, None], right_id=[31, 32, 33], score=[1.0, 0, None]),
        **task("names", left_id=[41, None], right_id=[42, 43]),
        **task("topics", left_id=[50], right_id=[None], label=["x"], subset=["test"]),
    }
    scoring = {"sts": "sts", "find": "retrieval", "names": "entity_resolution", "topics": probe}
    left, right = space.positive_pairs(tasks, scoring)
    # The fifth of ten scores: 5, and 4, with which another ties.
    assert set(zip(left.tolist(), right.tolist(), strict=True)) == {
        *{(5, 15), (6, 16), (9, 19)},
        (21, 31),
        (41, 42),
    }


def test_alignment_is_left_out_where_no_task_says_what_means_the_same():
    probe = ClassificationTask.model_validate({"kind": "classification", "train": "a", "test": "b"})
    tasks = {
        **task("topics", left_id=[50], right_id=[None], label=["x"], subset=["test"]),
        **task("flat", left_id=[1, 2], right_id=[3, 4], score=[2.0, 2]),
    }
    assert space.positive_pairs(tasks, {"topics": probe, "flat": "sts"}) is None
    assert set(space.describe(Embeddings(IDS, VECTORS), None)) == {"uniformity"}


def test_a_model_is_described():
    positives = (np.array([1, 2], np.uint64), np.array([4, 3], np.uint64))
    found = space.describe(Embeddings(IDS, VECTORS), positives)
    assert found == {
        "uniformity": space.uniformity(VECTORS),
        "alignment": space.alignment(VECTORS[[0, 1]], VECTORS[[3, 2]]),
    }


def test_no_more_rows_and_pairs_are_compared_than_the_sample(monkeypatch):
    monkeypatch.setattr(space, "SAMPLE_ROWS", 20)
    monkeypatch.setattr(space, "POSITIVES", 3)
    found = space.describe(Embeddings(IDS, VECTORS), None)
    assert found["uniformity"] == space.uniformity(VECTORS[:20])
    many = pl.concat(task("find", left_id=range(1, 9), right_id=range(11, 19), score=[1.0] * 8).values())
    left, _ = space.positive_pairs({"find": many}, {"find": "retrieval"})
    assert left.tolist() == [1, 2, 3]
