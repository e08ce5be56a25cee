import numpy as np
import polars as pl
import pytest
from refusals import refuses

from pipeline.core.errors import Unfinished
from pipeline.params.teacher import HashingTeacher
from pipeline.teacher.encoding.store.filling import fill_shard, stored
from pipeline.teacher.encoding.store.store import VectorStore
from pipeline.teacher.kinds.hashing import Hashing
from pipeline.vectors.sets.shards import write_shard

TEXTS = [f"sentence number {i}" for i in range(12)]
IDS = np.arange(5, 65, 5, dtype=np.uint64)
DIMS = {"sentence": 6, "cls": 6}


class Recorded:
    """The hashing teacher, noting what it is asked; `cls` is turned round to tell the views apart."""

    def __init__(self):
        self.asked = []
        self._teacher = Hashing(HashingTeacher(kind="hashing", dim=6))

    def __call__(self, texts, views):
        self.asked.append((list(texts), list(views)))
        vectors = self._teacher.encode(texts, ["sentence"])["sentence"]
        return {view: vectors if view == "sentence" else -vectors for view in views}


def fill(ids, texts, views, store, encode):
    return fill_shard(ids, texts, list(views), store, encode, lambda _: None)


@pytest.fixture
def store(tmp_path):
    return VectorStore(tmp_path / "cache", {"model": "m"})


@pytest.fixture
def encode(tmp_path, store):
    """Encode rows of TEXTS; the teacher's record, how many were encoded, and the published bytes."""

    def run(rows=slice(None), dims=DIMS, into=store):
        teacher = Recorded()
        count = fill(IDS[rows], TEXTS[rows], dims, into, teacher)
        for view, dim in dims.items():
            write_shard(IDS[rows], {view: stored(IDS[rows], view, dim, into)}, tmp_path / f"{view}.parquet")
        return teacher.asked, count, [(tmp_path / f"{view}.parquet").read_bytes() for view in dims]

    return run


@pytest.fixture
def fresh(tmp_path, encode):
    """The bytes that an empty store leads to."""
    return encode(into=VectorStore(tmp_path / "elsewhere", {}))[2]


def test_an_empty_store_asks_for_everything_once(encode, tmp_path):
    asked, count, _ = encode()
    assert asked == [(TEXTS, ["sentence", "cls"])]
    assert count == 12
    expected = Recorded()(TEXTS, DIMS)
    for view in DIMS:
        published = pl.read_parquet(tmp_path / f"{view}.parquet")
        assert np.array_equal(published["text_id"].to_numpy(), IDS)
        assert np.array_equal(published[view].to_numpy(), expected[view].astype(np.float16))


def test_a_full_store_asks_for_nothing(encode, fresh):
    encode()
    assert encode() == ([], 0, fresh)


def test_a_grown_set_asks_for_its_new_texts_alone(encode, fresh):
    encode(slice(2, 9))
    assert encode() == ([(TEXTS[:2] + TEXTS[9:], ["sentence", "cls"])], 5, fresh)


def test_a_view_that_is_asked_for_later_is_the_only_one_encoded(encode, fresh):
    encode(dims={"sentence": 6})
    assert encode() == ([(TEXTS, ["cls"])], 12, fresh)


def test_fewer_views_than_the_store_holds_ask_for_nothing(encode):
    encode()
    asked, _, content = encode(dims={"cls": 6})
    assert asked == []
    assert content != encode(dims={"sentence": 6})[2]


def test_views_that_lack_different_texts_publish_the_same_bytes(encode, fresh):
    encode(slice(0, 4), dims={"sentence": 6})
    encode(slice(3, 8), dims={"cls": 6})
    encode(slice(10, 12))
    asked, count, content = encode()
    assert asked == [([*TEXTS[4:10]], ["sentence"]), ([*TEXTS[:3], *TEXTS[8:10]], ["cls"])]
    assert (count, content) == (9, fresh)


def test_a_damaged_file_of_the_store_is_encoded_again(encode, store, fresh, capsys):
    encode(slice(0, 5))
    encode(slice(5, 12))
    damaged = min((store.folder / "cls").rglob("*.parquet"))
    damaged.write_bytes(damaged.read_bytes()[:-1])
    assert encode() == ([(TEXTS[:5], ["cls"])], 5, fresh)
    assert "is damaged: dropped" in capsys.readouterr().err


def test_an_empty_shard_is_published_without_the_teacher(encode):
    asked, count, content = encode(slice(0, 0))
    assert (asked, count) == ([], 0)
    assert [part[:4] for part in content] == [b"PAR1"] * 2


def spoilt(view, value):
    def encode(texts, views):
        vectors = Recorded()(texts, views)
        vectors[view][[3, 7], 2] = value
        return vectors

    return encode


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 65520.0])
def test_a_value_that_float16_cannot_hold_is_not_stored(tmp_path, store, value):
    with refuses("2 texts", "'sentence'", "text_id 20)", "set teacher.precision to float32"):
        fill(IDS, TEXTS, DIMS, store, spoilt("sentence", value))
    assert not list(tmp_path.rglob("*.parquet"))


def test_no_view_is_stored_where_one_is_bad(tmp_path, store):
    with refuses("2 texts", "'cls'"):
        fill(IDS, TEXTS, DIMS, store, spoilt("cls", np.nan))
    assert not list(tmp_path.rglob("*.parquet"))


def test_the_largest_float16_is_no_error(store):
    fill(IDS[:1], TEXTS[:1], ["cls"], store, lambda *_: {"cls": np.float32([[65504, -65504]])})
    assert store.load(IDS[:1], "cls")[1].tolist() == [[65504, -65504]]


def test_a_shard_that_the_store_does_not_hold_is_not_published(store):
    fill(IDS[2:], TEXTS[2:], DIMS, store, Recorded())
    with refuses(store.folder, " 2 vectors", "'sentence'", "runtime.cache"):
        stored(IDS, "sentence", 6, store)


def test_a_shard_of_another_dimension_than_the_set_has_is_not_published(store):
    store.add(IDS, "sentence", np.ones((len(IDS), 4), np.float16))
    with refuses(store.folder, "4 and of 6 dimensions", "`pipeline cache prune "):
        stored(IDS, "sentence", 6, store)


def test_a_teacher_of_another_dimension_is_told_at_its_first_piece_and_stores_nothing(store):
    store.add(IDS[:3], "sentence", np.eye(3, 4, dtype=np.float16))
    with refuses(store.folder, "4 and of 6 dimensions", "`pipeline cache prune "):
        fill(IDS, TEXTS, ["sentence"], store, Recorded())
    present, vectors = store.load(IDS, "sentence")
    assert (present.sum(), vectors.shape[1]) == (3, 4)


def test_a_teacher_that_stops_half_way_leaves_what_it_brought(store, encode, fresh):
    def stopping(texts, views):
        rows = np.array([1, 4])
        vectors = Recorded()([texts[row] for row in rows], views)
        raise Unfinished("the cap is reached", rows, vectors)

    with refuses("the cap is reached"):
        fill(IDS, TEXTS, DIMS, store, stopping)
    left = [text for row, text in enumerate(TEXTS) if row not in (1, 4)]
    assert encode() == ([(left, ["sentence", "cls"])], 10, fresh)
