"""A label column is the same, or the same fault, in every format in which it may lie."""

import json
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from refusals import refuses

from pipeline.params.evaluate import Evaluate
from pipeline.prepare.readers.user_columns import flags, whole_numbers
from pipeline.prepare.readers.user_files import read_columns
from pipeline.prepare.tasks import evaluation

FORMATS = ["csv", "tsv", "jsonl", "parquet", "hub"]
ROWS = 30


@pytest.fixture(params=FORMATS)
def write(request, tmp_path, monkeypatch):
    """Writes a table in one of the formats, and gives its path."""

    def make(name, columns):
        table = pl.DataFrame(columns)
        path = tmp_path / f"{name}.{request.param}"
        match request.param:
            case "csv" | "tsv":
                table.write_csv(path, separator="," if request.param == "csv" else "\t")
            case "jsonl":
                table.write_ndjson(path)
            case "parquet":
                table.write_parquet(path)
            case "hub":
                return hub(tmp_path, monkeypatch, name, table.to_arrow())
        return str(path)

    return make


def hub(tmp_path, monkeypatch, name, table):
    """A folder that `datasets` reads."""
    pytest.importorskip("datasets")
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setattr("datasets.config.HF_HUB_OFFLINE", True)
    (tmp_path / name).mkdir()
    pq.write_table(table, tmp_path / name / "data.parquet")
    return f"hub:{tmp_path / name}"


def read(train, test, **fields):
    block = {"kind": "classification", "train": train, "test": test, **fields}
    found = evaluation(Evaluate.model_validate({"tasks": {"mine": block}}).tasks, None)
    return found.pairs, found.dropped.get("mine", {})


def texts(start=0, count=ROWS):
    return [f"text number {number}" for number in range(start, start + count)]


