"""On small files of the official layouts, scores are those of BEIR's and MTEB's own code.

Both round their scores; here they do not, so that 1e-9 can be asked for.
"""

import re
from dataclasses import replace

import numpy as np
import pytest
from official_layouts import VERDICTS, read_all
from published_retrieval import Published, beir, beirs_own, msmarco, ours, vectors
from test_published_retrieval import ARGUANA, MARCO, QUORA, SCIFACT

from pipeline.params.classes import Probe
from pipeline.tasks import classification, sts

RATINGS = ("spearman", "pearson")
DEV = Published(
    documents={f"{n}": f"passage {n}" for n in range(150)},
    queries={f"q{n}": f"what is {n}" for n in range(20)},
    judged=[(f"q{n}", f"{(n * 37 + at) % 150}", at) for n in range(20) for at in (1, 2)],
)


def known(found):
    """Without the judgements of queries that are not there, on which BEIR's loader fails."""
    return replace(found, judged=[row for row in found.judged if row[0] in found.queries])


def strangers(found):
    """With queries whose ids are no document's, since BEIR takes equal ids for one text."""
    queries = {f"query {one}": text for one, text in found.queries.items()}
    return replace(found, queries=queries, judged=[(f"query {row[0]}", *row[1:]) for row in found.judged])


@pytest.mark.parametrize(
    ("mine", "theirs", "write"),
    [
        (ARGUANA, ARGUANA, beir),
        (known(SCIFACT), known(SCIFACT), beir),
        (QUORA, QUORA, beir),
        (DEV, DEV, beir),
        (MARCO, strangers(known(MARCO)), msmarco),
        (DEV, DEV, msmarco),
    ],
    ids=["arguana", "scifact", "quora", "beir msmarco", "msmarco", "msmarco dev"],
)
def test_retrieval_is_beirs_loader_search_and_evaluation(tmp_path, monkeypatch, mine, theirs, write):
    pytest.importorskip("beir")
    for name in ("ours", "theirs"):
        (tmp_path / name).mkdir()
    beir(tmp_path / "theirs", theirs)
    wanted = beirs_own(tmp_path / "theirs", monkeypatch)
    scores, _ = ours(write(tmp_path / "ours", mine))
    assert set(wanted) == {"ndcg@10", "recall@1", "recall@10", "recall@100", "mrr@10"}
    assert {name: scores[name] for name in wanted} == pytest.approx(wanted, abs=1e-9)


def test_that_comparison_can_fail(tmp_path, monkeypatch):
    pytest.importorskip("beir")
    for name in ("ours", "theirs"):
        (tmp_path / name).mkdir()
    beir(tmp_path / "theirs", replace(DEV, judged=DEV.judged[:-10]))
    wanted = beirs_own(tmp_path / "theirs", monkeypatch)
    scores, _ = ours(beir(tmp_path / "ours", DEV))
    assert all(abs(scores[name] - wanted[name]) > 1e-9 for name in ("ndcg@10", "recall@100", "mrr@10"))


@pytest.fixture(scope="module")
def read(tmp_path_factory):
    """The folder, and what is read there."""
    folder = tmp_path_factory.mktemp("official")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        return folder / "data/raw", read_all()[1]


class Model:
    """What MTEB asks of a model, with the vectors of `published_retrieval`."""

    mteb_model_meta = None

    def __init__(self, texts):
        found = vectors(texts)
        by_id = dict(zip(found.ids.tolist(), found.vectors, strict=True))
        self._vectors = {text: by_id[one] for one, text in texts.select("text_id", "text").iter_rows()}

    def encode(self, inputs, **_):
        return np.stack([self._vectors[text] for batch in inputs for text in batch["text"]])

    def similarity(self, left, right):
        return left @ right.T

    def similarity_pairwise(self, left, right):
        return (left * right).sum(axis=1)


def mtebs(rows, texts):
    """MTEB's correlations of (left, right, score), by its own task and evaluator."""
    from datasets import Dataset
    from mteb import TaskMetadata
    from mteb.abstasks.sts import AbsTaskSTS
    from mteb.timing import TimingStack

    class Local(AbsTaskSTS):
        metadata = TaskMetadata(
            name="Local",
            type="STS",
            main_score="cosine_spearman",
            description="local",
            dataset={"path": "local", "revision": "1"},
            eval_splits=["test"],
            eval_langs=["eng-Latn"],
            category="t2t",
            modalities=["text"],
        )

    names = ("sentence1", "sentence2", "score")
    split = Dataset.from_dict(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))
    where = {"hf_split": "test", "hf_subset": "default", "timer": TimingStack()}
    return Local()._evaluate_subset(Model(texts), split, encode_kwargs={}, **where)


