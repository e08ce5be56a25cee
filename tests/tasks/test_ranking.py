import numpy as np
import polars as pl
import pytest
import pytrec_eval
from sklearn.preprocessing import normalize
from small_retrieval import SCHEMA, cosines, retrieval_task

from pipeline.tasks import ranking, retrieval
from pipeline.tasks.embeddings import Embeddings
from pipeline.tasks.pairs import PASSED_OVER
from pipeline.tasks.ranking import Found


def nearest(query_vectors, document_vectors, depth=11):
    all_cosines = cosines(query_vectors, document_vectors)
    rows = np.argsort(-all_cosines, axis=1)[:, :depth]
    return Found(np.take_along_axis(all_cosines, rows, axis=1).astype(np.float32), rows)


def test_scores_are_trec_evals():
    pairs, embeddings = retrieval_task()
    found = nearest(embeddings.vectors[:30], embeddings.vectors[30:])
    qrels = {}
    for query, document, relevance in pairs.drop_nulls("left_id").iter_rows():
        qrels.setdefault(str(query), {})[str(document)] = int(relevance)
    run = {
        str(query): {str(30 + row): float(cosine) for row, cosine in zip(rows[:10], values[:10], strict=True)}
        for query, (rows, values) in enumerate(zip(found.rows, found.scores, strict=True))
    }
    measured = pytrec_eval.RelevanceEvaluator(qrels, {"recip_rank", "recall.10", "ndcg_cut.10"}).evaluate(run)
    expected = {
        name: np.mean([values[key] for values in measured.values()])
        for name, key in (("mrr@10", "recip_rank"), ("recall@10", "recall_10"), ("ndcg@10", "ndcg_cut_10"))
    }
    assert ranking.score(ranking.collection(pairs), found) == pytest.approx(expected, abs=1e-9)


def test_a_querys_own_document_is_no_find():
    rows = [(0, 2, 1.0), (0, 0, PASSED_OVER), (1, 1, 1.0)]
    pairs = pl.DataFrame(rows, schema=SCHEMA, orient="row")
    angles = np.radians([0, 10, 30])
    embeddings = Embeddings(np.arange(3, dtype=np.uint64), np.stack([np.cos(angles), np.sin(angles)], axis=1))
    found = nearest(embeddings.vectors[:2], embeddings.vectors)
    scored = ranking.score(ranking.collection(pairs), found)
    # Query 0 finds 1 and then 2; query 1 finds itself.
    assert scored["mrr@10"] == pytest.approx((1 / 2 + 1) / 2)
    own = retrieval.score(pairs, embeddings)
    assert scored == pytest.approx({name: own[name] for name in scored}, abs=1e-12)


def test_of_several_judgements_of_a_document_the_best_counts():
    pairs = pl.DataFrame([(0, 1, 2.0), (0, 1, 1.0), (0, 2, 1.0)], schema=SCHEMA, orient="row")
    assert ranking.collection(pairs).relevance == {"0": {"1": 2, "2": 1}}


def test_what_was_not_found_does_not_count():
    pairs = pl.DataFrame([(0, 1, 1.0), (None, 2, None)], schema=SCHEMA, orient="row")
    found = Found(np.array([[0.5, -3e38]], np.float32), np.array([[1, -1]]))
    assert set(ranking.score(ranking.collection(pairs), found).values()) == {0}


def test_unit_vectors_of_some_rows_at_a_time(monkeypatch):
    monkeypatch.setattr(ranking, "ROWS_AT_A_TIME", 3)
    vectors = np.random.default_rng(0).normal(size=(8, 4)).astype(np.float16)
    vectors[5] = 0
    found = ranking.searchable(
        Embeddings(np.arange(8, dtype=np.uint64), vectors), np.array([7, 1, 5, 2], np.uint64)
    )
    expected = normalize(vectors[[7, 1, 5, 2]].astype(np.float64))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, atol=1e-7)
