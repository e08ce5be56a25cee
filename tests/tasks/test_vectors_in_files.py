"""Vectors of evaluation texts in files: they are read as those in memory are."""

from dataclasses import replace

import mapped_pages
import numpy as np
import pytest
from refusals import refuses
from small_disk import disk_of
from small_retrieval import retrieval_task

from pipeline.tasks import embeddings as module
from pipeline.tasks import retrieval
from pipeline.tasks.embeddings import Embeddings, in_file

IDS = np.arange(3, 103, dtype=np.uint64)
VECTORS = np.random.default_rng(0).standard_normal((100, 8)).astype(np.float32)


def blocks(kind=np.float32):
    return (VECTORS[start : start + 32].astype(kind) for start in range(0, 100, 32))


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_a_file_holds_the_vectors_as_float32(tmp_path, kind):
    found = in_file(tmp_path / "x.bin", IDS, blocks(kind), "dot")
    assert isinstance(found.vectors, np.memmap)
    assert (found.dim, found.similarity) == (8, "dot")
    wanted = IDS[[5, 99, 5, 0]]
    assert not isinstance(found.of(wanted), np.memmap)
    np.testing.assert_array_equal(found.of(wanted), VECTORS[[5, 99, 5, 0]].astype(kind))


def test_a_file_that_is_made_anew_leaves_what_was_mapped_before(tmp_path):
    before = in_file(tmp_path / "x.bin", IDS, blocks())
    after = in_file(tmp_path / "x.bin", IDS[:1], iter([np.ones((1, 2))]))
    np.testing.assert_array_equal(before.vectors, VECTORS)
    assert after.vectors.tolist() == [[1, 1]]


def test_a_full_disk_names_the_file(tmp_path):
    with refuses(tmp_path / "x.bin", "cannot be written", "File too large"), disk_of(1000):
        in_file(tmp_path / "x.bin", IDS, blocks())


def test_a_change_is_made_to_vectors_some_at_a_time(monkeypatch):
    sizes = []

    def doubled(rows):
        sizes.append(len(rows))
        return np.hstack([rows, rows])

    monkeypatch.setattr(module, "CHANGED_AT_A_TIME", 40)
    found = Embeddings(IDS, VECTORS, change=doubled)
    np.testing.assert_array_equal(found.of(IDS), np.hstack([VECTORS, VECTORS]))
    assert sizes == [40, 40, 20]
    assert found.of(IDS[:0]).shape == (0, 16)
    assert found.dim == 16


@mapped_pages.told
@pytest.mark.parametrize("change", [None, lambda rows: rows * 2])
def test_what_was_asked_for_leaves_no_page_of_the_file_in_memory(tmp_path, change):
    found = replace(in_file(tmp_path / "x.bin", IDS, blocks()), change=change)
    for wanted in (IDS, IDS[5:6]):
        expected = VECTORS[wanted - IDS[0]]
        np.testing.assert_array_equal(found.of(wanted), change(expected) if change else expected)
        assert mapped_pages.resident(tmp_path / "x.bin") == 0
    assert found.vectors[0].any()
    assert mapped_pages.resident(tmp_path / "x.bin") > 0


def test_retrieval_scores_the_same_from_a_file(tmp_path):
    pairs, in_memory = retrieval_task()
    filed = in_file(tmp_path / "x.bin", in_memory.ids, iter([in_memory.vectors.astype(np.float32)]))
    as_float32 = Embeddings(in_memory.ids, in_memory.vectors.astype(np.float32))
    assert retrieval.score(pairs, filed) == retrieval.score(pairs, as_float32)
