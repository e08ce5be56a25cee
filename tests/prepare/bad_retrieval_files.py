"""Faults in files of retrieval: the task, files that replace those in order, and what is named."""

from bad_lines import lines

BEIR = {"kind": "retrieval", "path": "."}
MARCO = {"kind": "retrieval", "path": ".", "layout": "msmarco", "qrels": "dev"}
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
CASES = {
    "beir: no document is known": (
        BEIR,
        {"qrels/test.tsv": lines(("query-id", "corpus-id", "score"), ("q1", "d8", "1"), ("q1", "d9", "1"))},
        ("test.tsv", "2 judgements", "corpus.jsonl", "row 1: 'd8'", "correct the ids"),
    ),
    "beir: no query is known": (
        BEIR,
        {"qrels/test.tsv": lines(("query-id", "corpus-id", "score"), ("q9", "d1", "1"))},
        ("test.tsv", "1 judgements", "queries.jsonl", "row 1: 'q9'", "correct the ids"),
    ),
    "beir: no query": (
        BEIR,
        {"qrels/test.tsv": lines(("query-id", "corpus-id", "score"), ("", "d1", "1"))},
        ("test.tsv, row 1 ", "query-id", "fill it"),
    ),
    "beir: missing column": (
        BEIR,
        {"qrels/test.tsv": "query-id\tscore\nq1\t1\n"},
        ("test.tsv", "'corpus-id'"),
    ),
    "beir: relevance is no number": (
        BEIR,
        {"qrels/test.tsv": lines(("query-id", "corpus-id", "score"), ("q1", "d1", "yes"))},
        ("test.tsv, row 1 ", "score", "'yes'"),
    ),
    "beir: nothing is relevant": (
        BEIR,
        {"qrels/test.tsv": lines(("query-id", "corpus-id", "score"), ("q1", "d1", "0"))},
        ("qrels test", "score"),
    ),
    "beir: fractions of several values": (
        BEIR,
        {
            "qrels/test.tsv": lines(
                ("query-id", "corpus-id", "score"),
                ("q1", "d1", "1.0"),
                ("q1", "d2", "0.5"),
                ("q1", "d3", "0.1"),
            )
        },
        ("test.tsv, row 2 ", "score", "'0.5'", "not whole", "multiply all of them by 10"),
    ),
    "beir: a huge grade": (
        BEIR,
        {"qrels/test.tsv": lines(("query-id", "corpus-id", "score"), ("q1", "d2", "1"), ("q1", "d1", "3e9"))},
        ("test.tsv, row 2 ", "score", "'3e9'", "1,000", "divide"),
    ),
    "msmarco: a half grade": (
        MARCO,
        {"qrels.dev.tsv": lines(("7", "0", "1", "2"), ("7", "0", "2", "2.5"))},
        ("qrels.dev.tsv, row 2 ", "relevance", "'2.5'", "multiply"),
    ),
    "beir: empty qrels": (BEIR, {"qrels/test.tsv": ""}, ("test.tsv", "params.yaml or fill it")),
    "beir: empty corpus": (BEIR, {"corpus.jsonl": ""}, ("corpus.jsonl ", "empty")),
    "beir: empty queries": (BEIR, {"queries.jsonl": "\n"}, ("queries.jsonl ", "empty")),
    "beir: a document without a text": (
        BEIR,
        {"corpus.jsonl": '{"_id": "d1"}\n'},
        ("corpus.jsonl, line 1:", "correct text"),
    ),
    "beir: half a character": (
        BEIR,
        {"corpus.jsonl": '{"_id": "d1", "text": "one"}\n{"_id": "d2", "text": "two \\ud83d"}\n'},
        ("corpus.jsonl, line 2 ", "surrogate"),
    ),
    "beir: half a character in an id": (
        BEIR,
        {"corpus.jsonl": '{"_id": "d1\\ud83d", "text": "one"}\n'},
        ("corpus.jsonl, line 1: _id ", "surrogate"),
    ),
    "beir: a query of invisible characters": (
        BEIR,
        {"queries.jsonl": '{"_id": "q1", "text": "\u200b\u0007"}\n'.replace("\u0007", "\\u0007")},
        ("queries.jsonl, line 1:", "text of 'q1'"),
    ),
    "beir: a query without words": (
        BEIR,
        {"queries.jsonl": '{"_id": "q1", "text": " "}\n'},
        ("queries.jsonl, line 1:", "text of 'q1'"),
    ),
    "beir: an id twice": (
        BEIR,
        {"queries.jsonl": 2 * '{"_id": "q1", "text": "a"}\n'},
        ("queries.jsonl, line 2:", "_id 'q1'", "remove one"),
    ),
    "beir: no qrels": ({**BEIR, "qrels": "dev"}, {}, ("dev.tsv", "`qrels` can be: test")),
    "beir: no folder": ({**BEIR, "path": "none"}, {}, ("none ", "BEIR")),
    "ms marco: no document is known": (
        MARCO,
        {"qrels.dev.tsv": "7\t0\t9\t1\n"},
        ("qrels.dev.tsv", "collection.tsv", "row 1: '9'", "correct the ids"),
    ),
    "ms marco: no query is known": (
        MARCO,
        {"qrels.dev.tsv": "8\t0\t1\t1\n"},
        ("qrels.dev.tsv", "queries.dev.tsv", "row 1: '8'", "correct the ids"),
    ),
    "ms marco: short line": (
        MARCO,
        {"qrels.dev.tsv": "7\t0\t1\t1\n7\t1\n"},
        ("qrels.dev.tsv, line 2:", "2 cells"),
    ),
    "ms marco: empty collection": (
        MARCO,
        {"collection.tsv": ""},
        ("collection.tsv", "params.yaml or fill it"),
    ),
    "ms marco: no text": (
        MARCO,
        {"collection.tsv": "1\tone\n2\t\n"},
        ("collection.tsv, row 2 ", "passage", "fill it"),
    ),
    "ms marco: an id twice": (
        MARCO,
        {"collection.tsv": "1\tone\n1\ttwo\n"},
        ("collection.tsv, line 2:", "id '1'", "remove one"),
    ),
}
WHOLE = {"beir": COLLECTION, "msmarco": PASSAGES}
"""Files that are in order, by layout."""
