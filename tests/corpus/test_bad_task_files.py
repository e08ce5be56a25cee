"""Whatever is wrong with a task's files, of any kind and layout, one line says in which file and row."""

import io
import json

import polars as pl
import pytest

from pipeline.core.errors import UserError
from pipeline.core.params.evaluate import Evaluate
from pipeline.corpus.tasks import evaluation

STS = {"kind": "sts", "path": "x.tsv", "range": [0, 5]}
CLASS = {"kind": "classification", "train": "train.tsv", "test": "test.tsv"}
PAIR = {"kind": "pair_classification", "train": "train.tsv", "test": "test.tsv"}
BEIR = {"kind": "retrieval", "path": "."}
MARCO = {"kind": "retrieval", "path": ".", "layout": "msmarco", "qrels": "dev"}
ER = {"kind": "entity_resolution", "path": "x.tsv"}
SST2, MRPC, QQP, MNLI = ({"kind": kind, "path": "."} for kind in ("sst2", "mrpc", "qqp", "mnli"))

TRAIN = "text\tlabel\n" + "".join(f"text {n}\t{n % 2}\n" for n in range(30))
PAIRS = "sentence1\tsentence2\tlabel\n" + "".join(f"left {n}\tright {n}\t{n % 2}\n" for n in range(30))
COLLECTION = {
    "corpus.jsonl": '{"_id": "d1", "text": "one"}\n{"_id": "d2", "text": "two"}\n',
    "queries.jsonl": '{"_id": "q1", "text": "what"}\n',
    "qrels/test.tsv": "query-id\tcorpus-id\tscore\nq1\td1\t1\n",
}
PASSAGES = {
    "collection.tsv": "1\tone\n2\ttwo\n",
    "queries.dev.tsv": "7\twhat\n",
    "qrels.dev.tsv": "7\t0\t1\t1\n",
}
SST2_FILES = {"train.tsv": TRAIN.replace("text\t", "sentence\t", 1), "dev.tsv": "sentence\tlabel\nfine\t1\n"}
MRPC_HEADER = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
MRPC_FILES = {
    name: MRPC_HEADER + "".join(f"{n % 2}\t1\t2\t{name} {n}\tright {n}\n" for n in range(30))
    for name in ("train.tsv", "dev.tsv")
}
QQP_HEADER = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n"
QQP_FILES = {
    name: QQP_HEADER + "".join(f"1\t2\t3\t{name} {n}\tright {n}\t{n % 2}\n" for n in range(30))
    for name in ("train.tsv", "dev.tsv")
}
MNLI_HEADER = "index\tsentence1\tsentence2\tgold_label\n"
MNLI_FILES = {
    name: MNLI_HEADER
    + "".join(
        f"1\t{name} {n}\tright {n}\t{('entailment', 'neutral', 'contradiction')[n % 3]}\n" for n in range(45)
    )
    for name in ("train.tsv", "dev_matched.tsv", "dev_mismatched.tsv")
}
STSB = "main\tMSRpar\t2012\t0\t{}\tone\ttwo\n"
SICK = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\n1\tone\ttwo\t{}\n"
SEMEVAL = {"STS.input.x.txt": "a\tb\nc\td\n", "STS.gs.x.txt": "1\n2\n"}
ROW = "of the data: "


def lines(*rows):
    return "".join("\t".join(row) + "\n" for row in rows)


def sts(*rows):
    return {"x.tsv": lines(("sentence1", "sentence2", "score"), *rows)}


def er(*rows):
    return {"x.tsv": lines(("query", "entity", "label"), *rows)}


def parquet(**columns):
    buffer = io.BytesIO()
    pl.DataFrame(columns).write_parquet(buffer)
    return {"x.parquet": buffer.getvalue()}


def jsonl(*rows):
    return {"x.jsonl": "".join(json.dumps(row) + "\n" for row in rows)}


