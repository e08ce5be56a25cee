from pathlib import Path

import polars as pl
from built_corpus import NOTHING, build, source
from refusals import refuses
from ruamel.yaml import YAML
from small_params import small_params

from pipeline.data.common.texts import CORPUS_SCHEMA, fold
from pipeline.params.corpus import Corpus
from pipeline.params.load import load
from pipeline.prepare.shared.cleaning import check_ids
from pipeline.prepare.sources import read_sources


def corpus_params(**fields):
    return Corpus.model_validate({"sources": [{"kind": "wordnet"}], **fields})


def test_every_dropped_row_is_counted_by_reason():
    texts = [
        "one two three",
        "one  two three ",
        "two words",
        None,
        " \t ",
        "one two three four five six",
        "aaaaaaaaaaaaaaaaaaaa bbbbbbbbbbbbbbbbbbb c",
        "The dog, barks!",
        "kept as it is",
    ]
    held_out = fold(pl.Series(["the DOG barks"]))
    table, [report] = build([source(*texts)], corpus_params(max_words=5, max_chars=30), held_out)
    assert sorted(table["text"]) == ["kept as it is", "one two three"]
    assert report.dropped == {
        "duplicate": 1,
        "too_few_words": 1,
        "empty": 2,
        "too_many_words": 1,
        "too_many_chars": 1,
        "evaluation_text": 1,
    }
    assert report.rows_in == report.rows_out + sum(report.dropped.values())


def test_where_a_script_has_no_spaces_letters_are_counted_as_words():
    texts = ["我爱猫。", "好的。", "ฉันรักแมว", "ไป", "你好你好你好你好你好", "three more words"]
    table, [report] = build([source(*texts)], corpus_params(max_words=9), NOTHING)
    assert set(table["text"]) == {"我爱猫。", "ฉันรักแมว", "three more words"}
    assert report.dropped == {"too_few_words": 2, "too_many_words": 1}


def test_a_reason_that_costs_most_of_a_source_is_said(capsys):
    build([source("one", "two", "three more words")], corpus_params(), NOTHING)
    build([source("one", "three more words")], corpus_params(), NOTHING)
    build([source("a b c", "d e f", "g h i", limit=1)], corpus_params(), NOTHING)
    build([source("a b c"), source(*"defghi", name="b", joined=3)], corpus_params(min_words=1), NOTHING)
    long = [source("a b"), source(*"defghi", name="b", joined=3)]
    build(long, corpus_params(min_words=1, max_words=2), NOTHING)
    assert capsys.readouterr().err.splitlines() == [
        "a: 2 of 3 texts are dropped as too_few_words",
        "b: 2 of 2 texts are dropped as too_many_words",
    ]


def test_of_equal_texts_the_first_source_keeps_its():
    sources = [source("one two three", name="a"), source("one two three", "four five six", name="b")]
    table, reports = build(sources, corpus_params(), NOTHING)
    assert dict(table.select("text", "source").iter_rows()) == {"one two three": "a", "four five six": "b"}
    assert reports[1].dropped == {"duplicate_of_earlier_source": 1}


def test_limit_and_split_do_not_depend_on_the_order():
    texts = [f"this is text {i}" for i in range(2000)]
    forwards, [report] = build([source(*texts, limit=1000)], corpus_params(dev_fraction=0.1), NOTHING)
    backwards, _ = build([source(*texts[::-1], limit=1000)], corpus_params(dev_fraction=0.1), NOTHING)
    forwards, backwards = (
        found.select(list(CORPUS_SCHEMA)).sort("text_id") for found in (forwards, backwards)
    )
    assert forwards.equals(backwards)
    assert report.dropped == {"over_limit": 1000}
    assert 60 < (forwards["split"] == "dev").sum() < 140


def test_no_training_text_is_a_dev_text_but_for_case_and_punctuation():
    plain = [f"the cat number {number} sat here" for number in range(300)]
    sources = [source(*plain), source(*[f"{text.capitalize()}!" for text in plain], name="b")]
    corpus, reports = build(sources, corpus_params(dev_fraction=0.1), NOTHING)
    parts = {name: part for (name,), part in corpus.partition_by("split", as_dict=True).items()}
    assert not {*fold(parts["dev"]["text"])} & {*fold(parts["train"]["text"])}
    gone = 600 - len(corpus)
    assert 30 < gone < 90
    assert sum(report.dropped["dev_text"] for report in reports) == gone
    assert all(report.rows_out + report.dropped["dev_text"] == report.rows_in == 300 for report in reports)


def test_no_text_is_joined_to_one_of_another_file():
    rows = ["a b c", "d e f", "g h i", "j k l", "m n o"]
    table, _ = build([source(*rows, joined=2, lengths=(3, 2))], corpus_params(), NOTHING)
    assert table["text"].sort().to_list() == ["a b c d e f", "g h i", "j k l m n o"]


def test_successive_texts_are_joined_and_none_of_an_evaluation_is_among_them():
    texts = ["one is one", "short", "The dog, barks!", "two are two", "", "three or more", "a  b", "d e f"]
    sources = [source("three or more a b", name="a"), source(*texts, name="b", joined=2)]
    table, [_, report] = build(sources, corpus_params(max_words=6), fold(pl.Series(["the DOG barks"])))
    joined = table.filter(pl.col("source") == "b").sort("row")["text"].to_list()
    assert joined == ["one is one short", "two are two", "d e f"]
    assert report.dropped == {
        "empty": 1,
        "evaluation_text": 1,
        "joined_to_another": 2,
        "duplicate_of_earlier_source": 1,
    }
    assert report.rows_in == report.rows_out + sum(report.dropped.values())
    _, [report] = build([source("a b c", "d e f", "g h i", joined=2)], corpus_params(max_words=5), NOTHING)
    assert report.dropped == {"joined_to_another": 1, "too_many_words": 1}


def test_an_empty_corpus_is_an_error_with_the_counts():
    with refuses("a: 2 rows", "1 empty", "1 too_few_words", "`corpus:` in params.yaml"):
        build([source("", "short")], corpus_params(), NOTHING)


def test_two_texts_with_one_id_are_an_error_that_names_both():
    texts = pl.DataFrame({"text_id": [7, 7, 8], "text": ["left", "right", "other"]})
    with refuses("text_id 7", "'left'", "'right'", "remove one"):
        check_ids(texts)
    check_ids(pl.DataFrame({"text_id": [7, 7], "text": ["same", "same"]}))


def test_a_column_of_params_yaml_makes_tables_of_text_files(folder):
    Path("a.txt").write_text("gold\tpremise\nno\tone two three\n")
    Path("b.tsv").write_text("premise\nfour five six\n")
    table = {"kind": "files", "path": "[ab].t*", "column": "premise"}
    lines = {"kind": "files", "path": "a.txt"}

    def texts(*sources):
        with Path("params.yaml").open("w") as file:
            YAML().dump(small_params(corpus={"sources": list(sources)}), file)
        params = load(Path("params.yaml"))
        sources = read_sources(params.corpus.sources, None, None, Path(".cache"))
        return [[text for rows in source.rows for text in rows.texts] for source in sources]

    assert texts(lines, table) == [
        ["gold\tpremise", "no\tone two three"],
        ["one two three", "four five six"],
    ]
    Path("a.txt").write_text("one two three\n")
    with refuses("corpus.sources.1.column", "'premise'", "a.txt", "remove `column`"):
        texts(lines, table)
