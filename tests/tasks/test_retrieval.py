import numpy as np
import polars as pl
import pytest
import pytrec_eval

from pipeline.tasks import ranking, retrieval
from pipeline.tasks.embeddings import Embeddings
from pipeline.tasks.pairs import PASSED_OVER

SCHEMA = {"left_id": pl.UInt64, "right_id": pl.UInt64, "score": pl.Float32}
ANGLES = np.radians([0, 5, 10, 20, 40, 80, 120])
ON_A_CIRCLE = Embeddings(np.arange(7, dtype=np.uint64), np.stack([np.cos(ANGLES), np.sin(ANGLES)], axis=1))


def score(rows, embeddings=ON_A_CIRCLE):
    return retrieval.score(pl.DataFrame(rows, schema=SCHEMA, orient="row"), embeddings)


def test_a_case_worked_out_by_hand():
    # Query 0 sees the documents 1 to 6 in this order. Relevant: 2 (3, second), 5 (1, fifth).
    scores = score([(0, 2, 3), (0, 5, 1), *((None, document, None) for document in (1, 3, 4, 6))])
    ideal = 3 / np.log2(2) + 1 / np.log2(3)
    assert scores == {
        "mrr@10": pytest.approx(1 / 2),
        "recall@1": 0,
        "recall@10": 1,
        "recall@100": 1,
        "ndcg@10": pytest.approx((3 / np.log2(3) + 1 / np.log2(6)) / ideal),
        "queries": 1,
        "documents": 6,
    }


@pytest.mark.parametrize("depth", [10, 100])
@pytest.mark.parametrize("beyond", [0, 1])
def test_a_querys_own_document_takes_no_place_of_the_documents_that_are_looked_at(depth, beyond):
    """Of the other documents the relevant one is the tenth, or hundredth, or the one behind it."""
    angles = np.radians(np.linspace(0, 90, depth + 20))
    ids = np.arange(depth + 20, dtype=np.uint64)
    embeddings = Embeddings(ids, np.stack([np.cos(angles), np.sin(angles)], axis=1))
    others = ((None, document, None) for document in range(depth + 20))
    rows = [(0, depth + beyond, 1), (0, 0, PASSED_OVER), *others]
    assert score(rows, embeddings)[f"recall@{depth}"] == 1 - beyond
    task = ranking.collection(pl.DataFrame(rows, schema=SCHEMA, orient="row"))
    sides = [ranking.searchable(embeddings, wanted) for wanted in (task.documents, task.queries)]
    assert ranking.score(task, ranking.exact([sides[0]], sides[1]))["recall@10"] == (depth + beyond == 10)


def test_recall_counts_every_relevant_document_and_queries_weigh_alike():
    # Query 0 finds 1 first and 6 last. Query 3, at 20 degrees, finds 2 (10), 1 (5) and then 4 (40).
    scores = score([(0, 1, 1), (0, 6, 1), (3, 4, 1), (None, 2, None)])
    assert scores["recall@1"] == pytest.approx((1 / 2 + 0) / 2)
    assert scores["mrr@10"] == pytest.approx((1 + 1 / 3) / 2)
    assert (scores["queries"], scores["documents"]) == (2, 4)


def test_a_query_whose_document_is_not_found_counts_as_0():
    angles = np.linspace(0, np.pi, 203)
    circle = Embeddings(np.arange(203, dtype=np.uint64), np.stack([np.cos(angles), np.sin(angles)], axis=1))
    # The documents are 2 to 202: query 0's is the farthest of them, query 1's the nearest.
    scores = score([(0, 202, 1), (1, 2, 1), *((None, other, None) for other in range(3, 202))], circle)
    assert set(scores.values()) == {0.5, 2, 201}


def brute_force(queries, documents, vectors):
    """Every document's cosine by every query, one at a time."""
    unit = {row: vector / np.sqrt((vector**2).sum()) for row, vector in enumerate(vectors.astype(np.float64))}
    return {
        str(query): {str(document): float(unit[query] @ unit[document]) for document in documents}
        for query in queries
    }


def test_scores_are_trec_evals_on_a_brute_force_ranking():
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(280, 6)).astype(np.float32)
    queries, documents = range(30), range(30, 280)
    judged = [
        (query, int(document), int(rng.integers(1, 4)))
        for query in queries
        for document in rng.choice(documents, rng.integers(1, 8), replace=False)
    ]
    others = set(documents) - {document for _, document, _ in judged}
    rows = [*judged, *((None, document, None) for document in others)]
    found = score(rows, Embeddings(np.arange(280, dtype=np.uint64), vectors))

    qrels = {str(query): {} for query in queries}
    for query, document, relevance in judged:
        qrels[str(query)][str(document)] = relevance
    run = brute_force(queries, documents, vectors)
    nearest = {query: dict(sorted(row.items(), key=lambda item: -item[1])[:10]) for query, row in run.items()}
    measured = pytrec_eval.RelevanceEvaluator(qrels, {"recall.1,10,100", "ndcg_cut.10"}).evaluate(run)
    ranks = pytrec_eval.RelevanceEvaluator(qrels, {"recip_rank"}).evaluate(nearest)
    expected = {
        name: np.mean([values[key] for values in measured.values()])
        for name, key in (
            ("recall@1", "recall_1"),
            ("recall@10", "recall_10"),
            ("recall@100", "recall_100"),
            ("ndcg@10", "ndcg_cut_10"),
        )
    }
    expected["mrr@10"] = np.mean([values["recip_rank"] for values in ranks.values()])
    assert found == pytest.approx({**expected, "queries": 30, "documents": 250}, abs=1e-6)


def test_a_fractional_relevance_above_0_is_relevant():
    assert score([(0, 1, 0.5), (None, 2, None)])["recall@1"] == 1
