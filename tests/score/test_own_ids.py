"""Everything that reads a retrieval task's rows reads those that name equal texts by their own ids."""

import numpy as np
import pytest
from published_retrieval import Published, beir, vectors

from pipeline.params.search import FlatIndex
from pipeline.prepare.tasks import evaluation
from pipeline.score.evaluation import asymmetric, budget, embedding_space, examples, items
from pipeline.score.evaluation.searches import indexes
from pipeline.tasks import retrieval

FOUND = Published(
    documents={"1": "near", "2": "near", "q1": "far", "4": "far"},
    queries={"q1": "near", "q2": "near"},
    judged=[("q1", "2", 1), ("q2", "q1", 1), ("q2", "elsewhere", 1)],
)


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    found = evaluation({"r": beir(tmp_path_factory.mktemp("beir"), FOUND)}, None)
    embeddings = vectors(found.texts)
    return found, embeddings, retrieval.score(found.pairs, embeddings)


def test_a_query_is_an_item_and_its_values_make_the_score(task):
    found, embeddings, expected = task
    scores, of_task = items.score_task(found.pairs, "retrieval", embeddings)
    assert scores == expected
    for metric in ("ndcg@10", "mrr@10"):
        values = of_task.filter(measure=metric)
        assert values["item"].to_list() == [0, 1]
        assert values["value"].mean() == scores[metric]


def test_indexes_smaller_vectors_and_another_models_documents_score_alike(task, tmp_path):
    found, embeddings, expected = task
    [by_index] = indexes.score_tasks(
        {"r": found.pairs}, {"m": embeddings}, [FlatIndex(kind="flat")], tmp_path
    )
    by_models = asymmetric.score_tasks({"r": found.pairs}, embeddings, embeddings)["r"]
    whole = budget._score(found.pairs, "retrieval", embeddings, embeddings.vectors.shape[1], "float32")
    for scores in (by_index, by_models, whole):
        assert scores["ndcg@10"] == pytest.approx(expected["ndcg@10"], abs=1e-9)


def test_examples_show_a_text_once_and_only_what_is_there(task):
    found, embeddings, _ = task
    text = dict(found.texts.select("text_id", "text").iter_rows()).__getitem__
    shown = examples.of_tasks({"r": found.pairs}, {"r": "retrieval"}, (embeddings, embeddings), text)["r"]
    [one] = shown.nearest
    assert (one.query, one.subset, one.relevant) == ("near", "", ("near",))
    # Of the two documents "far" the query's own one is passed over.
    assert [near.text for near in one.student] == ["near", "far"]
    left, right = embedding_space.positive_pairs({"r": found.pairs}, {"r": "retrieval"})
    assert len(left) == len(right) == 2
    assert np.isin(right, embeddings.ids).all()
