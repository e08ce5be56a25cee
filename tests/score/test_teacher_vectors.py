"""The teacher's vectors and the texts that are scored, from the tasks' own and from the corpus."""

import numpy as np
import polars as pl
import pytest
from published_sets import write_set

from pipeline.data.common import texts
from pipeline.encoders import packed_model
from pipeline.score.evaluation import teacher_vectors
from pipeline.score.evaluation.searches import shipped
from pipeline.score.evaluation.teacher_vectors import TeacherVectors
from pipeline.vectors.space import pca
from pipeline.vectors.space.pca import Pca

COUNT, DIM = 300, 6


def table_of(sentences):
    ids = texts.text_ids(sentences)
    return pl.DataFrame({"text_id": ids, "text": sentences, "role": "text"}).sort("text_id")


@pytest.mark.parametrize("only", ["both", "tasks", "corpus"])
def test_vectors_of_two_sets_stand_by_rising_id(tmp_path, only):
    random = np.random.default_rng(0)
    ids = np.sort(random.choice(10_000, COUNT, replace=False)).astype(np.uint64)
    vectors = random.standard_normal((COUNT, DIM)).astype(np.float16)
    tasks = random.random(COUNT) < {"both": 0.7, "tasks": 1.1, "corpus": -1}[only]
    sources = []
    for name, own in (("eval", tasks), ("corpus", ~tasks)):
        if own.any():
            cuts = [own.sum() // 3, own.sum() // 2]
            sources.append((write_set(tmp_path / name, ids[own], {"sentence": vectors[own]}, cuts), ids[own]))
    cached = TeacherVectors(sources, ids, tmp_path)
    found = cached.of("sentence")
    np.testing.assert_array_equal(found.vectors, vectors.astype(np.float32))
    assert cached.of("sentence") is found


def test_a_shorter_students_targets_are_principal_components(tmp_path, monkeypatch):
    monkeypatch.setattr(teacher_vectors, "ROWS_AT_A_TIME", 70)
    ids, random = np.arange(COUNT, dtype=np.uint64), np.random.default_rng(0)
    vectors = random.standard_normal((COUNT, DIM)).astype(np.float16)
    source = write_set(tmp_path / "eval", ids, {"sentence": vectors})
    fitted = Pca(
        random.standard_normal(DIM), np.linalg.qr(random.standard_normal((DIM, DIM)))[0], np.ones(DIM)
    )
    (tmp_path / "pca").mkdir()
    pca.write(fitted, tmp_path / "pca" / "sentence.safetensors")
    cached = TeacherVectors([(source, ids)], ids, tmp_path)
    assert cached.target("sentence", DIM, tmp_path) is cached.of("sentence")
    target = cached.target("sentence", 4, tmp_path / "pca")
    np.testing.assert_allclose(target.vectors, fitted.reduce(vectors, 4), atol=1e-6)


def test_the_texts_that_are_scored_come_from_both_files(tmp_path, monkeypatch):
    monkeypatch.setattr(texts, "ROWS_AT_A_TIME", 40)
    sentences = [f"sentence {number}" for number in range(200)]
    texts.write(table_of(sentences[:120]), texts.LABELLED_SCHEMA, tmp_path / "eval.parquet")
    more, wanted = table_of(sentences[100:180]), table_of(sentences[20:170])
    out = tmp_path / "texts.parquet"
    shipped.write_texts(tmp_path / "eval.parquet", more, wanted["text_id"].to_numpy(), out)
    assert texts.read_labelled(out).equals(wanted)


@pytest.mark.parametrize("size", [1, 7, 16, 500])
def test_windows_do_not_depend_on_the_blocks(monkeypatch, size):
    monkeypatch.setattr(packed_model, "TEXTS_AT_A_TIME", 16)
    lengths = np.random.default_rng(0).integers(1, 60, 150)
    given = ["x" * length for length in lengths.tolist()]
    whole = [given[start:stop] for start, stop in packed_model.windows(given, 200)]
    blocks = [given[start : start + size] for start in range(0, len(given), size)]
    assert [*shipped._cut(blocks, 200)] == whole
