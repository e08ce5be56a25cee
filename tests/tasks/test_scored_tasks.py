import numpy as np
import polars as pl
import pytest

from pipeline.params.evaluate import ClassificationTask, Evaluate, PairClassificationTask
from pipeline.tasks import classification, entity_resolution, pairs, retrieval, scoring, sts
from pipeline.tasks.embeddings import Embeddings

STS = {"left_id": [1, 2, 3, 4], "right_id": [5, 6, 7, 8], "score": [4.0, 2, 3, 1]}
TABLE = pl.concat(
    [
        pairs.make("stsb", "test", STS),
        pairs.make("quora", "test", {"left_id": [9, None], "right_id": [1, 10], "score": [1, None]}),
        pairs.make("names", "test", {"left_id": [9, None], "right_id": [1, 10], "subset": ["de", "de"]}),
        pairs.make("stsb", "dev", {"left_id": [11], "right_id": [12], "score": [2.0]}),
    ]
)
SCORING = {"stsb": "sts", "quora": "retrieval", "names": "entity_resolution", "unused": "sts"}
MAIN = {"a": "spearman", "b": "mrr@10"}
SCORES = {"a": {"spearman": 0.6, "pearson": 0.0}, "b": {"mrr@10": 0.3}}


def test_a_split_holds_its_tasks_alone():
    test = scoring.split_of(TABLE, "test")
    assert {name: len(group) for name, group in test.items()} == {"stsb": 4, "quora": 2, "names": 2}
    assert scoring.split_of(TABLE, "dev")["stsb"]["left_id"].to_list() == [11]
    assert scoring.split_of(TABLE, "train") == {}


def test_the_texts_of_tasks_are_named_once_in_ascending_order():
    ids = scoring.text_ids(scoring.split_of(TABLE, "test"))
    assert ids.tolist() == list(range(1, 11))
    assert ids.dtype == np.uint64
    assert scoring.text_ids({}).shape == (0,)


def test_each_task_is_scored_by_its_kind():
    embeddings = Embeddings(
        np.arange(1, 13, dtype=np.uint64), np.random.default_rng(0).normal(size=(12, 3)).astype(np.float32)
    )
    test = scoring.split_of(TABLE, "test")
    scores = scoring.score_tasks(test, SCORING, embeddings)
    assert scores == {
        "stsb": sts.score(test["stsb"], embeddings),
        "quora": retrieval.score(test["quora"], embeddings),
        "names": entity_resolution.score(test["names"], embeddings),
    }


def test_every_task_knows_its_headline_and_retrievals_is_a_choice():
    asked = {
        "stsb": {"kind": "sts", "path": "p"},
        "related": {"kind": "wordnet_relatedness"},
        "words": {"kind": "wordnet_reverse_dictionary"},
        "marco": {"kind": "retrieval", "path": "p"},
        "quora": {"kind": "retrieval", "path": "p", "metric": "ndcg@10"},
        "names": {"kind": "entity_resolution", "path": "p"},
    }
    assert scoring.main_metrics(Evaluate.model_validate({"tasks": asked}).tasks) == {
        "stsb": "spearman",
        "related": "spearman",
        "words": "mrr@10",
        "marco": "mrr@10",
        "quora": "ndcg@10",
        "names": "recall@1",
    }


def test_a_task_with_labels_is_scored_with_its_own_settings_and_named_by_its_own_metric():
    files = {"train": "a.csv", "test": "b.csv", "head": "linear", "fractions": [0.5]}
    block = ClassificationTask.model_validate({"kind": "classification", **files})
    rows = {
        "left_id": [*range(1, 13)],
        "right_id": [None] * 12,
        "label": ["x", "y"] * 6,
        "subset": ["train"] * 6 + ["dev"] * 2 + ["test"] * 4,
    }
    table = pairs.make("topics", "test", rows)
    embeddings = Embeddings(np.arange(1, 13, dtype=np.uint64), np.random.default_rng(0).normal(size=(12, 3)))
    scores = scoring.score_tasks({"topics": table}, {"topics": block.scoring}, embeddings)
    assert scores == {"topics": classification.score(table, embeddings, block)}
    assert "accuracy@50%" in scores["topics"]
    pair = PairClassificationTask.model_validate({"kind": "pair_classification", **files})
    assert scoring.main_metrics({"a": block, "b": pair}) == {"a": "accuracy", "b": "f1"}


def test_the_average_is_over_headline_metrics():
    assert scoring.average(SCORES, MAIN) == pytest.approx(0.45)


def test_agreement_is_averaged_where_there_is_no_other_task():
    agreed = {**SCORES, "agreement": {"overlap@10": 0.1}}
    main = {**MAIN, "agreement": "overlap@10"}
    assert scoring.averaged(main) == ["a", "b"]
    assert scoring.average(agreed, main) == scoring.average(SCORES, MAIN)
    assert scoring.retention(agreed, agreed, main) == 1
    alone = {"agreement": {"overlap@10": 0.1}}
    assert scoring.average(alone, main) == 0.1
    assert scoring.retention(alone, {"agreement": {"overlap@10": 1.0}}, main) == 0.1


def test_retention_is_the_mean_of_ratios_to_the_teacher():
    teacher = {"a": {"spearman": 0.8, "pearson": 1.0}, "b": {"mrr@10": 0.5}}
    assert scoring.retention(SCORES, teacher, MAIN) == pytest.approx((0.75 + 0.6) / 2)
    assert scoring.retention(teacher, teacher, MAIN) == pytest.approx(1)


@pytest.mark.parametrize("score", [0.0, -0.1])
def test_there_is_no_retention_of_a_teacher_that_scores_nothing(score):
    assert scoring.retention(SCORES, {**SCORES, "b": {"mrr@10": score}}, MAIN) is None
