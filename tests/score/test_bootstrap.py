import tracemalloc
from functools import partial

import numpy as np
import polars as pl
import pytest
from scipy import stats
from sklearn.metrics import f1_score, normalized_mutual_info_score

from pipeline.score.statistics import bootstrap
from pipeline.score.statistics.bootstrap import F1, Mean, Pearson, Spearman
from pipeline.score.statistics.examined import ITEMS_SCHEMA
from pipeline.tasks import sts

RNG = np.random.default_rng(0)
COSINES = np.round(RNG.normal(size=120), 1)
GOLD = np.round(COSINES + RNG.normal(size=120))
ALL = [np.arange(120)]


def drawn(items, samples, seed=0):
    """Rows that are drawn and how often each is, (samples, items) both."""
    rows = np.random.default_rng(seed).integers(items, size=(samples, items))
    return rows, np.stack([np.bincount(row, minlength=items) for row in rows]).astype(float)


def table(measure, value, gold=None, subset=None, run=0):
    count = len(value)
    columns = {
        "measure": [measure] * count,
        "subset": subset or [""] * count,
        "run": [run] * count,
        "item": range(count),
        "left_id": range(count),
        "right_id": [None] * count,
        "value": value,
        "gold": [None] * count if gold is None else gold,
    }
    return pl.DataFrame({n: pl.Series(v, dtype=ITEMS_SCHEMA[n], strict=False) for n, v in columns.items()})


def test_a_resampled_spearman_is_scipys_of_the_rows_drawn():
    rows, counts = drawn(120, 20)
    expected = [stats.spearmanr(COSINES[row], GOLD[row]).statistic for row in rows]
    np.testing.assert_allclose(Spearman(COSINES, GOLD)(counts), expected, rtol=0, atol=1e-12)


def test_resampled_correlations_of_sts_are_scipys_of_the_rows_drawn():
    rows, counts = drawn(120, 20)
    subset = np.array(["a"] * 50 + ["b"] * 70)
    found = bootstrap.statistics(table("cosine", COSINES, GOLD, subset=[*subset]), 0)
    pearson = [stats.pearsonr(COSINES[row], GOLD[row]).statistic for row in rows]
    np.testing.assert_allclose(found["pearson"](counts), pearson, rtol=0, atol=1e-12)
    parts = [[row[subset[row] == name] for name in "ab"] for row in rows]
    mean = [np.mean([stats.spearmanr(COSINES[p], GOLD[p]).statistic for p in two]) for two in parts]
    np.testing.assert_allclose(found["spearman_mean"](counts), mean, rtol=0, atol=1e-12)


def test_subsets_that_rank_nothing_are_left_out_of_the_mean_as_in_the_score():
    """A single pair, and two of one score."""
    subset = ["a"] * 50 + ["b"] * 67 + ["c"] + ["d"] * 2
    gold = np.append(GOLD[:118], [3.0, 3.0])
    found = bootstrap.statistics(table("cosine", COSINES, gold, subset=subset), 0)["spearman_mean"]
    rows, counts = drawn(120, 20)
    two = [[row[row < 50], row[(row >= 50) & (row < 117)]] for row in rows]
    mean = [np.mean([stats.spearmanr(COSINES[p], gold[p]).statistic for p in parts]) for parts in two]
    np.testing.assert_allclose(found(counts), mean, rtol=0, atol=1e-12)
    pairs = pl.DataFrame({"score": gold, "subset": subset})
    score = sts.scores(pairs, COSINES)["spearman_mean"]
    assert found(np.ones((1, 120)))[0] == pytest.approx(score, abs=1e-12)
    lonely = table("cosine", COSINES, GOLD, subset=[f"{row}" for row in range(120)])
    assert bootstrap.statistics(lonely, 0)["spearman_mean"](counts).tolist() == [0] * 20


@pytest.mark.parametrize(("correlation", "scipys"), [(Spearman, stats.spearmanr), (Pearson, stats.pearsonr)])
def test_a_constant_side_has_no_correlation(correlation, scipys):
    rare = np.array([1.0, 0, 0, 0])
    counts = np.array([[0.0, 2, 1, 1], [1, 1, 1, 1]])
    found = correlation(rare, np.arange(4.0))(counts)
    assert found[0] == 0
    assert found[1] == pytest.approx(scipys(rare, np.arange(4)).statistic)


