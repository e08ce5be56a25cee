import csv
import gzip
import json
import os
from contextlib import suppress

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from built_corpus import read_texts
from hypothesis import given
from hypothesis import strategies as st
from refusals import refuses

from pipeline.core.errors import UserError
from pipeline.prepare.readers import delimited, user_columns, user_files
from pipeline.prepare.readers.beir import read_beir
from pipeline.prepare.readers.named import expand

CELLS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(lambda text: text != "\ufeff")


def write(path, content):
    data = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.txt", "one\r\n\ntwo \u2028 still two"),
        ("x.txt.gz", "one\r\n\ntwo \u2028 still two\n"),
    ],
)
def test_lines_of_a_text_file(tmp_path, name, content, monkeypatch):
    monkeypatch.setattr(delimited, "LINES_AT_A_TIME", 2)
    texts = read_texts(write(tmp_path / name, content), "ignored")
    assert texts.to_list() == ["one\r", "", "two \u2028 still two"]


TABLE = "gold_label\tsentence1\tsentence2\nneutral\tA man looks.\tHe sleeps.\n"


@pytest.mark.parametrize(
    ("name", "content", "column", "texts"),
    [
        ("snli.txt", TABLE, "sentence1", ["A man looks."]),
        ("snli.txt.gz", TABLE, "sentence2", ["He sleeps."]),
        ("quoted.TXT", '"id"\t"two ""words"""\r\n1\t"a\tb"\r\n2\t\r\n', 'two "words"', ["a\tb", None]),
    ],
)
def test_a_text_file_with_a_column_that_is_given_is_a_table(tmp_path, name, content, column, texts):
    path = write(tmp_path / name, content)
    assert read_texts(path, column, "corpus.sources.0.column").to_list() == texts
    assert len(read_texts(path, column)) == len(texts) + 1


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ("one\ntwo\tthree\n", ("'text'", "no tab", "remove `column`")),
        ("one\ttwo\n", ("'text'", "one, two", "remove `column`")),
        ("\none\n", ("no tab",)),
        ("", ("is empty",)),
    ],
)
def test_a_text_file_without_the_column_is_refused(tmp_path, content, named):
    path = write(tmp_path / "x.txt", content)
    with refuses(path, *named, *(["corpus.sources.3.column"] if content else [])):
        read_texts(path, "text", "corpus.sources.3.column")


@pytest.mark.parametrize("name", ["X.CSV", "x.Csv.gz"])
def test_an_ending_in_capitals_is_the_same(tmp_path, name):
    assert read_texts(write(tmp_path / name, "id,text\n1,one\n"), "text").to_list() == ["one"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.csv", 'id,text\n1,"a, ""b"""\n2,\n'),
        ("x.csv.gz", '\ufeffid,text\r\n1,"a, ""b"""\r\n2,\r\n'),
        ("x.tsv", 'id\ttext\n1\ta, "b"\n2\t\n'),
        ("x.jsonl", '{"id": 1, "text": "a, \\"b\\""}\n\n{"id": 2, "text": null}\n'),
    ],
)
@pytest.mark.parametrize("at_a_time", [1, 100])
def test_a_column_of_each_format(tmp_path, name, content, at_a_time, monkeypatch):
    monkeypatch.setattr(delimited, "LINES_AT_A_TIME", at_a_time)
    path = write(tmp_path / name, content)
    assert read_texts(path, "text").to_list() == ['a, "b"', None]
    assert user_columns.numbers(user_files.read_columns(path, ["id"])["id"], path).to_list() == [1.0, 2.0]


@pytest.mark.parametrize("name", ["x.csv", "x.tsv"])
def test_an_empty_line_is_an_empty_cell_of_a_single_column_and_none_of_several(tmp_path, name):
    mark = "," if name == "x.csv" else "\t"
    path = write(tmp_path / name, "\ntext\none\n\ntwo\n")
    assert read_texts(path, "text").to_list() == ["one", None, "two"]
    write(path, f"id{mark}text\n1{mark}one\n\n2{mark}two\n")
    assert read_texts(path, "text").to_list() == ["one", "two"]


def test_a_number_that_is_none_is_an_empty_cell(tmp_path):
    pl.DataFrame({"label": [1.0, float("nan"), None]}).write_parquet(tmp_path / "x.parquet")
    (tmp_path / "x.jsonl").write_text('{"label": 1.0}\n{"label": NaN}\n{"label": null}\n')
    for name in ("x.parquet", "x.jsonl"):
        assert user_files.read_columns(tmp_path / name, ["label"])["label"].to_list() == ["1.0", None, None]


