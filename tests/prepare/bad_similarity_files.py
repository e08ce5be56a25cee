"""Faults in the files of similarity tasks: the task, files, and what is named."""

import io
import json

import polars as pl
from bad_lines import lines

STS = {"kind": "sts", "path": "x.tsv", "range": [0, 5]}
STSB = "main\tMSRpar\t2012\t0\t{}\tone\ttwo\n"
SICK = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\n1\tone\ttwo\t{}\n"
SEMEVAL = {"STS.input.x.txt": "a\tb\nc\td\n", "STS.gs.x.txt": "1\n2\n"}


def sts(*rows):
    return {"x.tsv": lines(("sentence1", "sentence2", "score"), *rows)}


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
        ("x.tsv", "'sentence2'"),
    ),
    "sts: score out of range": (
        STS,
        sts("ab1", "ab6"),
        ("x.tsv, row 2 ", "score", "'6'", "0 and 5"),
    ),
    "sts: score is no number": (STS, sts("abx"), ("x.tsv, row 1 ", "score", "'x'", "number")),
    "sts: no score": (STS, sts("ab1", ("a", "b", "")), ("x.tsv, row 2 ", "score", "''", "number")),
    "sts: empty cell": (STS, sts("ab1", ("a", " ", "1")), ("x.tsv, row 2 ", "sentence2", "fill it")),
    "sts: one score": (
        STS,
        sts("ab1", "cd1"),
        ("x.tsv", "one score", "another column"),
    ),
    "sts: short line": (STS, sts("ab1", "ab"), ("x.tsv, line 3:", "2 cells", "3 columns")),
    "sts: empty file": (STS, {"x.tsv": ""}, ("x.tsv", "params.yaml or fill it")),
    "sts: header alone": (STS, sts(), ("x.tsv", "params.yaml or fill it")),
    "sts: no file": (STS, {}, ("x.tsv", "correct the path")),
    "sts: not UTF-8": (
        STS,
        {"x.tsv": b"sentence1\tsentence2\tscore\n\xff\tb\t1\n"},
        ("x.tsv, line 2:", "UTF-8"),
    ),
    "sts parquet: missing column": (
        AT,
        parquet(sentence1=["a"], score=[1]),
        ("x.parquet", "'sentence2'"),
    ),
    "sts parquet: null": (
        AT,
        parquet(sentence1=["a", None], sentence2=["b", "b"], score=[1, 2]),
        ("x.parquet, row 2 ", "sentence1", "fill it"),
    ),
    "sts parquet: score out of range": (
        AT,
        parquet(sentence1=["a"], sentence2=["b"], score=[9]),
        ("x.parquet, row 1 ", "score", "'9'", "0 and 5"),
    ),
    "sts parquet: no rows": (
        AT,
        parquet(sentence1=pl.Series([], dtype=pl.String), sentence2=pl.Series([], dtype=pl.String), score=[]),
        ("x.parquet has no row", "params.yaml or fill it"),
    ),
    "sts jsonl: missing key": (
        JS,
        jsonl(GOOD_ROW, {"sentence1": "a"}),
        ("x.jsonl, line 2 ", "'sentence2'"),
    ),
    "sts jsonl: not JSON": (JS, {"x.jsonl": "{\n"}, ("x.jsonl, line 1:", "JSON")),
    "sts jsonl: score out of range": (
        JS,
        jsonl(GOOD_ROW, {**GOOD_ROW, "score": -1}),
        ("x.jsonl, row 2 ", "score", "'-1'"),
    ),
    "sts jsonl: empty": (JS, {"x.jsonl": ""}, ("x.jsonl", "params.yaml or fill it")),
    # STS: official files
    "semeval: score out of range": (
        {"kind": "sts", "path": "."},
        SEMEVAL | {"STS.gs.x.txt": "1\n7\n"},
        ("STS.gs.x.txt, row 2 ", "score", "'7'"),
    ),
    "semeval: a line without a tab": (
        {"kind": "sts", "path": "."},
        SEMEVAL | {"STS.input.x.txt": "a\tb\nc d\n"},
        ("STS.input.x.txt, line 2:", "1 cells"),
    ),
    "semeval: lines are missing": (
        {"kind": "sts", "path": "."},
        SEMEVAL | {"STS.gs.x.txt": "1\n"},
        ("STS.gs.x.txt", " 1 lines", "STS.input.x.txt 2"),
    ),
    "semeval: empty": (
        {"kind": "sts", "path": "."},
        SEMEVAL | {"STS.input.x.txt": ""},
        ("STS.input.x.txt", "params.yaml or fill it"),
    ),
    "sts benchmark: score out of range": (
        {"kind": "sts", "path": "sts-test.csv"},
        {"sts-test.csv": STSB.format(1) + STSB.format(5.5)},
        ("sts-test.csv, row 2 ", "score", "'5.5'"),
    ),
    "sts benchmark: short line": (
        {"kind": "sts", "path": "sts-test.csv"},
        {"sts-test.csv": STSB.format(1) + "main\tMSRpar\n"},
        ("sts-test.csv, line 2:", "2 cells"),
    ),
    "sick: score out of range": (
        {"kind": "sts", "path": "SICK_test.txt"},
        {"SICK_test.txt": SICK.format(0)},
        ("SICK_test.txt, row 1 ", "relatedness_score", "'0'", "1 and 5"),
    ),
    "sick: missing column": (
        {"kind": "sts", "path": "SICK_test.txt"},
        {"SICK_test.txt": "sentence_A\tsentence_B\na\tb\n"},
        ("SICK_test.txt", "'relatedness_score'"),
    ),
    "the papers' sets: no such folder": (
        {"kind": "sts_sets", "path": "none"},
        {},
        ("none/STS/STS12-en-test", "path"),
    ),
}