AT = {**STS, "path": "x.parquet"}
JS = {**STS, "path": "x.jsonl"}
GOOD_ROW = {"sentence1": "a", "sentence2": "b", "score": 1}
CASES = {
    # STS: columns of every format
    "sts: missing column": (
        STS,
        {"x.tsv": "sentence1\tsentence\tscore\na\tb\t1\n"},
        "x.tsv has no column 'sentence2'",
    ),
    "sts: score out of range": (
        STS,
        sts("ab1", "ab6"),
        f"x.tsv, row 2 {ROW}score is '6', not between 0 and 5",
    ),
    "sts: score is no number": (STS, sts("abx"), f"x.tsv, row 1 {ROW}score is 'x', not a number"),
    "sts: no score": (STS, sts("ab1", ("a", "b", "")), f"x.tsv, row 2 {ROW}score is '', not a number"),
    "sts: empty cell": (STS, sts("ab1", ("a", " ", "1")), f"x.tsv, row 2 {ROW}sentence2 is empty"),
    "sts: short line": (STS, sts("ab1", "ab"), "x.tsv, line 3: 2 cells for 3 columns"),
    "sts: empty file": (STS, {"x.tsv": ""}, "x.tsv is empty"),
    "sts: header alone": (STS, sts(), "x.tsv is empty"),
    "sts: no file": (STS, {}, "x.tsv does not exist"),
    "sts: not UTF-8": (
        STS,
        {"x.tsv": b"sentence1\tsentence2\tscore\n\xff\tb\t1\n"},
        "x.tsv, line 2: invalid UTF-8",
    ),
    "sts parquet: missing column": (
        AT,
        parquet(sentence1=["a"], score=[1]),
        "x.parquet has no column 'sentence2'",
    ),
    "sts parquet: null": (
        AT,
        parquet(sentence1=["a", None], sentence2=["b", "b"], score=[1, 2]),
        f"x.parquet, row 2 {ROW}sentence1 is empty",
    ),
    "sts parquet: score out of range": (
        AT,
        parquet(sentence1=["a"], sentence2=["b"], score=[9]),
        f"x.parquet, row 1 {ROW}score is '9', not between 0 and 5",
    ),
    "sts parquet: no rows": (
        AT,
        parquet(sentence1=pl.Series([], dtype=pl.String), sentence2=pl.Series([], dtype=pl.String), score=[]),
        "x.parquet",
    ),
    "sts jsonl: missing key": (
        JS,
        jsonl(GOOD_ROW, {"sentence1": "a"}),
        "x.jsonl, line 2 has no column 'sentence2'",
    ),
    "sts jsonl: not JSON": (JS, {"x.jsonl": "{\n"}, "x.jsonl, line 1: not JSON"),
    "sts jsonl: score out of range": (
        JS,
        jsonl(GOOD_ROW, {**GOOD_ROW, "score": -1}),
        f"x.jsonl, row 2 {ROW}score is '-1'",
    ),
    "sts jsonl: empty": (JS, {"x.jsonl": ""}, "x.jsonl is empty"),
    # STS: official files
    "semeval: score out of range": (
        {"kind": "sts", "path": "."},
        SEMEVAL | {"STS.gs.x.txt": "1\n7\n"},
        f"STS.gs.x.txt, row 2 {ROW}score is '7'",
    ),
    "semeval: a line without a tab": (
        {"kind": "sts", "path": "."},
        SEMEVAL | {"STS.input.x.txt": "a\tb\nc d\n"},
        "STS.input.x.txt, line 2: 1 cells",
    ),
    "semeval: lines are missing": (
        {"kind": "sts", "path": "."},
        SEMEVAL | {"STS.gs.x.txt": "1\n"},
        "STS.gs.x.txt has 1 lines and STS.input.x.txt 2",
    ),
    "semeval: empty": (
        {"kind": "sts", "path": "."},
        SEMEVAL | {"STS.input.x.txt": ""},
        "STS.input.x.txt is empty",
    ),
    "sts benchmark: score out of range": (
        {"kind": "sts", "path": "sts-test.csv"},
        {"sts-test.csv": STSB.format(1) + STSB.format(5.5)},
        f"sts-test.csv, row 2 {ROW}score is '5.5'",
    ),
    "sts benchmark: short line": (
        {"kind": "sts", "path": "sts-test.csv"},
        {"sts-test.csv": STSB.format(1) + "main\tMSRpar\n"},
        "sts-test.csv, line 2: 2 cells",
    ),
    "sick: score out of range": (
        {"kind": "sts", "path": "SICK_test.txt"},
        {"SICK_test.txt": SICK.format(0)},
        f"SICK_test.txt, row 1 {ROW}relatedness_score is '0', not between 1 and 5",
    ),
    "sick: missing column": (
        {"kind": "sts", "path": "SICK_test.txt"},
        {"SICK_test.txt": "sentence_A\tsentence_B\na\tb\n"},
        "SICK_test.txt has no column 'relatedness_score'",
    ),
    "the papers' sets: no such folder": (
        {"kind": "sts_sets", "path": "none"},
        {},
        "none/STS/STS12-en-test does not exist",
    ),
    # Retrieval
    "beir: unknown document": (
        BEIR,
        {"qrels/test.tsv": lines(("query-id", "corpus-id", "score"), ("q1", "d1", "1"), ("q1", "d9", "1"))},
        f"test.tsv, row 2 {ROW}'d9' is not in corpus.jsonl",
    ),
    "beir: unknown query": (
        BEIR,
        {"qrels/test.tsv": lines(("query-id", "corpus-id", "score"), ("q9", "d1", "1"))},
        f"test.tsv, row 1 {ROW}'q9' is not in queries.jsonl",
    ),
    "beir: no query": (
        BEIR,
        {"qrels/test.tsv": lines(("query-id", "corpus-id", "score"), ("", "d1", "1"))},
        f"test.tsv, row 1 {ROW}query-id is empty",
    ),
    "beir: missing column": (
        BEIR,
        {"qrels/test.tsv": "query-id\tscore\nq1\t1\n"},
        "test.tsv has no column 'corpus-id'",
    ),
    "beir: relevance is no number": (
        BEIR,
        {"qrels/test.tsv": lines(("query-id", "corpus-id", "score"), ("q1", "d1", "yes"))},
        f"test.tsv, row 1 {ROW}score is 'yes'",
    ),
    "beir: nothing is relevant": (
        BEIR,
        {"qrels/test.tsv": lines(("query-id", "corpus-id", "score"), ("q1", "d1", "0"))},
        "the qrels test have no score above 0",
    ),
    "beir: empty qrels": (BEIR, {"qrels/test.tsv": ""}, "test.tsv is empty"),
    "beir: empty corpus": (BEIR, {"corpus.jsonl": ""}, "corpus.jsonl is empty"),
    "beir: empty queries": (BEIR, {"queries.jsonl": "\n"}, "queries.jsonl is empty"),
    "beir: a document without a text": (
        BEIR,
        {"corpus.jsonl": '{"_id": "d1"}\n'},
        "corpus.jsonl, line 1: expected",
    ),
    "beir: a query without words": (
        BEIR,
        {"queries.jsonl": '{"_id": "q1", "text": " "}\n'},
        "queries.jsonl, line 1: the text of 'q1' is empty",
    ),
    "beir: an id twice": (
        BEIR,
        {"queries.jsonl": 2 * '{"_id": "q1", "text": "a"}\n'},
        "queries.jsonl, line 2: the _id 'q1'",
    ),
    "beir: no qrels": ({**BEIR, "qrels": "dev"}, {}, "dev.tsv does not exist; `qrels` can be: test"),
    "beir: no folder": ({**BEIR, "path": "none"}, {}, "none is not a folder"),
    "ms marco: unknown document": (
        MARCO,
        {"qrels.dev.tsv": "7\t0\t9\t1\n"},
        f"qrels.dev.tsv, row 1 {ROW}'9' is not in",
    ),
    "ms marco: unknown query": (
        MARCO,
        {"qrels.dev.tsv": "8\t0\t1\t1\n"},
        f"qrels.dev.tsv, row 1 {ROW}'8' is not in",
    ),
    "ms marco: short line": (
        MARCO,
        {"qrels.dev.tsv": "7\t0\t1\t1\n7\t1\n"},
        "qrels.dev.tsv, line 2: 2 cells",
    ),
    "ms marco: empty collection": (MARCO, {"collection.tsv": ""}, "collection.tsv is empty"),
    "ms marco: no text": (
        MARCO,
        {"collection.tsv": "1\tone\n2\t\n"},
        f"collection.tsv, row 2 {ROW}passage is empty",
    ),
    "ms marco: an id twice": (
        MARCO,
        {"collection.tsv": "1\tone\n1\ttwo\n"},
        "collection.tsv, line 2: the id '1'",
    ),
    # Classes
    "classes: missing column": (CLASS, {"test.tsv": "text\tlable\na\t1\n"}, "test.tsv has no column 'label'"),
    "classes: no label": (
        CLASS,
        {"test.tsv": "text\tlabel\na\t1\nb\t\n"},
        f"test.tsv, row 2 {ROW}label is empty",
    ),
    "classes: no text": (CLASS, {"train.tsv": TRAIN + "\t1\n"}, f"train.tsv, row 31 {ROW}text is empty"),
    "classes: an unknown label": (
        CLASS,
        {"test.tsv": "text\tlabel\na\t1\nb\t2\n"},
        "test.tsv, row 2 of the data: no row",
    ),
    "classes: one label": (CLASS, {"train.tsv": TRAIN.replace("\t0", "\t1")}, "mine.train leaves"),
    "classes: empty file": (CLASS, {"train.tsv": ""}, "train.tsv is empty"),
    "classes: header alone": (CLASS, {"test.tsv": "text\tlabel\n"}, "test.tsv is empty"),
    "classes: long line": (
        CLASS,
        {"test.tsv": "text\tlabel\na\t1\t2\n"},
        "test.tsv, line 2: 3 cells for 2 columns",
    ),
    "pairs: missing column": (
        PAIR,
        {"test.tsv": "sentence1\tlabel\na\t1\n"},
        "test.tsv has no column 'sentence2'",
    ),
    "pairs: empty cell": (
        PAIR,
        {"test.tsv": "sentence1\tsentence2\tlabel\na\t\t1\n"},
        f"test.tsv, row 1 {ROW}sentence2 is empty",
    ),
    # Entity resolution
    "entities: missing column": (
        ER,
        {"x.tsv": "query\tname\tlabel\na\tb\t1\n"},
        "x.tsv has no column 'entity'",
    ),
    "entities: a label out of range": (ER, er("ab1", "ac2"), f"x.tsv, row 2 {ROW}label is '2', not 0 or 1"),
    "entities: empty cell": (ER, er("ab1", ("", "c", "1")), f"x.tsv, row 2 {ROW}query is empty"),
    "entities: no match": (ER, er("ab0"), "x.tsv: no row of the subset"),
    "entities: empty file": (ER, {"x.tsv": ""}, "x.tsv is empty"),
    # GLUE
    "sst2: a label out of range": (
        SST2,
        {"dev.tsv": "sentence\tlabel\nfine\t2\n"},
        f"dev.tsv, row 1 {ROW}label is '2', not one of 0, 1",
    ),
    "sst2: no label": (SST2, {"dev.tsv": "sentence\tlabel\nfine\t\n"}, f"dev.tsv, row 1 {ROW}label is ''"),
    "sst2: the secret test as dev": (
        SST2,
        {"dev.tsv": "index\tsentence\n0\tfine\n"},
        "dev.tsv has no column 'label'",
    ),
    "sst2: empty file": (SST2, {"train.tsv": ""}, "train.tsv is empty"),
    "sst2: long line": (
        SST2,
        {"dev.tsv": "sentence\tlabel\nfine\t1\t1\n"},
        "dev.tsv, line 2: 3 cells for 2 columns",
    ),
    "sst2: no files": ({**SST2, "path": "none"}, {}, "none is not a folder; sst2 is read from a folder with"),
    "sst2 of senteval: short line": (
        {**SST2, "path": "binary"},
        {f"binary/sentiment-{part}": "fine\t1\nbad\n" for part in ("train", "dev", "test")},
        "sentiment-train, line 2: 1 cells, not sentence, label",
    ),
    "mrpc: a label out of range": (
        MRPC,
        {"dev.tsv": MRPC_HEADER + "yes\t1\t2\ta\tb\n"},
        f"dev.tsv, row 1 {ROW}Quality is 'yes'",
    ),
    "mrpc: missing column": (
        MRPC,
        {"dev.tsv": "Quality\t#1 String\n1\ta\n"},
        "dev.tsv has no column '#2 String'",
    ),
    "mrpc: empty cell": (
        MRPC,
        {"dev.tsv": MRPC_HEADER + "1\t1\t2\ta\t\n"},
        f"dev.tsv, row 1 {ROW}#2 String is empty",
    ),
    "mrpc: header alone": (MRPC, {"dev.tsv": MRPC_HEADER}, "dev.tsv is empty"),
    "qqp: a label out of range": (
        QQP,
        {"dev.tsv": QQP_HEADER + "broken\n1\t2\t3\ta\tb\t3\n"},
        "dev.tsv, line 3: is_duplicate is '3', not one of 0, 1",
    ),
    "qqp: missing column": (
        QQP,
        {"dev.tsv": "id\tquestion1\tquestion2\n1\ta\tb\n"},
        "dev.tsv has no column 'is_duplicate'",
    ),
    "qqp: nothing but broken lines": (QQP, {"dev.tsv": QQP_HEADER + "broken\n"}, "dev.tsv is empty"),
    "mnli: an unknown label": (
        MNLI,
        {"dev_matched.tsv": MNLI_HEADER + "1\ta\tb\thidden\n"},
        f"dev_matched.tsv, row 1 {ROW}gold_label is 'hidden', not one of entailment",
    ),
    "mnli: empty cell": (
        MNLI,
        {"dev_mismatched.tsv": MNLI_HEADER + "1\ta\t\tneutral\n"},
        f"dev_mismatched.tsv, row 1 {ROW}sentence2 is empty",
    ),
    "mnli: no mismatched": (
        MNLI,
        {"dev_mismatched.tsv": None},
        "lacks files; mnli is read from a folder with train.tsv and dev_mismatched.tsv",
    ),
}
WHOLE = {
    "retrieval": {"beir": COLLECTION, "msmarco": PASSAGES},
    "classification": {"train.tsv": TRAIN, "test.tsv": "text\tlabel\nnew\t1\n"},
    "pair_classification": {"train.tsv": PAIRS, "test.tsv": "sentence1\tsentence2\tlabel\na\tb\t1\n"},
    "sst2": SST2_FILES,
    "mrpc": MRPC_FILES,
    "qqp": QQP_FILES,
    "mnli": MNLI_FILES,
}
"""Files that are in order, by kind; a case replaces some."""


def whole(block):
    files = WHOLE.get(block["kind"], {})
    return files[block.get("layout", "beir")] if block["kind"] == "retrieval" else files


def read(tmp_path, monkeypatch, block, files):
    monkeypatch.chdir(tmp_path)
    for name, content in files.items():
        if content is not None:
            path = tmp_path / name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
    return evaluation(Evaluate.model_validate({"tasks": {"mine": block}}).tasks, None)


@pytest.mark.parametrize("case", CASES)
def test_one_line_names_the_file_and_the_row(tmp_path, monkeypatch, case):
    block, files, message = CASES[case]
    with pytest.raises(UserError) as error:
        read(tmp_path, monkeypatch, block, whole(block) | files)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "block", [BEIR, MARCO, CLASS, PAIR, SST2, MRPC, QQP, MNLI], ids=lambda block: str(block)
)
def test_the_files_without_the_fault_make_a_task(tmp_path, monkeypatch, block):
    assert len(read(tmp_path, monkeypatch, block, whole(block)).pairs)
