import weakref

import faiss
import numpy as np
import pytest
from small_retrieval import retrieval_task

from pipeline.params.search import FlatIndex, HnswIndex, IvfIndex
from pipeline.score.evaluation.searches import indexes
from pipeline.score.search import search_times
from pipeline.score.search.search_times import Plan, measure
from pipeline.tasks.embeddings import Embeddings

SPECS = [FlatIndex(kind="flat"), IvfIndex(kind="ivf"), HnswIndex(kind="hnsw")]


def test_every_index_of_every_model_is_measured(tmp_path):
    pairs, small = retrieval_task(dim=6)
    _, large = retrieval_task(dim=12)
    rows = measure(
        {"find": pairs}, [("teacher", large), ("tiny", small)], SPECS, Plan(rounds=2, threads=1), tmp_path
    )
    assert [(row["index"], row["model"], row["dim"]) for row in rows] == [
        (spec.kind, model, dim) for spec in SPECS for model, dim in (("teacher", 12), ("tiny", 6))
    ]
    for row in rows:
        assert (row["task"], row["documents"], row["queries"]) == ("find", 250, 30)
        assert row["build_seconds"] > 0
        assert row["ms_per_1000_queries"] > 0
    assert (rows[2]["nlist"], rows[2]["nprobe"]) == (6, 5)


def test_times_are_medians_of_rounds_that_take_turns(monkeypatch, tmp_path):
    pairs, embeddings = retrieval_task()
    seconds = {6: iter([(9, 9), (1, 0.3), (5, 0.9), (2, 0.6)]), 12: iter([(9, 9), (10, 3), (30, 9), (20, 6)])}
    order = []

    def time(spec, documents, queries, how):
        order.append((documents.shape, queries.shape))
        return next(seconds[documents.shape[1]])

    monkeypatch.setattr(search_times, "_time", time)
    models = [("teacher", retrieval_task(dim=12)[1]), ("tiny", embeddings)]
    teacher, tiny = measure({"find": pairs}, models, SPECS[:1], Plan(rounds=3, threads=1), tmp_path)
    assert (
        order == [((64, 12), (30, 12)), ((64, 6), (30, 6))] + [((250, 12), (30, 12)), ((250, 6), (30, 6))] * 3
    )
    assert (tiny["build_seconds"], teacher["build_seconds"]) == (2, 20)
    assert tiny["build_spread"] == pytest.approx(1.5)  # 1, 5 and 2 seconds
    assert tiny["ms_per_1000_queries"] == pytest.approx(0.6 / 30 * 1000 * 1000)


@pytest.mark.parametrize("threads", [1, 3])
def test_threads_are_the_planned_ones_and_are_restored(threads, monkeypatch, tmp_path):
    pairs, embeddings = retrieval_task()
    before, seen, build = faiss.omp_get_max_threads(), set(), indexes.build

    def watched(*asked):
        seen.add(faiss.omp_get_max_threads())
        return build(*asked)

    monkeypatch.setattr(indexes, "build", watched)
    measure({"find": pairs}, [("tiny", embeddings)], SPECS, Plan(rounds=1, threads=threads), tmp_path)
    assert seen == {threads}
    assert faiss.omp_get_max_threads() == before


def test_no_more_than_a_thousand_queries_are_timed(tmp_path):
    pairs, embeddings = retrieval_task(queries=1100, documents=60, dim=2)
    (row,) = measure({"find": pairs}, [("tiny", embeddings)], SPECS[:1], Plan(rounds=1, threads=1), tmp_path)
    assert row["queries"] == 1000
    assert np.isfinite(row["ms_per_1000_queries"])


def test_the_vectors_timed_are_the_units_of_the_tasks_own_texts(monkeypatch, tmp_path):
    tasks, models, timed = {}, [], []
    for seed, (model, dim) in enumerate([("teacher", 12), ("tiny", 6)]):
        models.append((model, retrieval_task(dim=dim, seed=seed)[1]))
    for name, documents in (("find", 250), ("other", 200)):
        tasks[name] = retrieval_task(documents=documents)[0]

    def time(_spec, documents, queries, how):
        timed.append((isinstance(documents, np.memmap), documents.copy(), queries))
        return 1, 1

    monkeypatch.setattr(search_times, "_time", time)
    rows = measure(tasks, iter(models), SPECS[:1], Plan(rounds=1, threads=1), tmp_path)
    assert [(row["task"], row["model"], row["documents"]) for row in rows] == [
        (name, model, documents)
        for name, documents in (("find", 250), ("other", 200))
        for model in ("teacher", "tiny")
    ]
    whole = [given for given in timed if len(given[1]) > search_times.WARM_UP]
    assert len(whole) == 4
    assert all(in_file for in_file, _, _ in whole)
    for row, (_, documents, queries) in zip(rows, whole, strict=True):
        vectors = dict(models)[row["model"]].vectors[: 30 + row["documents"]]
        units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        assert documents == pytest.approx(units[30:], abs=1e-6)
        assert queries == pytest.approx(units[:30], abs=1e-6)


def test_one_models_vectors_are_held_at_a_time(tmp_path):
    pairs, embeddings = retrieval_task()
    alive = []

    def models():
        for name in ("one", "two", "three"):
            assert all(left() is None for left in alive)
            made = Embeddings(embeddings.ids, embeddings.vectors.copy())
            alive.append(weakref.ref(made.vectors))
            yield name, made
            del made

    assert len(measure({"find": pairs}, models(), SPECS[:1], Plan(rounds=1, threads=1), tmp_path)) == 3
    assert len(alive) == 3
    assert len([*tmp_path.iterdir()]) == 3