def test_categories_are_texts(tmp_path):
    for dtype in (pl.Categorical, pl.Enum(["a", "b"])):
        pl.DataFrame({"text": ["a", "b", None]}, schema={"text": dtype}).write_parquet(tmp_path / "x.parquet")
        assert user_files.read_columns(tmp_path / "x.parquet", ["text"])["text"].to_list() == ["a", "b", None]


def test_brackets_in_a_name_are_no_pattern(tmp_path):
    pl.DataFrame({"text": ["a"]}).write_parquet(tmp_path / "part[1].parquet")
    pl.DataFrame({"other": ["b"]}).write_parquet(tmp_path / "part1.parquet")
    assert user_files.read_columns(tmp_path / "part[1].parquet", ["text"])["text"].to_list() == ["a"]


def test_two_columns_of_one_name_are_told(tmp_path):
    table = pa.table([["a"], [1], [2]], names=["text", "n", "n"])
    pq.write_table(table, tmp_path / "x.parquet")
    with refuses(tmp_path / "x.parquet", "'n'", "write it again"):
        user_files.read_columns(tmp_path / "x.parquet", ["text"])


def test_a_parquet_column(tmp_path):
    pl.DataFrame({"text": ["a", ""], "score": [0.5, 1.0]}).write_parquet(tmp_path / "x.parquet")
    table = user_files.read_columns(tmp_path / "x.parquet", ["text", "score"])
    assert table["text"].to_list() == ["a", None]
    assert user_columns.numbers(table["score"], tmp_path / "x.parquet").to_list() == [0.5, 1.0]


