"""Faults in files with labels and of entities: the task, files, and what is named."""

from bad_lines import lines

CLASS = {"kind": "classification", "train": "train.tsv", "test": "test.tsv"}
PAIR = {"kind": "pair_classification", "train": "train.tsv", "test": "test.tsv"}
ER = {"kind": "entity_resolution", "path": "x.tsv"}
TRAIN = "text\tlabel\n" + "".join(f"text {n}\t{n % 2}\n" for n in range(30))
PAIRS = "sentence1\tsentence2\tlabel\n" + "".join(f"left {n}\tright {n}\t{n % 2}\n" for n in range(30))


def er(*rows):
    return {"x.tsv": lines(("query", "entity", "label"), *rows)}


CASES = {
    # Classes
    "classes: missing column": (CLASS, {"test.tsv": "text\tlable\na\t1\n"}, ("test.tsv", "'label'")),
    "classes: no label": (
        CLASS,
        {"test.tsv": "text\tlabel\na\t\nb\t \n"},
        ("test.tsv", "label", "a file with labels"),
    ),
    "classes: no text": (CLASS, {"train.tsv": TRAIN + "\t1\n"}, ("train.tsv, row 31 ", "text", "fill it")),
    "classes: an unknown label": (
        CLASS,
        {"test.tsv": "text\tlabel\na\t1\nb\t2\n"},
        ("test.tsv, row 2 ", "'2'"),
    ),
    "classes: one label": (
        CLASS,
        {"train.tsv": TRAIN.replace("\t0", "\t1")},
        ("evaluate.tasks.mine.train", "`label`"),
    ),
    "classes: empty file": (CLASS, {"train.tsv": ""}, ("train.tsv", "params.yaml or fill it")),
    "classes: header alone": (CLASS, {"test.tsv": "text\tlabel\n"}, ("test.tsv", "params.yaml or fill it")),
    "classes: long line": (
        CLASS,
        {"test.tsv": "text\tlabel\na\t1\t2\n"},
        ("test.tsv, line 2:", "3 cells", "2 columns"),
    ),
    "pairs: missing column": (
        PAIR,
        {"test.tsv": "sentence1\tlabel\na\t1\n"},
        ("test.tsv", "'sentence2'"),
    ),
    "pairs: empty cell": (
        PAIR,
        {"test.tsv": "sentence1\tsentence2\tlabel\na\t\t1\n"},
        ("test.tsv, row 1 ", "sentence2", "fill it"),
    ),
    # Entity resolution
    "entities: missing column": (
        ER,
        {"x.tsv": "query\tname\tlabel\na\tb\t1\n"},
        ("x.tsv", "'entity'"),
    ),
    "entities: a label out of range": (ER, er("ab1", "ac2"), ("x.tsv, row 2 ", "label", "'2'", "0 or 1")),
    "entities: empty cell": (ER, er("ab1", ("", "c", "1")), ("x.tsv, row 2 ", "query", "fill it")),
    "entities: no match": (ER, er("ab0"), ("x.tsv:", "subset")),
    "entities: empty file": (ER, {"x.tsv": ""}, ("x.tsv", "params.yaml or fill it")),
}
WHOLE = {
    "classification": {"train.tsv": TRAIN, "test.tsv": "text\tlabel\nnew\t1\n"},
    "pair_classification": {"train.tsv": PAIRS, "test.tsv": "sentence1\tsentence2\tlabel\na\tb\t1\n"},
}
"""Files that are in order, by kind."""
