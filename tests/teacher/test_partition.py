import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.teacher.encoding.store.filling import partition

ANY_IDS = st.sets(st.integers(0, 2**64 - 1) | st.integers(0, 40) | st.integers(2**64 - 40, 2**64 - 1))


def ascending(ids):
    return np.array(sorted(ids), np.uint64)


@given(ANY_IDS, st.integers(1, 50))
def test_every_id_is_in_exactly_one_shard(ids, shard_rows):
    ids = ascending(ids)
    shards = partition(ids, shard_rows)
    assert [row for shard in shards for row in range(shard.start, shard.stop)] == list(range(len(ids)))
    assert [shard.name for shard in shards] == [f"{i:05d}.parquet" for i in range(len(shards))]


@given(ANY_IDS, st.integers(1, 50))
def test_a_shard_is_the_ids_of_one_prefix(ids, shard_rows):
    ids = ascending(ids)
    shards = partition(ids, shard_rows)
    for number, shard in enumerate(shards):
        assert all(int(row) * len(shards) // 2**64 == number for row in ids[shard.start : shard.stop])


@pytest.mark.parametrize("shard_rows", [1, 3, 64, 4096])
@pytest.mark.parametrize("size", [0, 1, 2, 3, 63, 64, 65, 1000, 4096, 4097, 100_000])
def test_shards_are_as_few_as_their_mean_size_allows(size, shard_rows):
    ids = np.sort(np.random.default_rng(size).integers(0, 2**64 - 1, size, np.uint64))
    count = len(partition(ids, shard_rows))
    assert count.bit_count() == 1
    assert size <= count * shard_rows
    assert count == 1 or size > count // 2 * shard_rows


def test_evenly_spread_ids_make_even_shards():
    ids = np.arange(1000, dtype=np.uint64) * np.uint64(2**64 // 1000)
    assert all(abs(shard.rows - 125) <= 1 for shard in partition(ids, 125))


def test_two_sets_of_one_size_agree_on_the_shard_of_an_id():
    few, many = (ascending({*range(start, start + 60), 2**63 + 1, 2**62}) for start in (0, 2**64 - 60))
    by_name = [{s.name: ids[s.start : s.stop] for s in partition(ids, 16)} for ids in (few, many)]
    for name, shared in (("00002.parquet", 2**63 + 1), ("00001.parquet", 2**62)):
        assert all(shared in shards[name] for shards in by_name)
