import faiss
import numpy as np
import polars as pl
import pytest
from scipy.stats import spearmanr
from sentence_transformers.util import quantize_embeddings
from small_retrieval import cosines, retrieval_task
from small_students import static_block

from pipeline.params.evaluate import Probe
from pipeline.params.search import Budget
from pipeline.params.students import StaticStudent
from pipeline.score.evaluation import budget
from pipeline.tasks import choice, pairs, retrieval, sts
from pipeline.tasks.embeddings import Embeddings

MAIN = {"alike": "spearman", "find": "mrr@10"}
TYPES = ("float32", "float16", "int8", "binary")


def student(*, finetune=None, **train) -> StaticStudent:
    made = static_block(dim=64, train={"regularise": None, **train}).model_dump(mode="json")
    return StaticStudent.model_validate({**made, "finetune": finetune})


def unit_vectors(rows=200, dim=48, seed=0):
    vectors = np.random.default_rng(seed).normal(size=(rows, dim)) + 0.1
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def sts_task(embeddings, seed=0):
    """Pairs of all texts, graded by their cosines and chance."""
    rng = np.random.default_rng(seed)
    left, right = rng.permutation(len(embeddings.ids))[:200].reshape(2, 100)
    grades = cosines(embeddings.vectors[left], embeddings.vectors[right]).diagonal()
    columns = {"left_id": left, "right_id": right, "score": grades + 0.1 * rng.normal(size=100)}
    return pl.DataFrame(columns, schema={"left_id": pl.UInt64, "right_id": pl.UInt64, "score": pl.Float32})\
        .with_columns(subset=pl.lit(""))  # fmt: skip


def cells(tasks, embeddings, block=None, scoring=None, **asked):
    scoring = scoring or {name: "retrieval" if name == "find" else "sts" for name in tasks}
    found = budget.score_tasks(tasks, scoring, MAIN, embeddings, block or student(), Budget(**asked))
    return {(cell["dim"], cell["type"]): cell for cell in found}


def test_float32_is_the_vectors_and_float16_their_halves():
    vectors = unit_vectors()
    np.testing.assert_array_equal(budget.stored(vectors, vectors, "float32"), vectors.astype(np.float32))
    halves = budget.stored(vectors, vectors, "float16")
    np.testing.assert_array_equal(halves, vectors.astype(np.float32).astype(np.float16))
    assert 0 < np.abs(halves - vectors).max() < 2**-11


def test_int8_has_256_steps_between_the_least_and_the_greatest_of_each_dimension():
    fitted, vectors = unit_vectors(seed=1), unit_vectors(seed=2)
    low, high = fitted.min(axis=0), fitted.max(axis=0)
    step = (high - low) / 255
    codes = np.clip(np.floor((vectors - low) / step), 0, 255)
    found = budget.stored(vectors, fitted, "int8")
    inside = (vectors > low) & (vectors < high)
    assert 0.9 < inside.mean() < 1
    np.testing.assert_allclose(found, low + (codes + 0.5) * step, atol=step.max() * 1.01)
    assert (np.abs(found - vectors) <= step / 2 + 1e-6)[inside].all()
    theirs = quantize_embeddings(vectors.astype(np.float32), "uint8", ranges=np.stack([low, high]))
    ours = np.floor((found - low) / step)
    assert np.mean(ours == theirs) > 0.999


def test_binary_ranks_by_the_hamming_distance_of_the_signs():
    vectors = unit_vectors(dim=48)
    vectors[::3, :24] = 0  # as a negative number
    bits = quantize_embeddings(vectors, "ubinary")
    index = faiss.IndexBinaryFlat(48)
    index.add(bits)
    distances, rows = index.search(bits, len(bits))
    stored = budget.stored(vectors, vectors, "binary")
    similar = (stored / np.linalg.norm(stored, axis=1, keepdims=True)) @ stored.T
    for query in range(0, 200, 20):
        np.testing.assert_array_equal(
            similar[query, rows[query]], similar[query].max() - 2 * distances[query] / 8
        )


@pytest.mark.parametrize("dim", [1, 2, 32, 96, 128, 384, 1000])
def test_signs_have_a_length_that_is_a_power_of_two(dim):
    lengths = np.linalg.norm(budget.stored(unit_vectors(5, dim), np.empty((0, dim)), "binary"), axis=1)
    assert set(np.log2(lengths) % 1) == {0}


def test_sts_by_the_hamming_distance():
    embeddings = Embeddings(np.arange(200, dtype=np.uint64), unit_vectors(dim=96))
    pairs = sts_task(embeddings)
    bits = np.unpackbits(quantize_embeddings(embeddings.vectors, "ubinary"), axis=1)
    distance = (bits[pairs["left_id"]] != bits[pairs["right_id"]]).sum(axis=1)
    expected = spearmanr(-distance, pairs["score"]).statistic
    found = cells({"alike": pairs}, embeddings)[96, "binary"]
    assert found["scores"]["alike"] == pytest.approx(expected, abs=1e-9)