def lines(path):
    return [line.split("\t") for line in path.read_text().splitlines()]


def semeval(folder):
    for path in sorted(folder.glob("*.input.*")):
        gold = path.with_name(path.name.replace("input", "gs")).read_text().splitlines()
        for (left, right, *_), score in zip(lines(path), gold, strict=False):
            if score:
                yield left, right, float(score)


def benchmark(path):
    return [(row[5], row[6], float(row[4])) for row in lines(path)]


def sick(path):
    return [(row[1], row[2], float(row[3])) for row in lines(path)[1:]]


def glue(path):
    return [(row[7], row[8], float(row[9])) for row in lines(path)[1:]]


SENTEVAL = "SentEval/data/downstream"


@pytest.mark.parametrize(
    ("name", "place", "rows_of"),
    [
        ("stsb", "stsbenchmark/sts-test.csv", benchmark),
        ("sickr", "SICK/SICK_test_annotated.txt", sick),
        ("sts12", "test-gold", semeval),
        ("sts16", "sts2016-english-with-gs-v1.0", semeval),
        ("glue_stsb", "STS-B/dev.tsv", glue),
        *[(f"papers_sts{year}", f"{SENTEVAL}/STS/STS{year}-en-test", semeval) for year in range(12, 17)],
        ("papers_stsb", f"{SENTEVAL}/STS/STSBenchmark/sts-test.csv", benchmark),
        ("papers_sickr", f"{SENTEVAL}/SICK/SICK_test_annotated.txt", sick),
    ],
)
def test_similarity_is_mtebs(read, name, place, rows_of):
    pytest.importorskip("mteb")
    raw, found = read
    scores = sts.score(found.pairs.filter(task=name), vectors(found.texts))
    wanted = mtebs(list(rows_of(raw / place)), found.texts)
    assert abs(scores["pearson"]) > 0.01
    assert {kind: scores[kind] for kind in RATINGS} == pytest.approx(
        {kind: wanted[f"cosine_{kind}"] for kind in RATINGS}, abs=1e-9
    )


YES_NO = ("0", "1")
CLASSES = {
    "sst2": YES_NO,
    "mrpc": YES_NO,
    "qqp": YES_NO,
    "qnli": ("entailment", "not_entailment"),
    "mnli_matched": VERDICTS,
    "mnli_mismatched": VERDICTS,
    "snli": (*VERDICTS, "-"),
    "sick_e": tuple(verdict.upper() for verdict in VERDICTS),
    "senteval_mrpc": YES_NO,
    "senteval_sst2": YES_NO,
    "trec": ("DESC", "ABBR"),
}


@pytest.mark.parametrize("name", CLASSES)
def test_classes_are_scored_as_by_mteb(read, name):
    """The labels are those that the files give to each text; the classifier is ours."""
    pytest.importorskip("mteb")
    from mteb.abstasks.classification import AbsTaskClassification

    _, found = read
    pairs, probe = found.pairs.filter(task=name), Probe(head="linear")
    text = dict(found.texts.select("text_id", "text").iter_rows())
    predicted = classification.predict(pairs, vectors(found.texts), probe)
    labels = sorted({label for label in CLASSES[name] if label != "-"})
    order = [int(re.search(r"\d+", text[one])[0]) for one in pairs.filter(subset="test")["left_id"]]
    true = [labels.index(CLASSES[name][at % len(CLASSES[name])]) for at in order]
    scores = classification.scores(predicted, "accuracy")
    each = [AbsTaskClassification._calculate_scores(None, true, one) for one in predicted.by_share[1.0]]
    assert 0 < scores["accuracy"] < 1
    assert scores["accuracy"] == pytest.approx(np.mean([one["accuracy"] for one in each]), abs=1e-9)
    if len(labels) > 2:  # MTEB's F1 is the mean over the labels, GLUE's that of the label 1.
        assert scores["f1"] == pytest.approx(np.mean([one["f1"] for one in each]), abs=1e-9)
