"""What a teacher that is paid for is told before it is asked."""

from itertools import chain
from pathlib import Path

import polars as pl
import pytest

from pipeline.data.common import texts
from pipeline.params.runtime import Runtime
from pipeline.params.teacher import Encode, HashingTeacher
from pipeline.teacher.encoding.engines.job import Job, Worker
from pipeline.teacher.encoding.store import filling
from pipeline.teacher.encoding.store.store import VectorStore
from pipeline.teacher.kinds.hashing import Hashing

TEXTS = ["word " * (i % 9) + f"text {i}" for i in range(400)]


@pytest.fixture
def worker(tmp_path, monkeypatch):
    """Of 16 shards, with small pieces."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(filling, "PIECE_CHARACTERS", 200)
    rows = [(texts.text_id(text), text, "text") for text in TEXTS]
    table = pl.DataFrame(rows, schema=texts.LABELLED_SCHEMA, orient="row")
    texts.write(table, texts.LABELLED_SCHEMA, Path("corpus.parquet"))
    teacher = HashingTeacher(kind="hashing", dim=8)
    views = Encode(views=("sentence", "cls"), shard_rows=32)
    return Worker(Job(tmp_path, Path("corpus.parquet"), teacher, views, Runtime(device="cpu")))


@pytest.fixture
def told(monkeypatch):
    """The pieces that are announced, of shards 0 to 15, as they come."""
    pieces = []
    monkeypatch.setattr(Hashing, "announce", lambda _, announced: pieces.extend(announced), raising=False)
    return pieces


NAMES = [f"{shard:05d}.parquet" for shard in range(16)]


def test_it_is_told_the_pieces_that_it_will_be_asked_for(worker, told, monkeypatch):
    asked, quick = [], Hashing.encode

    def noted(self, together, views, role):
        asked.append((together, role))
        return quick(self, together, views, role)

    monkeypatch.setattr(Hashing, "encode", noted)
    for name in NAMES[:5]:
        worker.fill(name)
    asked.clear()
    worker.announce(NAMES[3:8])
    for name in NAMES[3:8]:
        worker.fill(name)
    assert [(piece, role) for piece, role in told if piece] == asked
    assert len(asked) > 10
    told.clear()
    worker.announce(NAMES)
    assert set(chain(*(piece for piece, _ in told))) < set(TEXTS)


def test_a_text_that_one_view_lacks_is_told(worker, told):
    worker.fill(NAMES[0])
    worker.announce(NAMES[:1])
    assert not any(piece for piece, _ in told)
    for path in Path(".cache").rglob("*.parquet"):
        if "cls" in path.parts:
            path.unlink()
    worker.announce(NAMES[:1])
    assert sum(len(piece) for piece, _ in told) > 10


def test_the_store_is_asked_shard_by_shard_for_ids_alone(worker, monkeypatch):
    sizes, holds = [], VectorStore.holds

    def measured(self, ids, view):
        sizes.append(len(ids))
        return holds(self, ids, view)

    def one_by_one(_, announced):
        for _ in announced:
            seen.append(len(sizes))

    seen = []
    monkeypatch.setattr(VectorStore, "holds", measured)
    monkeypatch.setattr(VectorStore, "load", None)
    monkeypatch.setattr(Hashing, "announce", one_by_one, raising=False)
    worker.announce(NAMES)
    assert sum(sizes) == 2 * len(TEXTS)
    assert max(sizes) < 64
    assert sorted(set(seen)) == list(range(2, 34, 2))


def test_a_teacher_of_this_machine_is_told_nothing(worker, monkeypatch):
    monkeypatch.setattr(VectorStore, "holds", None)
    worker.announce(NAMES)
