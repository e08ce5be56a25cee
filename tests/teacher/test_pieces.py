from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.teacher.encoding.store import filling
from pipeline.teacher.encoding.store.filling import fill_shard, pieces
from pipeline.teacher.encoding.store.store import VectorStore

SIZE = filling.PIECE_CHARACTERS


@given(st.lists(st.integers(0, 2 * SIZE), max_size=60))
def test_pieces_are_all_rows_once_from_long_to_short(lengths):
    found = pieces(["x" * length for length in lengths])
    assert sorted(row for piece in found for row in piece) == list(range(len(lengths)))
    assert all((np.diff(piece) > 0).all() for piece in found)
    ends = [(max(lengths[row] for row in piece), min(lengths[row] for row in piece)) for piece in found]
    assert all(before[1] >= after[0] for before, after in pairwise(ends))


@given(st.lists(st.integers(0, SIZE // 4), max_size=60))
def test_a_piece_exceeds_its_size_by_one_text_at_most(lengths):
    for piece in pieces(["x" * length for length in lengths]):
        sizes = sorted(lengths[row] + 1 for row in piece)
        assert sum(sizes[1:]) < SIZE


def test_short_texts_make_few_pieces():
    assert len(pieces(["x" * 63] * 4096)) == 4
    assert len(pieces([""] * 4096)) == 1
    assert pieces([]) == []


class Killed(BaseException):
    pass


@pytest.mark.parametrize("after", range(5))
def test_a_piece_is_encoded_together_and_once_however_often_it_is_interrupted(tmp_path, monkeypatch, after):
    monkeypatch.setattr(filling, "PIECE_CHARACTERS", 40)
    texts = ["x" * (7 * i % 20) for i in range(30)]
    ids = np.arange(30, dtype=np.uint64)
    store, done, told = VectorStore(tmp_path, {}), [], []

    def run(stop):
        calls = 0

        def encode(together, views):
            nonlocal calls
            calls += 1
            if calls > stop:
                raise Killed
            done.append(list(together))
            return {view: np.tile(np.float32([1, 2]), (len(together), 1)) for view in views}

        return fill_shard(ids, texts, ["cls"], store, encode, told.append)

    while True:
        told.clear()
        try:
            run(after + 1)
        except Killed:
            continue
        break
    assert done == [[texts[row] for row in piece] for piece in pieces(texts)]
    assert len(done) > 5
    assert told == [len(piece) for piece in pieces(texts)]


def test_a_kill_between_two_views_encodes_the_piece_for_the_other_alone(tmp_path, monkeypatch):
    texts, ids = ["a", "bb", "ccc"], np.arange(3, dtype=np.uint64)
    store, asked = VectorStore(tmp_path, {}), []

    def encode(together, views):
        asked.append((list(together), list(views)))
        return {view: np.tile(np.float32([1, 2]), (len(together), 1)) for view in views}

    def killed(self, ids, view, vectors):
        add(self, ids, view, vectors)
        raise Killed

    add = VectorStore.add
    with monkeypatch.context() as patch:
        patch.setattr(VectorStore, "add", killed)
        with pytest.raises(Killed):
            fill_shard(ids, texts, ["sentence", "cls"], store, encode, lambda _: None)
    assert fill_shard(ids, texts, ["sentence", "cls"], store, encode, lambda _: None) == 3
    assert asked == [(texts, ["sentence", "cls"]), (texts, ["cls"])]