def test_whole_float32_vectors_score_as_the_tasks_do_and_others_are_measured_by_them():
    pairs, embeddings = retrieval_task(dim=64)
    tasks = {"find": pairs, "alike": sts_task(embeddings)}
    found = cells(tasks, embeddings, dims=(16,))
    whole = found[64, "float32"]
    own = {
        "find": retrieval.score(pairs, embeddings)["mrr@10"],
        "alike": sts.score(tasks["alike"], embeddings)["spearman"],
    }
    assert whole["scores"] == pytest.approx(own, abs=1e-6)
    assert whole["kept"] == 1
    for cell in found.values():
        scores = cell["scores"]
        assert cell["average"] == pytest.approx((scores["find"] + scores["alike"]) / 2)
        assert cell["kept"] == pytest.approx(np.mean([scores[name] / whole["scores"][name] for name in own]))
    assert found[64, "int8"]["kept"] == pytest.approx(1, abs=0.05)
    assert found[64, "binary"]["kept"] < found[64, "float16"]["kept"]
    short = Embeddings(embeddings.ids, embeddings.vectors[:, :16])
    assert found[16, "float32"]["scores"]["find"] == pytest.approx(retrieval.score(pairs, short)["mrr@10"])


def test_int8_is_fitted_on_the_documents(monkeypatch):
    pairs, embeddings = retrieval_task(dim=8)
    # Documents lie close together, queries all over the place: a fit on queries leaves documents a few steps.
    embeddings.vectors[30:] = 0.02 * embeddings.vectors[30:] + np.eye(8)[0]
    unit = embeddings.vectors / np.linalg.norm(embeddings.vectors, axis=1, keepdims=True)

    def score_if_fitted_on(rows):
        low, high = unit[rows].min(axis=0), unit[rows].max(axis=0)
        step = (high - low) / 255
        decoded = low + (np.clip(np.floor((unit - low) / step), 0, 255) + 0.5) * step
        return retrieval.score(pairs, Embeddings(embeddings.ids, decoded))["mrr@10"]

    documents, others = slice(30, None), (slice(None), slice(30))
    expected = score_if_fitted_on(documents)
    assert all(abs(score_if_fitted_on(rows) - expected) > 0.02 for rows in others)
    assert cells({"find": pairs}, embeddings)[8, "int8"]["scores"]["find"] == pytest.approx(
        expected, abs=0.005
    )


@pytest.mark.parametrize("answers_first", [True, False])
def test_int8_of_a_choice_is_fitted_on_all_its_candidates(answers_first):
    """Answers lie close together: a fit on them alone brings all other candidates to their bounds."""
    rng = np.random.default_rng(0)
    queries, candidates = (rng.normal(size=(count, 8)) for count in (60, 240))
    near, far = (slice(60), slice(60, 240)) if answers_first else (slice(180, 240), slice(180))
    candidates[near] = 0.05 * candidates[near] + np.eye(8)[0]
    unit = np.concatenate([queries, candidates])
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    answers, others = (np.arange(60, 300)[part] for part in (near, far))
    columns = {
        "left_id": np.arange(60),
        "right_id": answers,
        "negative_ids": [[int(one) for one in others[row::60]] for row in range(60)],
    }
    task = pairs.make("choose", "test", columns)
    embeddings = Embeddings(np.arange(300, dtype=np.uint64), unit)

    def score_if_fitted_on(rows):
        low, high = unit[rows].min(axis=0), unit[rows].max(axis=0)
        step = (high - low) / 255
        decoded = low + (np.clip(np.floor((unit - low) / step), 0, 255) + 0.5) * step
        return choice.score(task, Embeddings(embeddings.ids, decoded))["accuracy"]

    [found] = budget.score_tasks(
        {"choose": task}, {"choose": "choice"}, {"choose": "accuracy"}, embeddings, student(),
        Budget(types=("int8",), dims=()),
    )  # fmt: skip
    expected = score_if_fitted_on(slice(60, 300))
    assert abs(score_if_fitted_on(answers) - expected) > 0.05
    assert found["scores"]["choose"] == pytest.approx(expected, abs=0.02)


def test_bytes_of_a_million_vectors():
    pairs, embeddings = retrieval_task(dim=20, documents=60)
    found = cells({"find": pairs}, embeddings, dims=(7,))
    assert {key: cell["megabytes_per_million"] for key, cell in found.items()} == {
        (20, "float32"): 80,
        (20, "float16"): 40,
        (20, "int8"): 20,
        (20, "binary"): 3,
        (7, "float32"): 28,
        (7, "float16"): 14,
        (7, "int8"): 7,
        (7, "binary"): 1,
    }


@pytest.mark.parametrize(
    ("block", "dims", "expected"),
    [
        (student(), None, {160: True, 80: False, 40: False}),
        (student(matryoshka=[48, 16]), None, {160: True, 48: True, 16: True}),
        (student(matryoshka=[48, 16]), (16, 100, 160, 500), {160: True, 100: False, 16: True}),
        (
            student(matryoshka=[48], finetune={"data": ["mine"], "projection": 160}),
            None,
            {160: True, 80: False, 40: False},
        ),
    ],
)
def test_prefixes(block, dims, expected):
    pairs, embeddings = retrieval_task(dim=160, documents=60)
    found = budget.score_tasks(
        {"find": pairs}, {"find": "retrieval"}, MAIN, embeddings, block, Budget(types=("int8",), dims=dims)
    )
    assert {cell["dim"]: cell["trained"] for cell in found} == expected
    assert [cell["dim"] for cell in found] == sorted(expected, reverse=True)
    assert all(cell["kept"] > 0 for cell in found)


def test_classifiers_are_left_out():
    pairs, embeddings = retrieval_task(dim=8, documents=60)
    scoring = {"find": "retrieval", "colour": Probe()}
    found = cells({"find": pairs, "colour": pairs}, embeddings, scoring=scoring)
    assert set(found[8, "float32"]["scores"]) == {"find"}
    assert cells({"colour": pairs}, embeddings, scoring=scoring) == {}