@pytest.mark.parametrize("labels", [2, 3])
def test_a_resampled_f1_is_scikit_learns_of_the_rows_drawn(labels):
    true = RNG.integers(labels, size=12)
    predicted = np.where(RNG.random((2, 12)) < 0.6, true, RNG.integers(labels, size=(2, 12)))
    rows, counts = drawn(12, 50)
    how = {"average": "binary" if labels == 2 else "macro", "zero_division": 0.0}
    expected = [np.mean([f1_score(true[row], one[row], **how) for one in predicted]) for row in rows]
    found = pl.concat([table("class", one, true, run=run) for run, one in enumerate(predicted)])
    np.testing.assert_allclose(bootstrap.statistics(found, labels)["f1"](counts), expected, atol=1e-12)


def test_f1_of_a_class_that_no_row_drawn_has_is_0():
    predicted, true = np.array([[0, 1]]), np.array([[0, 1]])
    assert F1(predicted, true, binary=True)(np.array([[2.0, 0], [1, 1]])).tolist() == [0, 1]
    assert F1(predicted, true)(np.array([[2.0, 0]])).tolist() == [1]


@pytest.mark.parametrize("binary", [False, True])
def test_f1_is_0_where_no_row_is_right(binary):
    predicted, true = np.array([[1, 0, 1]]), np.array([[0, 1, 0]])
    counts = np.array([[1.0, 1, 1], [3, 0, 0]])
    assert F1(predicted, true, binary=binary)(counts).tolist() == [0, 0]


def test_a_resampled_mutual_information_is_scikit_learns_of_the_rows_drawn():
    rows, counts = drawn(120, 20)
    classes = np.arange(120) % 3
    runs = [np.where(RNG.random(120) < 0.6, classes, RNG.integers(4, size=120)) for _ in range(2)]
    parts = [table("cluster", one, classes, run=run) for run, one in enumerate(runs)]
    found = bootstrap.statistics(pl.concat(parts), 0)["nmi"](counts)
    each = [[normalized_mutual_info_score(classes[row], one[row]) for row in rows] for one in runs]
    np.testing.assert_allclose(found, np.mean(each, axis=0), rtol=0, atol=1e-12)
    assert 0.1 < found.min() < found.max() < 0.9


@pytest.mark.parametrize("measure", ["cluster", "class"])
def test_memory_is_that_of_the_items_however_many_classes_they_have(measure):
    many = 3000
    classes, found = np.arange(many), RNG.permutation(many)
    found[::2] = classes[::2]
    rows, counts = drawn(many, 4)
    statistics = bootstrap.statistics(table(measure, found, classes), many)
    tracemalloc.start()
    scores = statistics["nmi" if measure == "cluster" else "f1"](counts)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    theirs = (
        normalized_mutual_info_score
        if measure == "cluster"
        else partial(f1_score, average="macro", zero_division=0.0)
    )
    np.testing.assert_allclose(scores, [theirs(classes[row], found[row]) for row in rows], atol=1e-12)
    assert most < 20 * counts.nbytes


@pytest.mark.parametrize(("clusters", "classes"), [([0, 0, 0], [0, 1, 1]), ([0, 1, 1], [0, 0, 0])])
def test_mutual_information_where_there_is_nothing_to_tell(clusters, classes):
    some, one = np.array([[1.0, 1, 1]]), np.array([[0.0, 2, 1]])
    of = bootstrap.statistics(table("cluster", clusters, classes), 0)["nmi"]
    assert of(some) == normalized_mutual_info_score(classes, clusters) == 0
    assert of(one) == normalized_mutual_info_score([classes[1]] * 3, [clusters[1]] * 3) == 1


def test_subsets_weigh_alike_and_keep_their_sizes():
    values, subsets = np.array([1.0, 0, 1, 1, 0, 0]), ["a", "a", "b", "b", "b", "b"]
    items = table("resolved", values, subset=subsets)
    within = bootstrap.strata(items)
    assert {name: rows.tolist() for name, rows in within.items()} == {"a": [0, 1], "b": [2, 3, 4, 5]}
    found = bootstrap.resampled(bootstrap.statistics(items, 0), [*within.values()], 4000, (0,))
    row = found["recall@1"]
    assert row[0] == pytest.approx((0.5 + 0.5) / 2)
    np.testing.assert_allclose(row, (found["recall@1/a"] + found["recall@1/b"]) / 2)
    np.testing.assert_allclose(found["recall@1_all"], (2 * found["recall@1/a"] + 4 * found["recall@1/b"]) / 6)
    # Every score is (hits of 2) / 2 / 2 + (hits of 4) / 4 / 2.
    np.testing.assert_allclose(row * 8 % 1, 0, atol=1e-12)
    assert np.var(row[1:]) == pytest.approx((0.25 / 2 + 0.25 / 4) / 4, rel=0.1)


