import numpy as np
import polars as pl
import pytest
from refusals import refuses
from scipy.spatial.distance import cosine
from scipy.stats import spearmanr

from pipeline.export import parity
from pipeline.params.evaluate import Evaluate
from pipeline.params.export import Tolerance
from pipeline.tasks.embeddings import Embeddings

TRAINED = np.random.default_rng(0).standard_normal((6, 4))
TEXTS = [f"text {row}" for row in range(6)]
GATE = Tolerance(distance=1e-3, loss=0.01)


def test_the_difference_is_one_minus_cosine():
    other = TRAINED + 0.3 * np.random.default_rng(1).standard_normal(TRAINED.shape)
    found = parity.difference(other, TRAINED)
    np.testing.assert_allclose(
        found.distances, [cosine(*rows) for rows in zip(other, TRAINED, strict=True)], rtol=1e-9
    )
    lengths = [np.linalg.norm(rows, axis=1) for rows in (other, TRAINED)]
    assert found.stretch == pytest.approx(np.abs(lengths[0] / lengths[1] - 1).max())


def test_zero_vectors_are_equal_to_zero_vectors_alone():
    zero = TRAINED.copy()
    zero[2] = 0
    assert parity.difference(zero, zero).distances.max() == 0
    assert parity.difference(zero, TRAINED).distances[2] == 1
    assert parity.difference(TRAINED, zero).distances[2] == 1


def test_equal_vectors_and_scores_pass():
    parity.check_vectors("onnx", parity.difference(TRAINED, TRAINED), TEXTS, GATE)
    parity.check_score("onnx", 0.8, 0.8, 0.0, GATE)


def turned(row: int, by: float) -> np.ndarray:
    """One row with this much of another direction."""
    other = TRAINED.copy()
    aside = np.linalg.svd(TRAINED[row : row + 1])[2][1]
    other[row] += by * np.linalg.norm(TRAINED[row]) * aside
    return other


@pytest.mark.parametrize(
    ("vectors", "named"),
    [
        (turned(3, 1.0), ("cosine", " 0.293 ", "'text 3'", " 0.001;")),
        (TRAINED * 1.5, ("length", " 0.5 ", " 0.0447;")),
        (TRAINED * np.nan, ("cosine", " nan ")),
    ],
)
def test_what_is_too_far_is_told_by_how_much(vectors, named):
    found = parity.difference(vectors, TRAINED)
    with refuses("onnx ", "export.fp32.distance", "leave onnx out of export.formats", *named):
        parity.check_vectors("onnx", found, TEXTS, GATE)
    with refuses("onnx-int8 ", "export.int8.distance"):
        parity.check_vectors("onnx-int8", found, TEXTS, GATE)


def test_a_lost_score_is_told_by_how_much():
    with refuses("onnx ", " 0.7200,", " 0.8000:", " 10.00% ", " 5.00% ", "export.fp32.loss"):
        parity.check_score("onnx", 0.72, 0.8, 0.05, GATE)


def test_a_loss_within_chance_of_the_gate_does_not_fail():
    parity.check_score("onnx", 0.72, 0.8, 0.01, GATE)
    parity.check_score("onnx", 0.72, 0.8, -0.2, GATE)


@pytest.mark.parametrize("tasks", [True, False])
def test_the_least_loss_lies_below_the_loss_of_worse_vectors_and_is_none_for_the_same(tasks):
    measure = parity.sts_measure(MANY, TASKS, "dev") if tasks else parity.AGREEMENT
    ids = np.arange(201, dtype=np.uint64)
    random = np.random.default_rng(3)
    trained = random.standard_normal((201, 8)).astype(np.float32)
    worse = trained + 0.7 * random.standard_normal(trained.shape).astype(np.float32)
    student, export = Embeddings(ids, trained), Embeddings(ids, worse)
    assert measure.least_loss(student, trained, student, trained) == pytest.approx(0, abs=1e-9)
    if tasks:
        human = [1 - cosine(trained[left], trained[left + 1]) for left in range(200)]
        sts_measure = parity.sts_measure(MANY.with_columns(score=pl.Series(human)), TASKS, "dev")
        measure = sts_measure
    loss = 1 - measure.score(export, worse, trained) / measure.score(student, trained, trained)
    least = measure.least_loss(export, worse, student, trained)
    assert 0 < least < loss


