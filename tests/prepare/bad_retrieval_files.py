"""Faults in files of retrieval: the task, files that replace those in order, and what is said of them."""

from bad_lines import ROW, lines

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
    "beir: half a character": (
        BEIR,
        {"corpus.jsonl": '{"_id": "d1", "text": "one"}\n{"_id": "d2", "text": "two \\ud83d"}\n'},
        "corpus.jsonl, line 2 holds half a surrogate pair",
    ),
    "beir: a query of invisible characters": (
        BEIR,
        {"queries.jsonl": '{"_id": "q1", "text": "\u200b\u0007"}\n'.replace("\u0007", "\\u0007")},
        "queries.jsonl, line 1: the text of 'q1' is empty",
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
}
WHOLE = {"beir": COLLECTION, "msmarco": PASSAGES}
"""Files that are in order, by layout."""
