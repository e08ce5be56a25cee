"""Official data sets as their sites serve them, made small by hand, and the page's lines that name them."""

import json
from pathlib import Path

from pages import blocks
from ruamel.yaml import YAML

from pipeline.params.evaluate import Evaluate
from pipeline.prepare.tasks import evaluation
from pipeline.tasks.subtasks import one_by_one

PAGE = Path(__file__).resolve().parent.parent / "docs" / "texts-and-tasks.md"
BLOCK = next(block for block in blocks(PAGE, "yaml") if "snli_1.0" in block)
SCRIPT = next(block for block in blocks(PAGE, "text") if "rt-polarity" in block)
GLUE_STSB = "index genre filename year old_index source1 source2 sentence1 sentence2 score".split()
SNLI = (
    "gold_label sentence1_binary_parse sentence2_binary_parse sentence1_parse sentence2_parse sentence1 "
    "sentence2 captionID pairID label1 label2 label3 label4 label5"
).split()
MNLI = (
    "index promptID pairID genre sentence1_binary_parse sentence2_binary_parse sentence1_parse "
    "sentence2_parse sentence1 sentence2 label1 gold_label"
).split()
SICK = "pair_ID sentence_A sentence_B relatedness_score entailment_judgment".split()
VERDICTS = ("entailment", "neutral", "contradiction")


def rows_of(start, count):
    """(number, left, right) of sentences, with the lone quotation marks that such files have."""
    return [(n, f'Left "{n} of {start}', f"Right {n}, of {start}") for n in range(count)]


def tabbed(path, header, rows, *, end="\n", start=""):
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [header, *rows] if header else rows
    text = start + "".join("\t".join(map(str, line)) + end for line in lines)
    path.write_bytes(text.encode())


def filled(names, **cells):
    """A line of a table with the columns `names`."""
    return [cells.get(name, "x") for name in names]


def sts(folder, names, dashes="STS"):
    for name in names:
        rows = rows_of(name, 4)
        # STS16 names the source of each sentence after the two.
        tabbed(folder / f"{dashes}.input.{name}.txt", None, [(left, right, "src") for _, left, right in rows])
        (folder / f"{dashes}.gs.{name}.txt").write_text("".join(f"{n}\n" for n, *_ in rows[:-1]) + "\n")


def benchmark(folder):
    for part in ("train", "dev", "test"):
        rows = [
            ("main-news", "MSRpar", "2012test", f"{n:04}", f"{n}.000", *two) for n, *two in rows_of(part, 5)
        ]
        tabbed(folder / f"sts-{part}.csv", None, rows)


def sick(folder):
    for part, count in {"train": 60, "trial": 12, "test_annotated": 9}.items():
        rows = [(n, *two, 1 + n % 5, VERDICTS[n % 3].upper()) for n, *two in rows_of(part, count)]
        tabbed(folder / f"SICK_{part}.txt", SICK, rows)


def mrpc(folder, train="msr_paraphrase_train.txt", test="msr_paraphrase_test.txt"):
    header = ("Quality", "#1 ID", "#2 ID", "#1 String", "#2 String")
    for name, count in {train: 40, test: 7}.items():
        rows = [(n % 2, n, n, *two) for n, *two in rows_of(name, count)]
        tabbed(folder / name, header, rows, end="\r\n", start="\ufeff")


def glue(raw):
    for part, count in {"train": 40, "dev": 6}.items():
        rows = rows_of(part, count)
        tabbed(raw / f"SST-2/{part}.tsv", ("sentence", "label"), [(left, n % 2) for n, left, _ in rows])
        tabbed(
            raw / f"QQP/{part}.tsv",
            ("id", "qid1", "qid2", "question1", "question2", "is_duplicate"),
            [(n, n, n, *two, n % 2) for n, *two in rows],
        )
        tabbed(
            raw / f"QNLI/{part}.tsv",
            ("index", "question", "sentence", "label"),
            [(n, *two, ("entailment", "not_entailment")[n % 2]) for n, *two in rows],
        )
        tabbed(
            raw / f"STS-B/{part}.tsv",
            GLUE_STSB,
            [
                filled(GLUE_STSB, sentence1=left, sentence2=right, score=f"{n % 6}.000")
                for n, left, right in rows
            ],
        )
    for part, count in {"train": 90, "dev_matched": 9, "dev_mismatched": 8}.items():
        lines = [
            filled(MNLI, sentence1=left, sentence2=right, gold_label=VERDICTS[n % 3])
            for n, left, right in rows_of(part, count)
        ]
        tabbed(raw / f"MNLI/{part}.tsv", MNLI, lines)


