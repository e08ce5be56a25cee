from contextlib import suppress

import polars as pl
import pytest
from refusals import refuses

from pipeline.data.common.files.tables import ROW_GROUP_ROWS, read_table, table_writer, write_table

SCHEMA = {"text_id": pl.UInt64, "text": pl.String}
ROWS = 2000


@pytest.fixture
def path(tmp_path):
    texts = [f"sentence {(i * 7919) % ROWS} of many" for i in range(ROWS)]
    write_table(pl.DataFrame({"text_id": range(ROWS), "text": texts}), SCHEMA, tmp_path / "corpus.parquet")
    return tmp_path / "corpus.parquet"


def test_a_table_comes_back_with_the_columns_and_types_of_its_schema(tmp_path):
    given = pl.DataFrame({"more": [1.5, 2.5], "text": ["a", "ü\n"], "text_id": [3, 4]})
    write_table(given, SCHEMA, tmp_path / "x.parquet")
    read = read_table(tmp_path / "x.parquet", SCHEMA, "prepare")
    assert read.schema == SCHEMA
    assert read.rows() == [(3, "a"), (4, "ü\n")]


def test_equal_rows_give_equal_bytes(tmp_path, path):
    write_table(pl.read_parquet(path), SCHEMA, tmp_path / "again.parquet")
    assert (tmp_path / "again.parquet").read_bytes() == path.read_bytes()


def test_a_failed_write_leaves_the_old_file_and_nothing_else(path):
    before = path.read_bytes()
    with pytest.raises(pl.exceptions.ColumnNotFoundError):
        write_table(pl.DataFrame({"text_id": [1]}), SCHEMA, path)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_a_missing_file_names_its_stage(tmp_path):
    with refuses(tmp_path / "none.parquet", "`dvc repro prepare`"):
        read_table(tmp_path / "none.parquet", SCHEMA, "prepare")


@pytest.mark.parametrize(
    ("columns", "column"),
    [
        ({"text_id": pl.Series([1], dtype=pl.Int64), "text": ["a"]}, "text_id: Int64 for UInt64"),
        ({"text_id": pl.Series([1], dtype=pl.UInt64)}, "text: None for String"),
        ({"text_id": pl.Series([1], dtype=pl.UInt64), "text": ["a"], "label": [1]}, "label"),
    ],
)
def test_another_schema_names_the_column_and_the_stage(tmp_path, columns, column):
    pl.DataFrame(columns).write_parquet(tmp_path / "x.parquet")
    with refuses(tmp_path / "x.parquet", f"({column}", "`dvc repro -f augment`"):
        read_table(tmp_path / "x.parquet", SCHEMA, "augment")


def test_surplus_columns_are_left_out_where_they_are_allowed(path):
    read = read_table(path, {"text": pl.String}, "prepare", exact=False)
    assert read.columns == ["text"]


@pytest.mark.parametrize("length", [0, 7, 100, -1])
def test_a_cut_file_names_its_stage(path, length):
    path.write_bytes(path.read_bytes()[:length])
    with refuses(path, "damaged" if length == -1 else "Parquet", "`dvc repro -f prepare`"):
        read_table(path, SCHEMA, "prepare")


def test_a_file_with_damaged_pages_names_its_stage(path):
    content = bytearray(path.read_bytes())
    content[300:2300] = bytes(2000)
    path.write_bytes(content)
    with refuses(path, "`dvc repro -f prepare`"):
        read_table(path, SCHEMA, "prepare")


def test_a_table_that_is_written_in_parts_has_the_same_bytes(tmp_path):
    schema = {"text_id": pl.UInt64, "text": pl.String, "split": pl.String}
    rows = 2 * ROW_GROUP_ROWS + 77
    table = pl.DataFrame(
        {"text_id": range(rows), "text": [f"text {row}" for row in range(rows)], "split": "train"},
        schema=schema,
    )
    write_table(table, schema, tmp_path / "whole.parquet")
    for size in (1000, ROW_GROUP_ROWS, 20_000):
        with table_writer(schema, tmp_path / "parts.parquet") as write:
            for part in table.iter_slices(size):
                write(part)
        assert (tmp_path / "parts.parquet").read_bytes() == (tmp_path / "whole.parquet").read_bytes()
    assert read_table(tmp_path / "whole.parquet", schema, "prepare").equals(table)
    with suppress(KeyError), table_writer(schema, tmp_path / "broken.parquet") as write:
        write(table)
        raise KeyError
    assert not (tmp_path / "broken.parquet").exists()


@pytest.mark.parametrize("letters", [40, 400])
def test_bytes_do_not_depend_on_how_many_long_texts_come_at_a_time(tmp_path, letters):
    rows = ROW_GROUP_ROWS + 999
    table = pl.DataFrame({"text_id": range(rows), "text": [f"{i} ".ljust(letters, "x") for i in range(rows)]})
    found = set()
    for size in (rows, 777, 9000):
        with table_writer(SCHEMA, tmp_path / "parts.parquet") as write:
            for part in table.iter_slices(size):
                write(part)
        found.add((tmp_path / "parts.parquet").read_bytes())
    assert len(found) == 1
