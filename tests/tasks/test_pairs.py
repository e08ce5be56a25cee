import polars as pl
import pytest
from refusals import refuses

from pipeline.tasks import pairs


def test_columns_that_a_task_lacks_are_filled():
    made = pairs.make("sts", "test", {"left_id": [1], "right_id": [2**64 - 1]})
    assert made.schema == pairs.PAIRS_SCHEMA
    assert made.rows(named=True) == [
        {
            "task": "sts",
            "split": "test",
            "subset": "",
            "left_id": 1,
            "right_id": 2**64 - 1,
            "negative_ids": [],
            "score": None,
            "label": None,
        }
    ]


def test_given_columns_are_kept():
    rows = {"left_id": [1, None], "right_id": [2, 3], "negative_ids": [[7, 8], []], "score": [0.5, None]}
    texts = {"subset": ["a", "b"], "label": ["noun.act", None]}
    made = pairs.make("t", "dev", {**rows, **texts})
    assert {name: made[name].to_list() for name in (*rows, *texts)} == {**rows, **texts}


def test_no_rows_make_an_empty_table_of_the_schema():
    made = pairs.make("t", "dev", {"left_id": [], "right_id": []})
    assert made.schema == pairs.PAIRS_SCHEMA
    assert made.is_empty()


def test_columns_of_different_lengths_are_refused():
    with pytest.raises(pl.exceptions.ShapeError):
        pairs.make("t", "dev", {"left_id": [1, 2], "right_id": [3, 4, 5]})


def test_pairs_come_back_sorted_with_documents_without_a_query_first(tmp_path):
    path = tmp_path / "tasks.parquet"
    retrieval = pairs.make(
        "b", "test", {"left_id": [9, 2, None], "right_id": [1, 5, 7], "score": [1, 3, None]}
    )
    sts = pairs.make("a", "test", {"left_id": [8], "right_id": [8], "score": [4.25]})
    pairs.write(pl.concat([retrieval, sts]), path)
    read = pairs.read(path)
    assert read.select("task", "left_id", "right_id", "score").rows() == [
        ("a", 8, 8, 4.25),
        ("b", None, 7, None),
        ("b", 2, 5, 3.0),
        ("b", 9, 1, 1.0),
    ]
    pairs.write(read.reverse(), tmp_path / "again.parquet")
    assert (tmp_path / "again.parquet").read_bytes() == path.read_bytes()


def test_single_texts_that_are_equal_but_for_their_label_are_sorted_by_it(tmp_path):
    columns = {"left_id": [5, 5, 5], "right_id": [None] * 3, "label": ["b", "c", "a"]}
    pairs.write(pairs.make("t", "test", columns), tmp_path / "tasks.parquet")
    assert pairs.read(tmp_path / "tasks.parquet").select("right_id", "label").rows() == [
        (None, "a"),
        (None, "b"),
        (None, "c"),
    ]


def test_another_schema_and_a_missing_file_name_prepare(tmp_path):
    pl.DataFrame({"task": ["a"]}).write_parquet(tmp_path / "tasks.parquet")
    with refuses(tmp_path / "tasks.parquet", "left_id", "`dvc repro -f prepare`"):
        pairs.read(tmp_path / "tasks.parquet")
    with refuses(tmp_path / "none.parquet", "`dvc repro prepare`"):
        pairs.read(tmp_path / "none.parquet")