def snli(folder):
    for part, count in {"train": 60, "dev": 12, "test": 9}.items():
        lines = [
            # Some pairs have "-": their annotators do not agree.
            filled(SNLI, gold_label=[*VERDICTS, "-"][n % 4], sentence1=left, sentence2=right)
            for n, left, right in rows_of(part, count)
        ]
        tabbed(folder / f"snli_1.0_{part}.txt", SNLI, lines)


def beir(folder, split):
    (folder / "qrels").mkdir(parents=True)
    documents = [{"_id": f"d{n}", "title": "", "text": f"document {n}", "metadata": {}} for n in range(5)]
    queries = [{"_id": f"q{n}", "text": f"query {n}", "metadata": {"url": ""}} for n in range(3)]
    for name, lines in (("corpus", documents), ("queries", queries)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    tabbed(
        folder / f"qrels/{split}.tsv",
        ("query-id", "corpus-id", "score"),
        [("q0", "d0", 1), ("q2", "d3", 2)],
    )


def marco(folder):
    tabbed(folder / "collection.tsv", None, [(n, f"passage {n}") for n in range(4)])
    tabbed(folder / "queries.dev.small.tsv", None, [(900 + n, f"question {n}") for n in range(3)])
    tabbed(folder / "qrels.dev.small.tsv", None, [(900, 0, 2, 1), (902, 0, 3, 1)])


def senteval(folder):
    for year in range(12, 17):
        sts(folder / f"STS/STS{year}-en-test", ["one", "two"])
    benchmark(folder / "STS/STSBenchmark")
    sick(folder / "SICK")
    mrpc(folder / "MRPC")
    for part, count in {"train": 20, "dev": 6, "test": 5}.items():
        rows = [(left, n % 2) for n, left, _ in rows_of(part, count)]
        tabbed(folder / f"SST/binary/sentiment-{part}", None, rows)
    (folder / "TREC").mkdir()
    for name, count in {"train_5500": 40, "TREC_10": 5}.items():
        lines = [
            f"{('DESC:manner', 'ABBR:exp')[n % 2]} How is n\xe9e {n} of {name} ?\n" for n in range(count)
        ]
        (folder / f"TREC/{name}.label").write_text("".join(lines), "latin-1")
    (folder / "MR").mkdir()
    for name in ("rt-polarity.neg", "rt-polarity.pos"):
        (folder / f"MR/{name}").write_text("".join(f"caf\xe9 {n} of {name}\n" for n in range(30)), "latin-1")


def read_all():
    """The tasks of the page's lines, and what is read of each, from files in the working folder."""
    raw = Path("data/raw")
    benchmark(raw / "stsbenchmark")
    sick(raw / "SICK")
    sts(raw / "test-gold", ["MSRpar", "MSRvid"])
    sts(raw / "sts2016-english-with-gs-v1.0", ["headlines", "plagiarism"], "STS2016")
    glue(raw)
    mrpc(raw / "MRPC")
    snli(raw / "snli_1.0")
    for name in ("arguana", "scifact", "quora"):
        beir(raw / name, "test")
    beir(raw / "msmarco", "dev")
    marco(raw / "collectionandqueries")
    senteval(raw / "SentEval/data/downstream")
    exec(SCRIPT, {})
    tasks = one_by_one(Evaluate.model_validate(YAML(typ="safe").load(BLOCK)["evaluate"]).tasks)
    return tasks, evaluation(tasks, None)
