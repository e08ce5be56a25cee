"""Faults in the files of GLUE: the task, files that replace those in order, and what is named."""

from bad_labelled_files import TRAIN

SST2, MRPC, QQP, MNLI = ({"kind": kind, "path": "."} for kind in ("sst2", "mrpc", "qqp", "mnli"))
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
CASES = {
    "sst2: a label out of range": (
        SST2,
        {"dev.tsv": "sentence\tlabel\nfine\t2\n"},
        ("dev.tsv, row 1 ", "label", "'2'", "0, 1"),
    ),
    "sst2: no label": (SST2, {"dev.tsv": "sentence\tlabel\nfine\t\n"}, ("dev.tsv, row 1 ", "label", "''")),
    "sst2: the secret test as dev": (
        SST2,
        {"dev.tsv": "index\tsentence\n0\tfine\n"},
        ("dev.tsv", "'label'"),
    ),
    "sst2: empty file": (SST2, {"train.tsv": ""}, ("train.tsv", "params.yaml or fill it")),
    "sst2: long line": (
        SST2,
        {"dev.tsv": "sentence\tlabel\nfine\t1\t1\n"},
        ("dev.tsv, line 2:", "3 cells", "2 columns"),
    ),
    "sst2: no files": ({**SST2, "path": "none"}, {}, ("none ", "sst2", "train.tsv")),
    "sst2 of senteval: short line": (
        {**SST2, "path": "binary"},
        {f"binary/sentiment-{part}": "fine\t1\nbad\n" for part in ("train", "dev", "test")},
        ("sentiment-train, line 2:", "1 cells", "sentence, label"),
    ),
    "mrpc: a label out of range": (
        MRPC,
        {"dev.tsv": MRPC_HEADER + "yes\t1\t2\ta\tb\n"},
        ("dev.tsv, row 1 ", "Quality", "'yes'"),
    ),
    "mrpc: missing column": (
        MRPC,
        {"dev.tsv": "Quality\t#1 String\n1\ta\n"},
        ("dev.tsv", "'#2 String'"),
    ),
    "mrpc: empty cell": (
        MRPC,
        {"dev.tsv": MRPC_HEADER + "1\t1\t2\ta\t\n"},
        ("dev.tsv, row 1 ", "#2 String", "fill it"),
    ),
    "mrpc: header alone": (MRPC, {"dev.tsv": MRPC_HEADER}, ("dev.tsv", "params.yaml or fill it")),
    "qqp: a label out of range": (
        QQP,
        {"dev.tsv": QQP_HEADER + "broken\n1\t2\t3\ta\tb\t3\n"},
        ("dev.tsv, line 3:", "is_duplicate", "'3'", "0, 1"),
    ),
    "qqp: missing column": (
        QQP,
        {"dev.tsv": "id\tquestion1\tquestion2\n1\ta\tb\n"},
        ("dev.tsv", "'is_duplicate'"),
    ),
    "qqp: nothing but broken lines": (
        QQP,
        {"dev.tsv": QQP_HEADER + "broken\n"},
        ("dev.tsv", "params.yaml or fill it"),
    ),
    "mnli: an unknown label": (
        MNLI,
        {"dev_matched.tsv": MNLI_HEADER + "1\ta\tb\thidden\n"},
        ("dev_matched.tsv, row 1 ", "gold_label", "'hidden'", "entailment"),
    ),
    "mnli: empty cell": (
        MNLI,
        {"dev_mismatched.tsv": MNLI_HEADER + "1\ta\t\tneutral\n"},
        ("dev_mismatched.tsv, row 1 ", "sentence2", "fill it"),
    ),
    "mnli: no mismatched": (
        MNLI,
        {"dev_mismatched.tsv": None},
        ("mnli", "train.tsv and dev_mismatched.tsv"),
    ),
}
WHOLE = {"sst2": SST2_FILES, "mrpc": MRPC_FILES, "qqp": QQP_FILES, "mnli": MNLI_FILES}
"""Files that are in order, by kind."""
