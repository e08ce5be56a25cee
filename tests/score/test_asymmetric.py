import numpy as np
import pytest
from small_retrieval import retrieval_task

from pipeline.score.evaluation import asymmetric
from pipeline.tasks import retrieval
from pipeline.tasks.embeddings import Embeddings


def test_with_the_teachers_vectors_it_is_a_student_among_its_own_documents():
    pairs, embeddings = retrieval_task()
    expected = retrieval.score(pairs, embeddings)
    found = asymmetric.score_tasks({"find": pairs}, embeddings, embeddings)["find"]
    assert found == pytest.approx({name: expected[name] for name in found}, abs=1e-12)
    assert set(found) == {"mrr@10", "recall@10", "ndcg@10"}


def test_queries_are_the_students_and_documents_the_teachers():
    pairs, teacher = retrieval_task()
    _, student = retrieval_task(seed=1)
    mixed = Embeddings(teacher.ids, np.vstack([student.vectors[:30], teacher.vectors[30:]]))
    expected = retrieval.score(pairs, mixed)
    found = asymmetric.score_tasks({"find": pairs}, student, teacher)["find"]
    assert found == pytest.approx({name: expected[name] for name in found}, abs=1e-12)