def test_intervals_of_a_mean_are_scipys():
    values = RNG.exponential(size=200)
    row = bootstrap.resampled({"m": Mean(values, [np.arange(200)])}, [np.arange(200)], 9999, (0,))["m"]
    expected = stats.bootstrap(
        (values,), np.mean, n_resamples=9999, confidence_level=0.9, method="percentile", rng=1
    )
    assert row[0] == pytest.approx(values.mean())
    np.testing.assert_allclose(
        bootstrap.interval(row, 0.9), expected.confidence_interval, atol=0.05 * expected.standard_error
    )
    assert np.std(row[1:]) == pytest.approx(expected.standard_error, rel=0.03)


def test_intervals_of_a_rank_correlation_and_of_a_difference_of_two_are_scipys():
    other = GOLD + 2 * RNG.normal(size=120)

    def difference(a, b, gold, axis=-1):
        columns = zip(a, b, gold, strict=True) if a.ndim == 2 else [(a, b, gold)]
        found = [stats.spearmanr(x, g).statistic - stats.spearmanr(y, g).statistic for x, y, g in columns]
        return np.array(found) if a.ndim == 2 else found[0]

    models = {"a": Spearman(COSINES, GOLD), "b": Spearman(other, GOLD)}
    rows = bootstrap.resampled(models, ALL, 4000, (1,))
    how = {"n_resamples": 1000, "paired": True, "method": "percentile", "rng": 0, "vectorized": True}
    expected = stats.bootstrap((COSINES, other, GOLD), difference, **how)
    found = rows["a"] - rows["b"]
    assert found[0] == pytest.approx(difference(COSINES, other, GOLD))
    np.testing.assert_allclose(
        bootstrap.interval(found, 0.95), expected.confidence_interval, atol=0.2 * expected.standard_error
    )
    assert np.std(found[1:]) == pytest.approx(expected.standard_error, rel=0.07)


def test_a_model_beside_itself_differs_by_nothing():
    models = {"a": Spearman(COSINES, GOLD), "b": Spearman(COSINES.copy(), GOLD)}
    rows = bootstrap.resampled(models, ALL, 200, (0,))
    difference = rows["a"] - rows["b"]
    assert not difference.any()
    assert bootstrap.p_value(difference) == 1
    assert bootstrap.interval(difference, 0.95) == (0, 0)


def test_p_counts_the_rarer_side_twice_and_is_never_0():
    assert bootstrap.p_value(np.array([9.0, *range(1, 100)])) == pytest.approx(2 / 100)
    assert bootstrap.p_value(np.array([9.0, -1, 0, 3, 4])) == 1
    assert bootstrap.p_value(np.array([9.0, -1, *[2.0] * 98])) == pytest.approx(2 * 2 / 100)
    assert bootstrap.p_value(-np.array([9.0, -1, *[2.0] * 98])) == pytest.approx(2 * 2 / 100)


def test_95_of_100_intervals_hold_the_true_value_and_5_of_100_tests_find_what_is_not_there():
    random, rows = np.random.default_rng(3), [np.arange(80)]
    held, found = [], []
    for number in range(300):
        one, other = random.random((2, 80)) < 0.4
        models = {"a": Mean(one.astype(float), rows), "b": Mean(other.astype(float), rows)}
        scores = bootstrap.resampled(models, rows, 300, (number,))
        low, high = bootstrap.interval(scores["a"], 0.95)
        held.append(low <= 0.4 <= high)
        found.append(bootstrap.p_value(scores["a"] - scores["b"]) < 0.05)
    assert 0.90 < np.mean(held) < 0.98
    assert 0.01 < np.mean(found) < 0.10


def test_all_models_get_the_same_resamples_and_the_key_decides_which(monkeypatch):
    models = {"a": Mean(GOLD, ALL), "b": Mean(2 * GOLD, ALL)}
    rows = bootstrap.resampled(models, ALL, 50, (0,))
    np.testing.assert_allclose(2 * rows["a"], rows["b"])
    alone = bootstrap.resampled({"a": models["a"]}, ALL, 50, (0,))
    np.testing.assert_array_equal(alone["a"], rows["a"])
    assert (bootstrap.resampled(models, ALL, 50, (1,))["a"][1:] != rows["a"][1:]).any()
    monkeypatch.setattr(bootstrap, "AT_A_TIME", 7 * 120)
    parts = bootstrap.resampled(models, ALL, 50, (0,))["a"]
    assert parts.shape == (51,)
    assert len(set(parts)) > 40
