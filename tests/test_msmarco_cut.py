"""A small cut of MS MARCO's official files, from params.yaml to MRR@10 and recall@1000.

Training and evaluation have one collection, as the official files have.
"""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import pytrec_eval
from evaluate_runs import prepare_and_encode, prepare_tasks
from msmarco_cut import (
    DEV,
    MARCO,
    MINE,
    PASSAGES,
    RAW,
    TASK,
    TRAIN,
    passage,
    query,
    relevant,
    write,
    write_cut,
)
from refusals import refuses
from ruamel.yaml import YAML
from small_params import small_params
from small_students import TEACHER_DIM, static_block

from pipeline.core.errors import UserError
from pipeline.data.common import texts
from pipeline.data.student import student_folder
from pipeline.score.evaluation import evaluate
from pipeline.score.significance import significance
from pipeline.select.mining import mine, mining
from pipeline.tasks import pairs
from pipeline.teacher.encoding import encode
from pipeline.train.students.kinds import static
from pipeline.vectors.sets import published


@pytest.fixture
def _cut(folder):
    write_cut()


def write_params(block=None, task=None, **mined):
    """Params of one fine-tuning block and one task."""
    student = static_block(dim=8, train={"regularise": None}).model_dump(mode="json")
    document = small_params(
        teacher={"kind": "hashing", "dim": TEACHER_DIM},
        finetune={
            "data": {"marco": {**MARCO, "collection": True, **(block or {})}},
            "mine": {**MINE, **mined},
        },
        evaluate={"tasks": {"marco": {**TASK, **(task or {})}}, "budget": None, "agreement": None},
        students={"tiny": student},
        significance={"samples": 100},
    )
    YAML().dump(document, Path("params.yaml"))


def run_mine():
    """Encode what fine-tuning reads, and mine; the triplets, and the metrics."""
    encode.main(Path("finetune.parquet"), Path("vectors/finetune"))
    mine.main(Path("triplets.parquet"), Path("vectors/finetune"), Path("mined.parquet"), Path("mine.json"))
    return pairs.read(Path("mined.parquet")), json.loads(Path("mine.json").read_text())


def text_by_id():
    tables = [texts.read_labelled(Path(f"{name}.parquet")) for name in ("finetune", "eval")]
    return dict(pl.concat(tables).select("text_id", "text").iter_rows())


def units(vectors):
    """By text id, in float64."""
    ids, found = published.open_set(vectors, "sentence").read("sentence")
    found = found.astype(np.float64)
    return dict(zip(ids.tolist(), found / np.linalg.norm(found, axis=1, keepdims=True), strict=True))


HELD_OUT = {passage(relevant(number, "dev.small")) for number in range(DEV)}
"""Relevant to a dev query."""


@pytest.mark.usefixtures("_cut")
@pytest.mark.parametrize("exact_rows", [500_000, 100])
def test_negatives_come_from_the_whole_collection_and_never_from_the_evaluation(exact_rows, monkeypatch):
    monkeypatch.setattr(mining, "pays", lambda *_: True)
    write_params(exact_rows=exact_rows)
    prepare_tasks()
    table, metrics = run_mine()
    known, unit = text_by_id(), units(Path("vectors/finetune"))
    collection = {one for one, text in known.items() if " number " in text and one in unit}
    assert {known[one] for one in collection} == {passage(n) for n in range(PASSAGES)} - HELD_OUT
    assert len(table) == TRAIN
    corpus = set(texts.read_corpus(Path("corpus.parquet"))["text"])
    assert corpus == {passage(7 + 13 * one) for one in range(DEV, 90)}
    for anchor, positive, found in table.select("left_id", "right_id", "negative_ids").iter_rows():
        others = collection - {positive}
        nearest = sorted(others, key=lambda one: (-round(unit[anchor] @ unit[one], 6), one))
        assert not HELD_OUT & {known[one] for one in found}
        if exact_rows > PASSAGES:
            assert found == nearest[:5]
        else:
            assert len(set(found) & set(nearest[:40])) >= 4
    counted = metrics["collection"]
    assert counted["documents"] == {"marco": PASSAGES - DEV - TRAIN}
    assert 0 < counted["mined"] <= metrics["mined"] == 5 * TRAIN
    assert metrics.get("approximate") == (None if exact_rows > PASSAGES else "marco")
    told = json.loads(Path("prepare.json").read_text())["finetune"]["marco"]
    assert told == {
        "rows_in": TRAIN,
        "rows_out": TRAIN,
        "collection": PASSAGES - DEV,
        "dropped": {"collection_is_evaluation_text": DEV},
    }


@pytest.mark.usefixtures("_cut")
def test_without_the_collection_negatives_are_what_triplets_name():
    write_params({"collection": False})
    prepare_tasks()
    table, metrics = run_mine()
    named = {passage(relevant(number, "train")) for number in range(TRAIN)}
    known = text_by_id()
    assert {known[one] for one in table["negative_ids"].explode()} <= named
    assert "collection" not in metrics


@pytest.mark.usefixtures("_cut")
def test_without_mining_the_collection_is_no_triplet():
    write_params()
    prepare_tasks()
    params = YAML(typ="safe").load(Path("params.yaml"))
    params["finetune"]["mine"] = None
    YAML().dump(params, Path("params.yaml"))
    mine.main(Path("triplets.parquet"), Path("none"), Path("mined.parquet"), Path("mine.json"))
    table = pairs.read(Path("mined.parquet"))
    assert (len(table), table["left_id"].null_count()) == (TRAIN, 0)


