import numpy as np
import polars as pl
import pytest
from scipy.spatial.distance import cosine
from scipy.stats import pearsonr, spearmanr

from pipeline.tasks import sts
from pipeline.tasks.embeddings import Embeddings

RNG = np.random.default_rng(0)
IDS = np.arange(100, 160, dtype=np.uint64)
VECTORS = RNG.normal(size=(60, 8)).astype(np.float32)
LEFT, RIGHT = RNG.choice(IDS, 90), RNG.choice(IDS, 90)
SUBSETS = np.repeat(["news", "images", "forum"], [50, 30, 10])
COSINES = np.array(
    [
        1 - cosine(*VECTORS[[left - 100, right - 100]].astype(float))
        for left, right in zip(LEFT, RIGHT, strict=True)
    ]
)
GOLD = np.round(COSINES * 2 + RNG.normal(size=90)).astype(np.float32)  # rounded, so that there are ties


def pairs(rows=slice(None), gold=GOLD, subsets=SUBSETS):
    columns = {"left_id": LEFT, "right_id": RIGHT, "score": gold, "subset": subsets}
    return pl.DataFrame({name: values[rows] for name, values in columns.items()})


@pytest.fixture
def embeddings():
    return Embeddings(IDS, VECTORS)


def test_all_pairs_together_are_scipys_correlations(embeddings):
    scores = sts.score(pairs(), embeddings)
    assert scores["spearman"] == pytest.approx(spearmanr(COSINES, GOLD).statistic, abs=1e-9)
    assert scores["pearson"] == pytest.approx(pearsonr(COSINES, GOLD).statistic, abs=1e-9)
    assert scores["pairs"] == 90
    assert 0.2 < scores["spearman"] < 0.99


def test_the_mean_over_subsets_weighs_each_alike(embeddings):
    parts = [spearmanr(COSINES[SUBSETS == name], GOLD[SUBSETS == name]).statistic for name in set(SUBSETS)]
    scores = sts.score(pairs(), embeddings)
    assert scores["spearman_mean"] == pytest.approx(np.mean(parts), abs=1e-9)
    assert scores["spearman_mean"] != pytest.approx(scores["spearman"], abs=1e-3)


def test_one_subset_gives_the_same_by_both_conventions(embeddings):
    scores = sts.score(pairs(slice(0, 50)), embeddings)
    assert scores["spearman_mean"] == scores["spearman"]


def test_neither_the_order_of_the_pairs_nor_the_length_of_the_vectors_matters(embeddings):
    scaled = Embeddings(IDS, VECTORS * RNG.uniform(0.1, 9, (60, 1)))
    again = sts.score(pairs().sample(fraction=1, shuffle=True, seed=1), scaled)
    assert again == pytest.approx(sts.score(pairs(), embeddings), abs=1e-6)


def test_perfect_and_reversed_rankings(embeddings):
    assert sts.score(pairs(gold=np.exp(COSINES)), embeddings)["spearman"] == pytest.approx(1)
    assert sts.score(pairs(gold=-COSINES), embeddings)["pearson"] == pytest.approx(-1)


@pytest.mark.parametrize("vector", [np.zeros(384), np.random.default_rng(1).normal(size=384)])
def test_a_collapsed_model_scores_0(vector):
    scores = sts.score(pairs(), Embeddings(IDS, np.tile(vector, (60, 1)).astype(np.float32)))
    assert scores == {"spearman": 0, "spearman_mean": 0, "pearson": 0, "pairs": 90}


def test_constant_scores_give_0(embeddings):
    scores = sts.score(pairs(gold=np.full(90, 3.0)), embeddings)
    assert (scores["spearman"], scores["spearman_mean"], scores["pearson"]) == (0, 0, 0)


@pytest.mark.parametrize("lone", [1, 7])
def test_a_subset_that_ranks_nothing_is_left_out_of_the_mean(embeddings, lone):
    """A single pair, or several of one score."""
    rest = 90 - lone
    subsets = np.array(["a"] * 50 + ["b"] * (rest - 50) + ["lone"] * lone)
    gold = np.append(GOLD[:rest], np.full(lone, 2, np.float32))
    scores = sts.score(pairs(subsets=subsets, gold=gold), embeddings)
    parts = [spearmanr(COSINES[part], GOLD[part]).statistic for part in (slice(50), slice(50, rest))]
    assert scores["spearman_mean"] == pytest.approx(np.mean(parts), abs=1e-9)


def test_a_model_that_ranks_nothing_in_a_subset_has_0_there():
    table = pairs(subsets=np.where(np.arange(90) < 50, "a", "b"))
    found = sts.scores(table, np.append(COSINES[:50], np.ones(40)))
    assert found["spearman_mean"] == pytest.approx(spearmanr(COSINES[:50], GOLD[:50]).statistic / 2, abs=1e-9)


def test_without_a_subset_that_ranks_anything_the_mean_is_0(embeddings):
    scores = sts.score(pairs(subsets=np.arange(90).astype(str)), embeddings)
    assert scores["spearman_mean"] == 0
    assert scores["spearman"] > 0