def pairs(*tasks: tuple[str, str]) -> pl.DataFrame:
    rows = [
        {"task": task, "split": split, "subset": "", "left_id": left, "right_id": left + 1, "score": left % 3}
        for task, split in tasks
        for left in range(5)
    ]
    return pl.DataFrame(rows).cast({"left_id": pl.UInt64, "right_id": pl.UInt64})


TASKS = Evaluate.model_validate(
    {
        "tasks": {
            "mine": {"kind": "sts", "path": "a.tsv", "split": "dev"},
            "yours": {"kind": "sts", "path": "b.tsv"},
            "nets": {"kind": "wordnet_relatedness"},
            "find": {"kind": "retrieval", "path": "folder"},
        }
    }
)
ALL = pairs(("mine", "dev"), ("yours", "test"), ("nets", "dev"), ("nets", "test"), ("find", "dev"))


@pytest.mark.parametrize(
    ("without", "split", "tasks"),
    [
        ([], "dev", ("dev", ["mine"])),
        ([], "test", ("test", ["yours"])),
        (["mine"], "dev", ("test", ["yours"])),
        (["mine", "yours"], "dev", ("dev", ["nets"])),
        (["mine", "yours", "nets"], "dev", None),
        ([], "agreement", None),
    ],
)
def test_the_score_is_of_the_users_sts_tasks_first(without, split, tasks):
    measure = parity.sts_measure(ALL.filter(~pl.col("task").is_in(without)), TASKS, split)
    if tasks is None:
        assert measure is parity.AGREEMENT
    else:
        assert measure.said == {"measure": "spearman", "split": tasks[0], "tasks": tasks[1]}


MANY = pl.DataFrame(
    [
        {"task": "mine", "split": "dev", "subset": "", "left_id": n, "right_id": n + 1, "score": n % 5}
        for n in range(200)
    ]
).cast({"left_id": pl.UInt64, "right_id": pl.UInt64})


def test_scores_equal_scipys():
    measure = parity.sts_measure(ALL, TASKS, "dev")
    embeddings = Embeddings(np.arange(6, dtype=np.uint64), TRAINED)
    cosines = [1 - cosine(TRAINED[left], TRAINED[left + 1]) for left in range(5)]
    expected = spearmanr(cosines, [left % 3 for left in range(5)]).statistic
    assert measure.score(embeddings, TRAINED, TRAINED) == pytest.approx(expected)
    other = TRAINED + np.random.default_rng(2).standard_normal(TRAINED.shape)
    assert parity.AGREEMENT.score(embeddings, TRAINED, TRAINED) == pytest.approx(1)
    assert parity.AGREEMENT.score(embeddings, other, TRAINED) < 1


@pytest.mark.parametrize("unit", [True, False])
def test_neighbours_are_faiss_own(unit):
    import faiss

    rng = np.random.default_rng(0)
    trained = rng.standard_normal((40, 6)).astype(np.float32) * rng.uniform(0.5, 2, (40, 1)).astype(
        np.float32
    )
    if unit:
        trained /= np.linalg.norm(trained, axis=1, keepdims=True)
    vectors = trained + 0.1 * rng.standard_normal((40, 6)).astype(np.float32)

    def nearest(rows, metric):
        index = faiss.index_factory(6, "Flat", metric)
        index.add(rows)
        found = index.search(rows, 40)[1]
        return [[other for other in row if other != text][:10] for text, row in enumerate(found)]

    def directions(rows):
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    product, distance = faiss.METRIC_INNER_PRODUCT, faiss.METRIC_L2
    ways = {"cosine": (directions, product), "dot": (np.array, product), "euclidean": (np.array, distance)}
    found = parity.overlaps(vectors, trained, unit=unit)
    for how, (made, metric) in ways.items():
        made_trained, metric_trained = ways["cosine" if unit else how]
        both = zip(
            nearest(made(vectors), metric), nearest(made_trained(trained), metric_trained), strict=True
        )
        expected = np.mean([len({*one} & {*other}) / 10 for one, other in both])
        assert found[how] == pytest.approx(expected)
        assert 0.3 < expected < 1
    with refuses("onnx finds", "10 nearest", "export.fp32.overlap", "leave onnx out"):
        parity.check_overlaps("onnx", found, Tolerance(distance=1, loss=1, overlap=0.999))
    parity.check_overlaps("onnx", found, Tolerance(distance=1, loss=1, overlap=0.1))
