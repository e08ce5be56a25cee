"""Indexes that leave the documents in files."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import faiss
import mapped_pages
import numpy as np
import pytest
from refusals import refuses
from small_disk import disk_of
from small_retrieval import retrieval_task

from pipeline.core import memory
from pipeline.params.search import FlatIndex, HnswIndex, IvfIndex
from pipeline.score.evaluation.searches import indexes, mapped
from pipeline.score.search import search_times
from pipeline.tasks.embeddings import Embeddings

DOCUMENTS, DIM = 3000, 12
IVF = IvfIndex(kind="ivf", nlist=40, nprobe=3)
ALL_LISTS = IvfIndex(kind="ivf", nlist=70, nprobe=70)
SPECS = [FlatIndex(kind="flat"), IVF, ALL_LISTS]


def sides(folder, how="cosine", copies=1):
    """Documents in a file, and queries."""
    _, embeddings = retrieval_task(documents=DOCUMENTS, dim=DIM)
    documents = np.concatenate([embeddings.vectors[30:]] * copies)
    one = Embeddings(np.arange(len(documents), dtype=np.uint64), documents, how)
    return indexes.stored(one, one.ids, folder / "documents.bin"), embeddings.vectors[:30]


@pytest.mark.parametrize("how", ["cosine", "dot", "euclidean", "manhattan"])
@pytest.mark.parametrize("spec", SPECS)
def test_an_index_in_files_finds_what_one_in_memory_finds(spec, how, tmp_path, monkeypatch):
    # Half of the documents are copies of the others, so that many tie; and blocks are short.
    documents, queries = sides(tmp_path, how, copies=2)
    inside = indexes.build(spec, documents, how)
    monkeypatch.setattr(mapped, "IN_MEMORY", documents.nbytes - 1)
    monkeypatch.setattr(mapped, "ROWS_AT_A_TIME", 700)
    outside = indexes.build(spec, documents, how)
    assert isinstance(outside, mapped.Flat) or isinstance(
        faiss.downcast_InvertedLists(outside.invlists), faiss.OnDiskInvertedLists
    )
    expected, found = indexes.search(inside, queries), indexes.search(outside, queries)
    np.testing.assert_array_equal(found.rows, expected.rows)
    np.testing.assert_array_equal(found.scores, expected.scores)
    assert indexes.saved_bytes(outside) == indexes.saved_bytes(inside)


@mapped_pages.told
@pytest.mark.parametrize("in_memory", [0, mapped.IN_MEMORY])
@pytest.mark.parametrize("spec", [*SPECS, HnswIndex(kind="hnsw")])
def test_neither_to_build_nor_to_search_leaves_a_page_of_the_documents_in_memory(
    spec, in_memory, tmp_path, monkeypatch
):
    monkeypatch.setattr(mapped, "IN_MEMORY", in_memory)
    documents, queries = sides(tmp_path)
    assert documents.any()
    assert mapped_pages.resident(tmp_path / "documents.bin") > 0
    memory.let_go(documents)
    index = indexes.build(spec, documents)
    assert mapped_pages.resident(tmp_path / "documents.bin") == 0
    indexes.search(index, queries)
    assert mapped_pages.resident(tmp_path / "documents.bin") == 0


def test_few_documents_and_graphs_are_copied(tmp_path, monkeypatch):
    documents, _ = sides(tmp_path)
    assert type(indexes.build(SPECS[0], documents)) is faiss.IndexFlat
    monkeypatch.setattr(mapped, "IN_MEMORY", 0)
    assert isinstance(indexes.build(HnswIndex(kind="hnsw"), documents), faiss.IndexHNSWFlat)
    assert type(indexes.build(SPECS[0], np.array(documents))) is faiss.IndexFlat  # lies in no file


def test_the_bytes_of_lists_of_which_most_are_empty(tmp_path):
    documents, _ = sides(tmp_path)
    index = faiss.IndexIVFFlat(faiss.IndexFlat(DIM), DIM, 9)
    far = np.full((9, DIM), 1e3, np.float32)
    far[0] = 0
    index.quantizer.add(far)
    index.is_trained = True
    mapped.add(index, documents)
    plain = faiss.IndexIVFFlat(index.quantizer, DIM, 9)
    plain.add(documents)
    assert plain.invlists.list_size(0) == DOCUMENTS
    assert indexes.saved_bytes(index) == indexes.saved_bytes(plain)


def test_the_lists_have_no_name_and_their_room_is_given_back(tmp_path, monkeypatch):
    monkeypatch.setattr(mapped, "IN_MEMORY", 0)
    documents, queries = sides(tmp_path)
    index = indexes.build(IVF, documents)
    assert os.listdir(tmp_path) == ["documents.bin"]
    assert lists_mapped() == 1
    assert indexes.search(index, queries).rows.min() >= 0
    del index
    assert lists_mapped() == 0


def lists_mapped():
    """How many files of lists this process still maps."""
    return Path("/proc/self/maps").read_text().count("documents.lists")


def test_a_full_disk_is_told_and_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(mapped, "IN_MEMORY", 0)
    documents, _ = sides(tmp_path)
    with disk_of(documents.nbytes // 2), refuses("documents.lists cannot be written", "same command again"):
        indexes.build(IVF, documents)
    assert os.listdir(tmp_path) == ["documents.bin"]


def test_a_killed_build_leaves_what_the_next_run_removes(tmp_path):
    code = """
        import os, signal, sys
        from pathlib import Path
        import numpy as np
        from pipeline.core.atomic import scratch_folder
        from pipeline.params.search import IvfIndex
        from pipeline.score.evaluation.searches import indexes, mapped
        from pipeline.tasks.embeddings import Embeddings
        mapped.IN_MEMORY = 0
        write = mapped._write
        def killed(*told):
            write(*told)
            print(told[0], flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        mapped._write = killed
        with scratch_folder(Path(sys.argv[1]) / "evaluate-tiny") as folder:
            one = Embeddings(np.arange(200, dtype=np.uint64), np.eye(200, dtype=np.float32))
            documents = indexes.stored(one, one.ids, folder / "documents.bin")
            indexes.build(IvfIndex(kind="ivf"), documents)
    """
    told = [sys.executable, "-c", textwrap.dedent(code), str(tmp_path)]
    done = subprocess.run(told, capture_output=True, text=True, check=False)
    left = Path(done.stdout.strip())
    assert left.name == "documents.lists", done.stderr
    assert left.exists()
    from pipeline.core.atomic import scratch_folder

    with scratch_folder(tmp_path / "evaluate-tiny"):
        assert not left.exists()


@pytest.mark.parametrize(
    ("spec", "least", "held"),
    [
        (SPECS[0], 0, 0),
        (SPECS[0], 1 << 30, DOCUMENTS * DIM * 4),
        (IvfIndex(kind="ivf", nlist=8), 0, 8 * 256 * DIM * 4),
        (IvfIndex(kind="ivf", nlist=8), 1 << 30, 2 * DOCUMENTS * DIM * 4),
        (HnswIndex(kind="hnsw", m=16), 0, DOCUMENTS * (DIM * 4 + 140)),
    ],
)
def test_what_is_said_of_memory_is_of_what_an_index_copies(spec, least, held, tmp_path, monkeypatch):
    monkeypatch.setattr(mapped, "IN_MEMORY", least)
    told = []
    monkeypatch.setattr(indexes.memory, "say_if_more", lambda what, size, fix: told.append(size))
    documents, _ = sides(tmp_path)
    indexes.build(spec, documents)
    assert told == [held] == [mapped.held(spec, *documents.shape)]


@pytest.mark.parametrize(("least", "searches"), [(0, 2), (mapped.IN_MEMORY, 1)])
def test_lists_in_a_file_are_searched_once_before_they_are_timed(least, searches, tmp_path, monkeypatch):
    monkeypatch.setattr(mapped, "IN_MEMORY", least)
    monkeypatch.setattr(search_times, "LEAST_SECONDS", 0)
    asked, search = [], indexes.search
    monkeypatch.setattr(indexes, "search", lambda *given: asked.append(given) or search(*given))
    search_times._time(IVF, *sides(tmp_path))
    assert len(asked) == searches


def test_tasks_score_the_same_in_files_and_only_the_documents_are_left(tmp_path, monkeypatch):
    pairs, embeddings = retrieval_task(documents=400, dim=DIM)
    told = ({"find": pairs}, {"student": embeddings}, [*SPECS, HnswIndex(kind="hnsw")], tmp_path)
    inside = indexes.score_tasks(*told)
    monkeypatch.setattr(mapped, "IN_MEMORY", 0)
    assert indexes.score_tasks(*told) == inside
    assert os.listdir(tmp_path) == ["documents.bin"]
    assert lists_mapped() == 0