@pytest.mark.parametrize(
    ("labels", "kept"),
    [
        (["pets", "trees", None], {"pets", "trees"}),
        ([1, 0, None], {"0", "1"}),
        ([-1, 0, 1], {"-1", "0", "1"}),  # a feeling, say
        ([True, False, None], {"true", "false"}),
        (["+", "-", "+"], {"+", "-"}),
        (["entailment", "-", "neutral"], {"entailment", "neutral"}),
        (["Contradiction", "Entailment", "-"], {"Contradiction", "Entailment"}),
    ],
)
def test_labels_and_rows_without_one(write, labels, kept):
    given = labels * (ROWS // 3)
    columns = {"text": texts(), "label": given}
    path = write("train", columns)
    pairs, dropped = read(path, write("test", {**columns, "text": texts(ROWS)}))
    assert set(pairs["label"]) == kept
    without = 0 if len(kept) == len(set(labels)) else ROWS // 3
    assert len(pairs) == 2 * (ROWS - without)
    named = {"training_row_without_label": without, "test_row_without_label": without}
    assert dropped == (named if without else {})


def test_pandas_floats_and_whole_numbers_are_one_label(write):
    train = write("train", {"text": texts(), "label": [0.0, 1.0, None] * 10})
    dev = write("dev", {"text": texts(2 * ROWS), "label": [1, 0] * 15})
    pairs, _ = read(train, write("test", {"text": texts(ROWS), "label": [0, 1] * 15}), dev=dev)
    assert {subset: set(rows["label"]) for (subset,), rows in pairs.group_by("subset")} == {
        "train": {"0", "1"},
        "dev": {"0", "1"},
        "test": {"0", "1"},
    }


def test_one_file_of_json_may_spell_a_number_in_two_ways(tmp_path):
    """-0.0 is 0; halves stay."""
    lines = {name: tmp_path / f"{name}.jsonl" for name in ("train", "test")}
    for name, path in lines.items():
        rows = [{"text": f"{name} {row}", "label": [-1, -1.0, 0, -0.0, 1.5][row % 5]} for row in range(ROWS)]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    pairs, _ = read(*map(str, lines.values()))
    assert set(pairs["label"]) == {"-1", "0", "1.5"}
    tasks = {"mine": {"kind": "clustering", "path": str(tmp_path / "*.jsonl")}}
    clusters = evaluation(Evaluate.model_validate({"tasks": tasks}).tasks, None).pairs
    assert clusters["label"].value_counts().sort("label").rows() == [("-1", 24), ("0", 24), ("1.5", 12)]


@pytest.mark.parametrize(
    ("labels", "spelled"),
    [
        (["1.0", "10.00", "2", None], {"1.0": "1", "10.00": "10"}),
        (["01", "01.0", "+1", "1.10", "1e3"], {}),
        (["1.0", "2", "beta"], {}),
        (["1.0", "nan"], {}),
        (["-0", "12345678901234567891.0"], {"-0": "0", "12345678901234567891.0": "12345678901234567891"}),
        ([], {}),
    ],
)
def test_only_whole_numbers_among_numbers_are_spelled_anew(labels, spelled):
    assert whole_numbers(labels) == spelled


@pytest.mark.parametrize("label", [None, "-"])
def test_a_file_without_a_label_is_named(write, label):
    good = write("train", {"text": texts(), "label": ["entailment", "neutral"] * 15})
    bad = write("test", {"text": texts(ROWS), "label": pl.Series([label] * ROWS, dtype=pl.String)})
    with refuses(bad.partition("?")[0], "label", "a file with labels"):
        read(good, bad)


def test_true_and_false_say_whether_two_match(write):
    path = write("er", {"query": ["a", "a"], "entity": ["b", "c"], "label": [True, False]})
    tasks = {"er": {"kind": "entity_resolution", "path": path}}
    pairs = evaluation(Evaluate.model_validate({"tasks": tasks}).tasks, None).pairs
    assert pairs["score"].to_list() == [1.0, None]


def test_pandas_writes_them_with_a_capital():
    assert flags(pl.Series("label", ["True", " FALSE", "1"]), None).to_list() == [True, False, True]


STRUCTS = {"tags": [{"a": {"dtype": "string", "_type": "Value"}}], "none": None}
"""A column of lists of structs as `datasets` wrote it before 4.0, and one that says nothing."""


def class_labels(path, labels, others):
    """As `datasets` writes a column of ClassLabels."""
    features = {
        **others,
        "label": {"names": ["no", "yes"], "_type": "ClassLabel"},
        "text": {"dtype": "string", "_type": "Value"},
    }
    metadata = {"huggingface": json.dumps({"info": {"features": features}})}
    table = pa.table({"text": texts(count=len(labels)), "label": pa.array(labels, pa.int64())})
    pq.write_table(table.replace_schema_metadata(metadata), path)
    return table.replace_schema_metadata(metadata)


@pytest.mark.parametrize(("where", "others"), [("parquet", {}), ("parquet", STRUCTS), ("hub", {})])
def test_minus_one_of_a_class_label_says_no_label(tmp_path, monkeypatch, where, others):
    labels = [0, 1, -1, None] * 20
    table = class_labels(tmp_path / "train.parquet", labels, others)
    path = (
        str(tmp_path / "train.parquet") if where == "parquet" else hub(tmp_path, monkeypatch, "train", table)
    )
    pl.DataFrame({"text": ["new", "newer"], "label": [0, 1]}).write_parquet(tmp_path / "test.parquet")
    pairs, dropped = read(path, str(tmp_path / "test.parquet"))
    assert set(pairs["label"]) == {"0", "1"}
    assert dropped == {"training_row_without_label": 40}


def test_bytes_are_texts_if_they_are_utf8(tmp_path, monkeypatch):
    table = pa.table(
        {"text": pa.array(["\u00fcber".encode(), b"", None], pa.binary()), "n": [b"1", b"2", b"3"]}
    )
    pq.write_table(table, tmp_path / "x.parquet")
    for path in (tmp_path / "x.parquet", Path(hub(tmp_path, monkeypatch, "x", table))):
        found = read_columns(path, ["text", "n"])
        assert found.rows() == [("\u00fcber", "1"), (None, "2"), (None, "3")]
    pq.write_table(pa.table({"text": [b"fine", b"caf\xe9"]}), tmp_path / "latin.parquet")
    with refuses(tmp_path / "latin.parquet", "row 2 ", "text", "UTF-8", "write texts"):
        read_columns(tmp_path / "latin.parquet", ["text"])


def test_a_column_without_a_value_and_a_file_without_a_row(tmp_path):
    pq.write_table(pa.table({"text": pa.nulls(2)}), tmp_path / "null.parquet")
    pq.write_table(pa.table({"text": pa.array([], pa.string())}), tmp_path / "rows.parquet")
    (tmp_path / "empty.parquet").write_bytes(b"")
    for name, named in (
        ("null.parquet", ("text", "no value in any row", "fill it")),
        ("rows.parquet", ("no row", "delete it")),
        ("empty.parquet", ("is empty", "delete it")),
    ):
        with refuses(tmp_path / name, *named):
            read_columns(tmp_path / name, ["text"])
