"""Tab-separated files with quoted cells, with quotation marks in their texts, and neither for sure."""

import csv

import pytest
from built_corpus import read_texts
from hypothesis import given
from hypothesis import strategies as st
from refusals import refuses

from pipeline.params.evaluate import Evaluate
from pipeline.prepare.readers.user_files import read_columns
from pipeline.prepare.tasks import evaluation

CELLS = st.text(st.sampled_from('ab"\t\n\r ,'), min_size=1, max_size=4)
ROWS = st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=4)
# Python quotes lone carriage returns since 3.13. A cell of a tab and a line break may look like two rows.
TAME = CELLS.filter(lambda cell: "\r" not in cell and not {"\t", "\n"} <= {*cell})


def written(folder, content, name="x.tsv"):
    (folder / name).write_bytes(content.encode())
    return folder / name


QUOTED = {
    "all cells": ('"id"\t"text"\n"1"\t"one"\n"2"\t"two"\n', ["one", "two"]),
    "all texts": ('id\ttext\n1\t"one"\n2\t"two, three"\n', ["one", "two, three"]),
    "a tab": ('id\ttext\n1\t"one\ttwo"\n2\tthree\n', ["one\ttwo", "three"]),
    "a line break": ('id\ttext\n1\t"one\ntwo"\n2\tthree\n', ["one\ntwo", "three"]),
    "a line break of Windows": ('id\ttext\r\n1\t"one\r\ntwo"\r\n2\tthree\r\n', ["one\r\ntwo", "three"]),
    "doubled marks": ('id\ttext\n1\t"he said ""no"""\n2\ttwo\n', ['he said "no"', "two"]),
    "an empty cell": ('id\ttext\n1\t""\n2\ttwo\n', [None, "two"]),
}
PLAIN = {
    "no marks": ("id\ttext\n1\tone\n2\ttwo\n", ["one", "two"]),
    "within": ('id\ttext\n1\ta 5" nail\n2\ttwo\n', ['a 5" nail', "two"]),
    "one at the start": ('id\ttext\n1\t"One, he said\n2\ttwo\n', ['"One, he said', "two"]),
    "around a word at the start": ('id\ttext\n1\t"One" he said\n2\ttwo\n', ['"One" he said', "two"]),
    "around a text among stray ones": ('id\ttext\n1\t"One."\n2\tso "two"\n', ['"One."', 'so "two"']),
    "that make a cell of two lines": ('id\ttext\n1\t"One,\n2\ttwo"\n', ['"One,', 'two"']),
    "that open here and close there": ('id\ttext\n1\t"One,\n2\ttwo" or so\n', ['"One,', 'two" or so']),
    "a carriage return within": ("id\ttext\n1\ta\rb\n2\ttwo\n", ["a\rb", "two"]),
}


@pytest.mark.parametrize("name", QUOTED)
def test_quoted_cells_are_read_without_their_marks_and_it_is_said(tmp_path, capsys, name):
    content, expected = QUOTED[name]
    path = written(tmp_path, content)
    assert read_texts(path, "text").to_list() == expected
    said = capsys.readouterr().err
    assert str(path) in said
    assert "quote cells, as in csv" in said


@pytest.mark.parametrize("name", PLAIN)
def test_marks_of_the_texts_stay_and_it_is_said(tmp_path, capsys, name):
    content, expected = PLAIN[name]
    path = written(tmp_path, content)
    assert read_texts(path, "text").to_list() == expected
    assert ("are part of the texts" in capsys.readouterr().err) == ('\t"' in content)


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (
            'id\ttext\n1\t"Yes"\n2\tno\n',
            ("line 2:", """'"Yes"'""", "all cells of the column or none", ".jsonl"),
        ),
        ('text\n"one\ntwo"\n', ("line 2:", """'"one'""", "all cells of the column or none", ".jsonl")),
        ('id\ttext\n1\t"a\tb\n2\tc" d\n', ("line 2:", "not 2 cells", "line 3", "correct the lines")),
    ],
)
def test_what_may_be_read_both_ways_or_none_is_refused(tmp_path, content, named):
    path = written(tmp_path, content)
    with refuses(path, *named):
        read_texts(path, "text")