@pytest.mark.usefixtures("_cut")
@pytest.mark.parametrize("triples", ["qidpidtriples.train.full.2.tsv", "triples.train.small.tsv"])
def test_triples_are_pairs_with_their_first_negatives(triples):
    write_params({"triples": triples, "collection": False, "negatives": 2})
    prepare_tasks()
    table, known = pairs.read(Path("triplets.parquet")), text_by_id()
    assert len(table) == TRAIN
    numbers = {query(f"train {one}", relevant(one, "train")): one for one in range(TRAIN)}
    lost = 0
    for left, right, others in table.select("left_id", "right_id", "negative_ids").iter_rows():
        answer = relevant(numbers[known[left]], "train")
        assert known[right] == passage(answer)
        first = [passage((answer + step) % PASSAGES) for step in (1, 100)]
        lost += len(first) - len([text for text in first if text not in HELD_OUT])
        assert [known[one] for one in others] == [text for text in first if text not in HELD_OUT]
    dropped = {"duplicate": 3 * TRAIN, "negative_over_limit": TRAIN}
    rows = 4 * TRAIN
    if triples.startswith("qidpid"):
        rows += 3
        dropped |= {"duplicate": 3 * TRAIN + 1, "negative_over_limit": TRAIN + 1}
        dropped |= {"query_is_missing": 1, "document_is_missing": 1}
    if lost:
        dropped["negative_is_evaluation_text"] = lost
    told = json.loads(Path("prepare.json").read_text())["finetune"]["marco"]
    assert told == {"rows_in": rows, "rows_out": TRAIN, "dropped": dropped}


@pytest.mark.usefixtures("_cut")
def test_a_task_that_keeps_its_documents_apart_leaves_no_triplet():
    write_params(task={"documents": "apart"})
    Path("texts.csv").write_text("text\nsomething that is no passage\nand something else too\n")
    with refuses("finetune.data.marco", "'evaluation_text': 30", "`documents: shared`"):
        prepare_tasks()


@pytest.mark.usefixtures("_cut")
def test_scores_of_the_cut_are_trec_evals(parts):
    write_params()
    prepare_and_encode()
    table, _ = run_mine()
    assert len(table) == TRAIN
    student_folder.write(static.build(static_block(dim=8), parts), "tiny", Path("students/tiny"))
    Path("metrics").mkdir()
    evaluate.main(
        "tiny",
        *(Path(name) for name in ("tasks.parquet", "eval.parquet", "vectors")),
        "sentence",
        Path("pca"),
        *[Path("students/tiny")] * 3,
        Path("metrics/tiny.json"),
        Path("examined/tiny"),
        corpus=Path("corpus.parquet"),
    )
    scores = json.loads(Path("metrics/tiny.json").read_text())["scores"]["teacher"]["marco"]
    known = text_by_id()
    unit = {known[one]: vector for one, vector in units(Path("vectors")).items()}
    every = [passage(number) for number in range(PASSAGES)]
    matrix = np.stack([unit[text] for text in every])
    run, qrels = {}, {}
    for place in range(DEV):
        answer = relevant(place, "dev.small")
        cosines = matrix @ unit[query(f"dev.small {1000 + place}", answer)]
        nearest = np.argsort(-cosines)[:1000]
        run[f"{place}"] = {f"{row}": float(cosines[row]) for row in nearest}
        qrels[f"{place}"] = {f"{answer}": 1}
    first = {one: dict([*found.items()][:10]) for one, found in run.items()}
    deep = pytrec_eval.RelevanceEvaluator(qrels, {"recall.1000", "ndcg_cut.1000", "map_cut.1000"}).evaluate(
        run
    )
    ranks = pytrec_eval.RelevanceEvaluator(qrels, {"recip_rank"}).evaluate(first)
    expected = {
        "mrr@10": np.mean([one["recip_rank"] for one in ranks.values()]),
        "recall@1000": np.mean([one["recall_1000"] for one in deep.values()]),
        "ndcg@1000": np.mean([one["ndcg_cut_1000"] for one in deep.values()]),
        "map@1000": np.mean([one["map_cut_1000"] for one in deep.values()]),
    }
    assert {name: scores[name] for name in expected} == pytest.approx(expected, abs=1e-4)
    assert 0 < expected["mrr@10"] < 1
    assert (scores["queries"], scores["documents"]) == (DEV, PASSAGES)
    significance.main(Path("examined"), Path("metrics"), Path("significance.json"))
    spans = json.loads(Path("significance.json").read_text())["metrics"]["teacher"]["marco"]
    assert expected.keys() < spans.keys()
    assert spans["mrr@10"][0] <= scores["mrr@10"] <= spans["mrr@10"][1]


@pytest.mark.usefixtures("_cut")
@pytest.mark.parametrize(
    ("name", "rows", "named"),
    [
        ("triples.train.small.tsv", [("a", "b")], ("line 1:", "2 cells", "query, relevant passage")),
        (
            "triples.train.small.tsv",
            [("a", "b", "c"), ("a", " ", "c")],
            ("line 2:", "relevant passage is empty"),
        ),
        ("triples.train.small.tsv", [], ("params.yaml or fill it",)),
    ],
)
def test_a_fault_of_triples_names_file_and_line(name, rows, named):
    write(name, rows)
    write_params({"triples": name, "collection": False})
    with refuses(RAW / name, *named):
        prepare_tasks()


@pytest.mark.usefixtures("_cut")
def test_faults_of_the_block():
    write_params({"triples": "triples.none.tsv"})
    with refuses(RAW / "triples.none.tsv", "does not exist"):
        prepare_tasks()
    write_params({"triples": "triples.train.small.tsv", "layout": "beir"})
    with pytest.raises(UserError, match=r"finetune\.data\.marco.*set layout: msmarco"):
        prepare_tasks()
    write_params({"qrels": "dev"})
    with refuses(RAW / "qrels.dev.tsv", "`qrels` can be: dev.small, train"):
        prepare_tasks()
