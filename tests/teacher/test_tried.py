"""Stored vectors that are no longer those of their texts."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from encode_runs import encode, stored, view_of, write_params, write_texts
from refusals import refuses

from pipeline.teacher.encoding.engines import tried
from pipeline.teacher.encoding.store.store import FINGERPRINT_LETTERS, VectorStore
from pipeline.teacher.kinds.hashing import Hashing
from pipeline.vectors.sets.shards import read_columns

TEXTS = [f"{word} {number}" for number in range(40) for word in ("cat", "house", "river", "an old tree")]


@pytest.fixture
def seed(folder):
    """A store that has all texts, and what was published of it."""
    write_params()
    write_texts(TEXTS)
    return encode()


def rewrite(change, view="sentence"):
    """Change the vectors of the store's files of a view as a tool does that writes the digest anew."""
    for path in stored():
        if view_of(path) == view:
            ids, vectors = read_columns(path.read_bytes(), view)
            path.unlink()
            store = VectorStore(Path(".cache"), {})
            store.folder = next(Path(".cache/vectors").iterdir())
            store.add(ids, view, change(vectors))


def fingerprint():
    [folder] = Path(".cache/vectors").iterdir()
    assert len(folder.name) == FINGERPRINT_LETTERS
    return folder.name


@pytest.mark.parametrize("more", [[], ["a text more"]])
def test_mixed_up_rows_are_told_with_texts_and_the_fix(seed, more):
    rewrite(lambda vectors: np.roll(vectors, 1, axis=0))
    write_texts([*TEXTS, *more])
    with refuses(f"`pipeline cache prune {fingerprint()}`", "'sentence'", "text_id", "mixed up"):
        encode()
    shutil.rmtree(f".cache/vectors/{fingerprint()}")
    write_texts(TEXTS)
    assert encode() == seed


def test_what_rounding_changes_passes(seed):
    noise = np.random.default_rng(0)
    rewrite(lambda vectors: (vectors * (1 + 0.02 * noise.standard_normal(vectors.shape))).astype(np.float16))
    write_texts([*TEXTS, "a text more"])
    encode()


def test_an_untouched_store_tries_few_texts_and_an_empty_one_none(folder, monkeypatch):
    asked, quick = [], Hashing.encode

    def noted(self, texts, views, role):
        asked.append(list(texts))
        return quick(self, texts, views, role)

    monkeypatch.setattr(Hashing, "encode", noted)
    write_params(shard_rows=4096)
    write_texts(TEXTS)
    encode()
    assert sorted(text for texts in asked for text in texts) == sorted(TEXTS)
    asked.clear()
    encode()
    assert [len(texts) for texts in asked] == [tried.TRIED]


def test_a_paid_teacher_is_not_asked(seed, monkeypatch):
    monkeypatch.setattr(Hashing, "announce", lambda _, announced: [*announced], raising=False)
    rewrite(lambda vectors: np.roll(vectors, 1, axis=0))
    encode()


def test_zero_vectors_are_those_of_their_texts():
    zero, other = np.zeros((2, 3), np.float32), np.ones((2, 3), np.float32)
    other[0] = 0
    assert tried._alike(zero, other).tolist() == [True, False]