def test_glues_sts_benchmark_goes_on_reading_right(tmp_path):
    header = "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore"
    pairs = [
        ('"We have reached an agreement," he said.', '"It is done," he said.'),
        ('"Yes."', 'He said "yes".'),
        ('"An opening mark.', 'A closing mark."'),
    ]
    lines = (
        f"{n}\tmain-news\tMSRpar\t2012\t{n}\tnone\tnone\t{left}\t{right}\t{n}.000"
        for n, (left, right) in enumerate(pairs)
    )
    path = written(tmp_path, "\n".join([header, *lines, ""]), "dev.tsv")
    assert read_columns(path, ["sentence1", "sentence2"]).rows() == pairs


@given(ROWS)
def test_what_csv_quotes_wholly_comes_back(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("all") / "x.tsv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, "excel-tab", quoting=csv.QUOTE_ALL).writerows([("a", "b"), *rows])
    assert read_columns(path, ["a", "b"]).rows() == rows


@given(st.lists(st.tuples(TAME, TAME), min_size=1, max_size=4))
def test_what_csv_quotes_where_it_must_comes_back(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("some") / "x.tsv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, "excel-tab", lineterminator="\n").writerows([("a", "b"), *rows])
    assert read_columns(path, ["a", "b"]).rows() == rows


@pytest.mark.parametrize("mark", ["\r", "\x85", "\u2028", "\x0b"])
@pytest.mark.parametrize("name", ["x.csv", "x.tsv", "x.txt"])
def test_a_row_ends_at_a_line_feed_alone(tmp_path, name, mark):
    path = written(tmp_path, f"text\none{mark}two\r\nthree\n", name)
    assert [text.strip() for text in read_texts(path, "text")][-2:] == [f"one{mark}two", "three"]


def test_a_file_of_carriage_returns_alone_is_told_so(tmp_path):
    for name in ("x.csv", "x.tsv"):
        with refuses(written(tmp_path, "text\rone\rtwo\r", name), "CR alone", "LF"):
            read_texts(tmp_path / name, "text")


@pytest.mark.parametrize(
    ("name", "content", "named"),
    [
        ("x.tsv", "text\tn\ttext\na\t1\tb\n", ("2 columns 'text'", "rename or remove")),
        ("x.csv", "text,text,n,text\na,b,1,c\n", ("3 columns 'text'", "rename or remove")),
        ("x.jsonl", '{"text": "a", "n": 1, "text": "b"}\n', ("line 1:", "'text'", "twice", "remove one")),
    ],
)
def test_two_columns_of_one_name_are_refused_where_they_are_read(tmp_path, name, content, named):
    path = written(tmp_path, content, name)
    with refuses(path, *named):
        read_texts(path, "text")
    if name != "x.jsonl":
        assert read_columns(path, ["n"])["n"].to_list() == ["1"]


def test_a_file_of_a_glob_that_holds_nothing_is_named(tmp_path):
    written(tmp_path, "sentence1\tsentence2\tscore\na\tb\t1\nc\td\t2\n", "a.tsv")
    for content, what in (("", "is empty"), ("sentence1\tsentence2\tscore\n", "has no row")):
        written(tmp_path, content, "b.tsv")
        tasks = {"s": {"kind": "sts", "path": str(tmp_path / "*.tsv"), "range": [0, 5]}}
        with refuses(tmp_path / "b.tsv", what, "delete it"):
            evaluation(Evaluate.model_validate({"tasks": tasks}).tasks, None)


@pytest.mark.parametrize("name", [*QUOTED, *PLAIN])
def test_a_text_file_with_tabs_is_read_likewise(tmp_path, name):
    content, expected = {**QUOTED, **PLAIN}[name]
    assert read_columns(written(tmp_path, content, "x.txt"), ["text"])["text"].to_list() == expected
