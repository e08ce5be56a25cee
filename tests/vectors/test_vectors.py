from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from refusals import refuses

from pipeline.vectors.sets import published, shards

IDS = np.unique(np.random.default_rng(0).integers(0, 2**64 - 1, 5000, np.uint64))
VIEWS = {
    view: np.random.default_rng(dim).normal(size=(5000, dim)).astype(np.float16)
    for view, dim in (("sentence", 6), ("cls", 3))
}


@pytest.fixture(scope="module")
def shard(tmp_path_factory):
    path = tmp_path_factory.mktemp("shard") / "00000.parquet"
    shards.write_shard(IDS, VIEWS, path)
    return path


def test_views_are_non_null_fixed_size_lists_of_float16(shard):
    schema = pq.read_schema(shard)
    assert schema.names == ["text_id", "sentence", "cls"]
    assert not any(field.nullable for field in schema)
    for view, dim in (("sentence", 6), ("cls", 3)):
        kind = schema.field(view).type
        assert kind == pa.list_(pa.field("item", pa.float16(), nullable=False), dim)
        assert not kind.value_field.nullable


def test_the_parquet_file_says_so_too(shard):
    columns = [pq.ParquetFile(shard).schema.column(i) for i in range(3)]
    assert [column.max_definition_level for column in columns] == [0, 1, 1]  # 1: the list may be empty
    assert [column.length for column in columns[1:]] == [2, 2]
    assert all(str(column.logical_type) == "Float16" for column in columns[1:])


def test_row_groups_are_fixed_without_dictionaries_and_compression(shard):
    metadata = pq.ParquetFile(shard).metadata
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    assert [group.num_rows for group in groups] == [2048, 2048, 904]
    for chunk in (group.column(i) for group in groups for i in range(3)):
        assert not chunk.has_dictionary_page
        assert not any("DICTIONARY" in encoding for encoding in chunk.encodings)
        assert chunk.compression == "UNCOMPRESSED"


@pytest.mark.parametrize(("rows", "dim"), [(0, 5), (1, 1), (2048, 4), (2049, 700), (5000, 1100)])
def test_values_are_read_from_where_they_lie_as_arrow_reads_them(tmp_path, rows, dim):
    """Row groups of megabytes, which Arrow would by default split into pages, included."""
    found = np.random.default_rng(0).normal(size=(rows, dim)).astype(np.float16)
    shards.write_shard(IDS[:rows], {"cls": -found, "sentence": found}, path := tmp_path / "shard.parquet")
    table = pq.read_table(path)
    for view, expected in (("cls", -found), ("sentence", found)):
        ids, read = shards.read_columns(path.read_bytes(), view)
        assert np.array_equal(ids, IDS[:rows])
        assert np.array_equal(ids, table["text_id"].to_numpy())
        assert np.array_equal(read, expected)
        assert np.array_equal(read, shards.column(table, view))


def test_other_parquet_of_the_same_schema_is_read_by_arrow(shard, tmp_path):
    """As stores of earlier versions hold it: several pages a row group."""
    table = pq.read_table(shard).replace_schema_metadata(None)
    pq.write_table(table, tmp_path / "other.parquet", compression="zstd", data_page_size=1000)
    ids, read = shards.read_columns((tmp_path / "other.parquet").read_bytes(), "cls")
    assert np.array_equal(ids, IDS)
    assert np.array_equal(read, VIEWS["cls"])


def test_torch_takes_a_set_as_it_is_read(shard):
    _, read = shards.read_columns(shard.read_bytes(), "cls")
    tensor = torch.from_numpy(read)
    tensor += 1
    assert np.array_equal(read, VIEWS["cls"] + np.float16(1))


def test_polars_reads_a_shard(shard):
    read = pl.read_parquet(shard)
    assert read.schema == {
        "text_id": pl.UInt64,
        "sentence": pl.Array(pl.Float16, 6),
        "cls": pl.Array(pl.Float16, 3),
    }
    assert np.array_equal(read["text_id"].to_numpy(), IDS)
    assert np.array_equal(read["cls"].to_numpy(), VIEWS["cls"])


def test_equal_vectors_give_equal_bytes(shard, tmp_path):
    shards.write_shard(IDS.copy(), {view: array.copy() for view, array in VIEWS.items()}, tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == shard.read_bytes()


@given(st.sets(st.integers(0, 2**64 - 1), min_size=1), st.data())
def test_rows_of_finds_every_id_in_any_order(ids, data):
    ascending = sorted(ids)
    wanted = data.draw(st.lists(st.sampled_from(ascending)))
    rows = published.rows_of(np.array(ascending, np.uint64), np.array(wanted, np.uint64), Path("x"))
    assert [ascending[row] for row in rows] == wanted


@pytest.mark.parametrize("absent", [0, 5, 2**64 - 1])
def test_rows_of_names_an_id_without_a_vector(tmp_path, absent):
    with refuses(tmp_path / "corpus", "2 texts", f"text_id {absent})", "`dvc repro -f encode@corpus`"):
        published.rows_of(
            np.array([3, 8], np.uint64), np.array([8, absent, 3, absent], np.uint64), tmp_path / "corpus"
        )
