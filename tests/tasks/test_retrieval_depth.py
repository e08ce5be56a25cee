"""Retrieval that looks further than the first 100 documents."""

import ir_measures
import numpy as np
import polars as pl
import pytest
import pytrec_eval
from ir_measures import AP, R, nDCG
from small_retrieval import SCHEMA, cosines, retrieval_task

from pipeline.params.evaluate import DEEPEST, DEPTH, Evaluate
from pipeline.score.evaluation import items
from pipeline.score.statistics import bootstrap
from pipeline.tasks import ranking, retrieval
from pipeline.tasks.embeddings import Embeddings

QUERIES, DOCUMENTS = 12, 1500


@pytest.fixture(scope="module")
def task():
    return retrieval_task(DOCUMENTS, queries=QUERIES)


def judgements(pairs):
    found = {}
    for query, document, relevance in pairs.drop_nulls("left_id").select(SCHEMA.keys()).iter_rows():
        found.setdefault(str(query), {})[str(document)] = int(relevance)
    return found


def brute_force(embeddings, depth):
    """Query -> document -> cosine, of the nearest documents."""
    every = cosines(embeddings.vectors[:QUERIES], embeddings.vectors[QUERIES:])
    nearest = np.argsort(-every, axis=1)[:, :depth]
    return {
        str(query): {str(row + QUERIES): float(every[query, row]) for row in rows}
        for query, rows in enumerate(nearest)
    }


def by_hand(qrels, run):
    """Recall, average precision and nDCG of whole rankings, by their equations: means over the queries."""
    scores = []
    for query, relevant in qrels.items():
        gains = np.array([relevant.get(document, 0) for document in run[query]])
        hits, places = gains > 0, np.arange(1, len(gains) + 1)
        precision = np.cumsum(hits) / places
        ideal = np.sort([*relevant.values()])[::-1]
        dcg, best = (float((part / np.log2(np.arange(2, len(part) + 2))).sum()) for part in (gains, ideal))
        scores.append((hits.sum() / len(relevant), precision[hits].sum() / len(relevant), dcg / best))
    return dict(zip(("recall", "map", "ndcg"), np.mean(scores, axis=0), strict=True))


@pytest.mark.parametrize("depth", [101, 250, 1000])
def test_scores_at_a_depth_are_trec_evals_ir_measures_and_the_equations(task, depth):
    pairs, embeddings = task
    scores = retrieval.score(pairs, embeddings, depth)
    qrels, run = judgements(pairs), brute_force(embeddings, depth)
    wanted = {"recall", "ndcg_cut", "map_cut"}
    evaluator = pytrec_eval.RelevanceEvaluator(qrels, {f"{name}.{depth}" for name in wanted})
    measured = pl.DataFrame([*evaluator.evaluate(run).values()]).mean().row(0, named=True)
    theirs = ir_measures.calc_aggregate([R @ depth, nDCG @ depth, AP @ depth], qrels, run)
    names = {"recall": (R, "recall"), "ndcg": (nDCG, "ndcg_cut"), "map": (AP, "map_cut")}
    ours = by_hand(qrels, run)
    for name, (measure, cut) in names.items():
        found = scores[f"{name}@{depth}"]
        assert 0.001 < found < 1
        assert found == pytest.approx(measured[f"{cut}_{depth}"], abs=1e-9)
        assert found == pytest.approx(theirs[measure @ depth], abs=1e-9)
        assert found == pytest.approx(ours[name], abs=1e-9)


def test_a_greater_depth_adds_scores_and_changes_none(task):
    usual, deep = retrieval.score(*task), retrieval.score(*task, DEEPEST)
    assert deep.keys() - usual.keys() == {"recall@1000", "ndcg@1000", "map@1000"}
    assert {name: deep[name] for name in usual} == usual
    assert deep["recall@1000"] > usual["recall@100"]


@pytest.mark.parametrize(("relevant", "usual", "deep"), [(390, 0, 1), (190, 1, 0)])
def test_a_greater_depth_ranks_more_of_the_documents_that_tie_at_the_last_place(relevant, usual, deep):
    """All tie and rank by falling names: 101 of them, 100 to 200, are found first."""
    embeddings = Embeddings(np.arange(400, dtype=np.uint64), np.ones((400, 4), np.float32))
    rows = [(0, relevant, 1.0), *((None, document, None) for document in range(100, 400))]
    pairs = pl.DataFrame(rows, schema=SCHEMA, orient="row")
    assert retrieval.score(pairs, embeddings)["recall@100"] == usual
    assert retrieval.score(pairs, embeddings, DEEPEST)["recall@100"] == deep


