from pathlib import Path
from tempfile import TemporaryDirectory

import faiss
import numpy as np
import polars as pl
import pytest
from small_retrieval import SCHEMA, cosines, retrieval_task
from threadpoolctl import threadpool_limits

from pipeline.params.search import FlatIndex, HnswIndex, IvfIndex
from pipeline.score.evaluation.searches import indexes
from pipeline.tasks import ranking, retrieval
from pipeline.tasks.embeddings import Embeddings

FLAT = FlatIndex(kind="flat")
SCORES = ("mrr@10", "recall@10", "ndcg@10")
QUERIES, DIM = 30, 6


def row(spec, pairs, embeddings):
    with TemporaryDirectory() as folder:
        (found,) = indexes.score_tasks({"find": pairs}, {"student": embeddings}, [spec], Path(folder))
    return found


def scores(found):
    return {name: found[name] for name in SCORES}


def vectors_of(embeddings):
    """Queries and documents."""
    return embeddings.vectors[:QUERIES], embeddings.vectors[QUERIES:]


def test_exact_search_scores_as_the_task_itself():
    pairs, embeddings = retrieval_task()
    expected = retrieval.score(pairs, embeddings)
    found = row(FLAT, pairs, embeddings)
    assert scores(found) == pytest.approx({name: expected[name] for name in SCORES}, abs=1e-12)
    assert found["exact@10"] == 1
    assert {key: found[key] for key in ("task", "model", "index", "documents", "dim")} == {
        "task": "find",
        "model": "student",
        "index": "flat",
        "documents": 250,
        "dim": DIM,
    }


def test_ivf_that_looks_into_all_lists_is_exact():
    pairs, embeddings = retrieval_task()
    found = row(IvfIndex(kind="ivf", nlist=6, nprobe=6), pairs, embeddings)
    assert (found["nlist"], found["nprobe"], found["exact@10"]) == (6, 6, 1)
    assert scores(found) == pytest.approx(scores(row(FLAT, pairs, embeddings)), abs=1e-12)


def test_ivf_finds_the_nearest_in_the_lists_of_the_nearest_centroids():
    pairs, embeddings = retrieval_task()
    spec = IvfIndex(kind="ivf", nlist=6, nprobe=2)
    queries, documents = vectors_of(embeddings)
    index = indexes.build(spec, ranking.searchable(embeddings, embeddings.ids[QUERIES:]))
    centroids = index.quantizer.reconstruct_n(0, 6)
    of_document = cosines(documents, centroids).argmax(axis=1)
    searched = np.argsort(-cosines(queries, centroids), axis=1)[:, :2]
    all_cosines = cosines(queries, documents)
    shares = []
    for query in range(QUERIES):
        seen = np.flatnonzero(np.isin(of_document, searched[query]))
        found = seen[np.argsort(-all_cosines[query, seen])][:10]
        nearest = np.argsort(-all_cosines[query])[:10]
        shares.append(len(np.intersect1d(found, nearest)) / 10)
    assert 0.3 < np.mean(shares) < 0.95
    assert row(spec, pairs, embeddings)["exact@10"] == pytest.approx(np.mean(shares))


@pytest.mark.parametrize(("documents", "nlist"), [(5, 1), (39, 1), (78, 2), (250, 6)])
def test_a_small_corpus_has_as_many_lists_as_39_documents(documents, nlist, capfd):
    _, embeddings = retrieval_task(documents=documents, queries=3 if documents > 10 else 0)
    unit = ranking.searchable(embeddings, embeddings.ids[-documents:])
    described = indexes.described(IvfIndex(kind="ivf"), unit)
    assert (described["nlist"], described["nprobe"]) == (nlist, min(5, nlist))
    assert indexes.build(IvfIndex(kind="ivf"), unit).nlist == nlist
    assert "WARNING" not in capfd.readouterr().err


def test_a_large_corpus_has_hpds_lists():
    unit = np.zeros((1024 * 39, 1), np.float32)
    assert indexes.described(IvfIndex(kind="ivf"), unit)["nlist"] == 1024


def test_hnsw_finds_nearly_all_and_more_with_more_candidates():
    pairs, embeddings = retrieval_task(documents=1500, dim=24)
    few, many = (
        row(HnswIndex(kind="hnsw", m=4, ef_construction=20, ef_search=ef), pairs, embeddings)
        for ef in (11, 200)
    )
    assert few["exact@10"] < many["exact@10"] <= 1
    assert many["exact@10"] > 0.95
    assert (many["m"], many["ef_construction"], many["ef_search"]) == (4, 20, 200)
    default = row(HnswIndex(kind="hnsw"), pairs, embeddings)
    assert default["exact@10"] > 0.97
    assert scores(default) == pytest.approx(scores(row(FLAT, pairs, embeddings)), abs=0.03)


def test_an_index_is_the_same_every_time():
    pairs, embeddings = retrieval_task(documents=600, dim=16)
    spec = HnswIndex(kind="hnsw", m=4, ef_search=11)
    assert row(spec, pairs, embeddings) == row(spec, pairs, embeddings)


def test_one_thread_builds_an_index(monkeypatch):
    threads, build = [], indexes.build

    def watched(*asked):
        threads.append(faiss.omp_get_max_threads())
        return build(*asked)

    monkeypatch.setattr(indexes, "build", watched)
    with threadpool_limits(2):
        row(HnswIndex(kind="hnsw"), *retrieval_task())
        assert faiss.omp_get_max_threads() == 2
    assert threads == [1]


@pytest.mark.parametrize("spec", [FLAT, IvfIndex(kind="ivf"), HnswIndex(kind="hnsw")])
def test_bytes_are_those_of_the_file(spec, tmp_path):
    pairs, embeddings = retrieval_task()
    index = indexes.build(spec, ranking.searchable(embeddings, embeddings.ids[QUERIES:]))
    faiss.write_index(index, str(tmp_path / "index"))
    size = (tmp_path / "index").stat().st_size
    assert row(spec, pairs, embeddings)["bytes"] == size >= 250 * DIM * 4


def test_of_documents_that_tie_any_will_do():
    # Forty copies of one document, and another: which ten of the copies are found is chance.
    vectors = np.vstack([[[1.0, 0.1]], np.tile([[1.0, 0.0]], (40, 1)), [[0.0, 1.0]]])
    rows = [(0, 1, 1.0), *((None, document, None) for document in range(2, 42))]
    pairs = pl.DataFrame(rows, schema=SCHEMA, orient="row")
    embeddings = Embeddings(np.arange(42, dtype=np.uint64), vectors)
    assert row(HnswIndex(kind="hnsw"), pairs, embeddings)["exact@10"] == 1


def test_a_search_that_finds_fewer_than_ten_is_scored_by_them():
    # Two lists, and the query looks into the one with its relevant document and four others.
    rng = np.random.default_rng(0)
    groups = [np.array([1.0, 0.0]), np.array([0.0, 1.0])]
    parts = [groups[0] + 0.01 * rng.normal(size=(5, 2)), groups[1] + 0.01 * rng.normal(size=(80, 2))]
    vectors = np.vstack([[groups[0]], *parts])
    rows = [(0, 1, 1.0), *((None, document, None) for document in range(2, 86))]
    pairs = pl.DataFrame(rows, schema=SCHEMA, orient="row")
    embeddings = Embeddings(np.arange(86, dtype=np.uint64), vectors)
    found = row(IvfIndex(kind="ivf", nlist=2, nprobe=1), pairs, embeddings)
    assert found["recall@10"] == 1
    assert found["exact@10"] == 0.5