@given(st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=5))
def test_csv_and_jsonl_give_back_what_was_written(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("round")
    with (folder / "x.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_ALL)
        writer.writerows([("a", "b"), *rows])
    lines = "\n".join(json.dumps(dict(zip("ab", row, strict=True))) for row in rows)
    write(folder / "x.jsonl", lines)
    for name in ("x.csv", "x.jsonl"):
        assert user_files.read_columns(folder / name, ["a", "b"]).rows() == rows


BAD = {
    "no_column.csv": ("id,txet\n1,a\n", ("'text'", "id, txet", "'txet'?")),
    "no_column.jsonl": ('{"text": "a"}\n{"txt": 1}\n', ("line 2 ", "'text'", "'txt'?")),
    "ragged.csv": ("id,text\n1,a\n2,b,c\n", ("line 3:", "3 cells", "2 columns")),
    "open_quote.csv": ('text\n"a\n', ("line 2:", "quotation marks")),
    "latin.txt": (b"fine\ncaf\xe9\n", ("line 2:", "UTF-8", "byte 0xe9")),
    "broken.jsonl": ('{"text": "a"}\n{"text": \n', ("line 2:", "JSON")),
    "array.jsonl": ("[1]\n", ("line 1:", "JSON object", '{"text": ...}')),
    "list.jsonl": ('{"text": ["a"]}\n', ("line 1:", "text", '["a"]')),
    "half.jsonl": ('{"text": "\\ud800"}\n', ("line 1:", "text", "surrogate")),
    "empty.txt": ("", ("params.yaml or fill it",)),
    "empty.csv": ("", ("params.yaml or fill it",)),
    "header.csv": ("text\n", ("params.yaml or fill it",)),
    "empty.jsonl": ("\n", ("params.yaml or fill it",)),
    "fake.parquet": ("text", ("Parquet", "write it again")),
    "x.docx": ("text", (".txt, .jsonl, .csv, .tsv, .parquet",)),
    "x.parquet.gz": ("text", (".txt, .jsonl, .csv, .tsv, .parquet",)),
}


@pytest.mark.parametrize("name", BAD)
def test_a_fault_names_the_file_and_the_place(tmp_path, name):
    content, named = BAD[name]
    with refuses(tmp_path / name, *named):
        read_texts(write(tmp_path / name, content), "text")


def test_a_truncated_gzip_file(tmp_path):
    path = tmp_path / "x.txt.gz"
    path.write_bytes(gzip.compress(b"hello " * 1000)[:-20])
    with refuses(path, "gzip", "compress it again"):
        read_texts(path, "text")


@pytest.mark.parametrize("cell", ["three", "", "nan", "inf"])
def test_a_score_that_is_no_number(tmp_path, cell):
    path = write(tmp_path / "x.tsv", f"score\ttext\n1.5\ta\n{cell}\tb\n")
    with refuses("x.tsv, row 2 ", "score", f"'{cell}'", "number"):
        user_columns.numbers(user_files.read_columns(path, ["score"])["score"], path)


def test_a_score_out_of_bounds(tmp_path):
    path = write(tmp_path / "x.tsv", "score\n0\n5\n5.01\n")
    scores = user_files.read_columns(path, ["score"])["score"]
    assert user_columns.numbers(scores[:2], path, (0, 5)).to_list() == [0, 5]
    with refuses("x.tsv, row 3 ", "score", "'5.01'", "0 and 5"):
        user_columns.numbers(scores, path, (0, 5))


def beir(tmp_path, qrels):
    (tmp_path / "qrels").mkdir()
    write(
        tmp_path / "corpus.jsonl.gz", '{"_id": "d1", "title": "T", "text": "x"}\n{"_id": "d2", "text": "y"}\n'
    )
    write(tmp_path / "queries.jsonl", '{"_id": "q1", "text": "z"}\n')
    write(tmp_path / "qrels" / "test.tsv", qrels)
    return tmp_path


def test_a_title_that_is_null_is_none(tmp_path):
    folder = beir(tmp_path, "query-id\tcorpus-id\tscore\nq1\td1\t2\n")
    write(folder / "corpus.jsonl.gz", '{"_id": "d1", "title": null, "text": "x"}\n')
    assert read_beir(folder, "test").documents == {"d1": "x"}


def test_beir(tmp_path):
    found = read_beir(beir(tmp_path, "query-id\tcorpus-id\tscore\nq1\td2\t2\n"), "test")
    assert found.documents == {"d1": "T x", "d2": "y"}
    assert found.queries == {"q1": "z"}
    assert found.judgements == [("q1", "d2", 2.0)]


def test_beir_judgements_at_fault(tmp_path):
    with refuses("test.tsv, row 1 ", "score", "'yes'", "number"):
        read_beir(beir(tmp_path, "query-id\tcorpus-id\tscore\nq1\td1\tyes\n"), "test")


@pytest.mark.parametrize(
    "scores",
    [["0.5", "0.5", "0"], ["1.0", "2.0", "-0.5"], ["2.5"], ["1000", "1"], ["1e-3", "0.001"]],
)
def test_grades_of_one_value_and_whole_ones_are_read(scores):
    found = user_columns.grades(pl.Series("score", scores), None)
    assert found.to_list() == [float(score) for score in scores]


@pytest.mark.parametrize(
    ("name", "content", "named"),
    [
        ("qrels/test.tsv", "query-id\tdoc\tscore\n", ("'corpus-id'", "query-id, doc, score")),
        ("qrels/test.tsv", "query-id\tcorpus-id\tscore\n", ("params.yaml or fill it",)),
        ("corpus.jsonl.gz", "", ("empty",)),
        ("queries.jsonl", '{"_id": "q1"}\n', ("line 1:", "correct text")),
        ("corpus.jsonl.gz", '{"_id": "d", "text": "a", "title": 3}\n', ("line 1:", "correct title")),
        ("queries.jsonl", '{"_id": "q", "text": "a"}\n' * 2, ("line 2:", "_id 'q'", "remove one")),
    ],
)
def test_beir_files_at_fault(tmp_path, name, content, named):
    folder = beir(tmp_path, "query-id\tcorpus-id\tscore\nq1\td2\t2\n")
    write(folder / name, content)
    with refuses(folder / name, *named):
        read_beir(folder, "test")


def test_beir_names_the_qrels_there_are(tmp_path):
    with refuses("qrels/dev.tsv", "`qrels` can be: test"):
        read_beir(beir(tmp_path, "query-id\tcorpus-id\tscore\n"), "dev")


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
@pytest.mark.parametrize("text", ["one\ntwo\n", "раз и два\nтри\n", "id,text\n1,a\n"])
@pytest.mark.parametrize("name", ["x.txt", "x.csv", "x.tsv", "x.jsonl", "x.txt.gz"])
def test_another_encoding_without_a_mark_is_told(tmp_path, name, text, encoding):
    path = write(tmp_path / name, text.encode(encoding))
    with refuses(path, "line ", "UTF-8"):
        read_texts(path, "text")


@pytest.mark.parametrize("name", ["x.txt", "x.csv", "x.jsonl", "x.parquet"])
def test_a_pipe_is_refused_and_not_waited_for(tmp_path, name):
    path = tmp_path / name
    os.mkfifo(path)
    with refuses(path, "pipe", "file"):
        read_texts(path, "text")
    with refuses("corpus.sources.0.path", path, "pipe"):
        expand(str(path), "corpus.sources.0.path")


def test_a_damaged_parquet_file_is_named_whatever_is_damaged(tmp_path):
    path = tmp_path / "x.parquet"
    pl.DataFrame({"text": ["aé", "b", "c"] * 50, "role": ["text"] * 150}).write_parquet(path)
    whole = path.read_bytes()
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        with suppress(UserError):
            user_files.read_columns(path, ["text"])
