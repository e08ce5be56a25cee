import numpy as np
import polars as pl
import pytest
from published_sets import write_set
from refusals import refuses

from pipeline.data.common.texts import SAMPLE_SCHEMA, text_id
from pipeline.params.gates import SimilarityGate
from pipeline.select.gating.drift import beside_parents, reasons, sample, similarities

DIM = 6


@pytest.fixture
def sets(tmp_path):
    random = np.random.default_rng(0)
    corpus_ids, ids = (np.sort(random.choice(10**6, n, replace=False)).astype(np.uint64) for n in (40, 25))
    corpus, made = (random.standard_normal((n, DIM)).astype(np.float16) for n in (40, 25))
    made[3] = 0
    corpus_set = write_set(tmp_path / "corpus", corpus_ids, {"sentence": corpus}, (7, 20))
    made_set = write_set(tmp_path / "made", ids, {"sentence": made}, (1, 10))
    return corpus_ids, corpus, corpus_set, ids, made, made_set


def test_cosines_are_those_of_each_text_and_its_parent(sets, tmp_path):
    corpus_ids, corpus, corpus_set, ids, made, made_set = sets
    parents = np.random.default_rng(1).choice(40, 25)  # some twice, in no order
    found = similarities(ids, corpus_ids[parents], made_set, corpus_set, tmp_path / "scratch")
    one, other = made.astype(np.float64), corpus[parents].astype(np.float64)
    lengths = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
    expected = (one * other).sum(axis=1) / np.where(lengths == 0, 1, lengths)
    assert found[3] == expected[3] == 0
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_no_more_is_read_than_the_parents(sets, tmp_path):
    corpus_ids, _, corpus_set, ids, _, made_set = sets
    similarities(ids, corpus_ids[[4] * 25], made_set, corpus_set, tmp_path / "scratch")
    assert (tmp_path / "scratch").stat().st_size == DIM * 2


def test_a_text_without_a_vector(sets, tmp_path):
    corpus_ids, _, corpus_set, ids, _, made_set = sets
    parents = np.array([*corpus_ids[:24], 999_999_999], np.uint64)
    with refuses("/corpus ", "1 texts", "text_id 999999999)", "`dvc repro -f encode@corpus`"):
        similarities(ids, parents, made_set, corpus_set, tmp_path / "scratch")


def test_bounds_are_kept():
    found = pl.Series("similarity", [-1, 0.49999, 0.5, 0.9, 0.90001, 1.0], dtype=pl.Float32)
    low, high = ["too_different"] * 2, ["too_similar"] * 2
    expected = [*low, None, None, *high]
    assert reasons(found, SimilarityGate(min_similarity=0.5, max_similarity=0.9)).to_list() == expected
    assert reasons(found, SimilarityGate()).to_list() == [*low, *[None] * 4]
    assert reasons(found, SimilarityGate(min_similarity=-1.0)).to_list() == [None] * 6


def ids_of(words):
    return pl.Series([text_id(word) for word in words], dtype=pl.UInt64)


def test_a_sample_is_spread_over_the_similarities_and_shows_what_was_dropped():
    words = [f"text {number}" for number in range(100)]
    parents = [f"parent of {word}" for word in words]
    table = pl.DataFrame(
        {
            "text_id": ids_of(words),
            "parent_id": ids_of(parents),
            "text": words,
            "similarity": [number / 100 for number in range(100)],
            "dropped": ["too_different"] * 40 + [None] * 60,
        }
    )
    corpus = pl.DataFrame({"text_id": ids_of(parents), "text": parents})
    shuffled = table.sample(fraction=1, shuffle=True, seed=1)
    judged = shuffled.select("similarity", "dropped")
    # Texts and parents come some at a time, and most are of rows that are not in the sample.
    found = beside_parents(judged, sample(judged), shuffled.iter_slices(7), corpus.iter_slices(9))
    assert list(found.columns) == list(SAMPLE_SCHEMA)
    assert found["similarity"].to_list() == [0.1, 0.3, 0.45, 0.55, 0.65, 0.75, 0.85, 0.95]
    assert found["dropped"].to_list() == ["too_different"] * 2 + [None] * 6
    assert found["parent"].to_list() == [f"parent of {text}" for text in found["text"]]
    assert found["text"].to_list() == [f"text {round(100 * one)}" for one in found["similarity"]]
    assert len(sample(judged.tail(3))) == 3
    assert beside_parents(judged.clear(), sample(judged.clear()), [], []).is_empty()