@pytest.mark.parametrize("at_a_time", [1, 3000])
def test_scores_of_some_queries_at_a_time_are_those_of_all(task, monkeypatch, at_a_time):
    whole = retrieval.score(*task, 250)
    monkeypatch.setattr(ranking, "FOUND_AT_A_TIME", at_a_time)
    assert retrieval.score(*task, 250) == whole


def test_the_items_of_every_score_make_it(task):
    pairs, embeddings = task
    rows = pairs.with_columns(subset=pl.lit(""))
    scores, found = items.score_tasks({"far": rows}, {"far": "retrieval"}, embeddings, {"far": 500})
    made = bootstrap.statistics(found.filter(task="far"), 0)
    assert {"mrr@10", "recall@500", "ndcg@500", "map@500"} < made.keys()
    for metric, statistic in made.items():
        assert statistic(np.ones((1, QUERIES)))[0] == pytest.approx(scores["far"][metric], abs=1e-12)
    usual, _ = items.score_tasks({"far": rows}, {"far": "retrieval"}, embeddings)
    assert usual["far"] == retrieval.score(pairs, embeddings)


@pytest.mark.parametrize("how", ["cosine", "dot", "euclidean", "manhattan"])
@pytest.mark.parametrize("size", [7, 400, DOCUMENTS - 1])
def test_blocks_of_documents_find_what_all_at_once_do(task, monkeypatch, how, size):
    _, plain = task
    embeddings = Embeddings(plain.ids, plain.vectors, how)
    documents, queries = (embeddings.ids[QUERIES:], ranking.searchable(embeddings, embeddings.ids[:QUERIES]))
    whole = ranking.exact([ranking.searchable(embeddings, documents)], queries, 300, how)
    monkeypatch.setattr(ranking, "ROWS_AT_A_TIME", size)
    found = ranking.exact(ranking.in_blocks(embeddings, documents), queries, 300, how)
    np.testing.assert_array_equal(found.rows, whole.rows)
    np.testing.assert_allclose(found.scores, whole.scores, rtol=1e-5, atol=1e-6)
    assert found.tie == whole.tie


@pytest.mark.parametrize("how", ["cosine", "dot", "euclidean", "manhattan"])
@pytest.mark.parametrize("documents", [3 * 1024, 3 * 1024 + 77])
def test_blocks_of_faiss_own_size_give_the_very_scores_of_all_at_once(monkeypatch, how, documents):
    """Of 20 queries on, faiss multiplies matrices, 1,024 documents at a time."""
    _, plain = retrieval_task(documents, dim=384, queries=30)
    embeddings = Embeddings(plain.ids, plain.vectors, how)
    queries = ranking.searchable(embeddings, embeddings.ids[:30])
    whole = ranking.exact([ranking.searchable(embeddings, embeddings.ids[30:])], queries, 300, how)
    assert ranking.ROWS_AT_A_TIME % 1024 == 0
    monkeypatch.setattr(ranking, "ROWS_AT_A_TIME", 1024)
    blocks = [*ranking.in_blocks(embeddings, embeddings.ids[30:])]
    assert [len(block) for block in blocks[:3]] == [1024] * 3
    found = ranking.exact(blocks, queries, 300, how)
    np.testing.assert_array_equal(found.rows, whole.rows)
    np.testing.assert_array_equal(found.scores, whole.scores)
    assert found.tie == whole.tie


def test_fewer_documents_than_are_looked_at(task):
    _, embeddings = task
    few = ranking.in_blocks(embeddings, embeddings.ids[QUERIES : QUERIES + 5])
    found = ranking.exact(few, ranking.searchable(embeddings, embeddings.ids[:2]), 300)
    assert found.rows.shape == found.scores.shape == (2, 5)
    assert sorted(found.rows[0]) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("depth", [DEPTH - 1, DEEPEST + 1])
def test_a_depth_out_of_bounds_is_named(depth):
    task = {"kind": "retrieval", "path": "x", "depth": depth}
    with pytest.raises(ValueError, match=r"tasks\.far\.retrieval\.depth"):
        Evaluate.model_validate({"tasks": {"far": task}})
