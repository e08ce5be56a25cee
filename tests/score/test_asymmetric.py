import numpy as np
import pytest
from small_retrieval import retrieval_task
from small_students import static_block, transformer_block

from pipeline.params.students import StaticStudent
from pipeline.score.evaluation import asymmetric
from pipeline.tasks import retrieval
from pipeline.tasks.embeddings import Embeddings

TEACHER_DIM = 32
LEARNED = {"kind": "infonce", "projection": "learned"}
BOTH = {"kind": "sum", "terms": [{"weight": 1, "loss": loss} for loss in (LEARNED, {"kind": "mse"})]}
FINETUNE = {"data": ["mine"], "lr": 1e-3}


def block(*, loss=None, finetune=None, **train) -> StaticStudent:
    """A student of 8 dimensions whose table is not rotated."""
    made = static_block(train={"regularise": None, **train}).model_dump(mode="json")
    return StaticStudent.model_validate({**made, "loss": loss or {"kind": "mse"}, "finetune": finetune})


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


@pytest.mark.parametrize(
    ("student", "reason"),
    [
        (block(), None),
        (block(loss={"kind": "cosine"}), None),
        (block(loss={"kind": "infonce"}), None),
        (block(loss=BOTH), None),
        (block(finetune=FINETUNE), None),
        (transformer_block(), None),
        (block(centre=True), None),  # the documents are reduced by the same rule
        (block(loss=LEARNED), "learned projection alone"),
        (block(loss={"kind": "relational"}), "by their cosines"),
        (block(loss={"kind": "crd"}, select="agreement"), "learned projection alone"),
        (block(loss={"kind": "sum", "terms": [{"weight": 1, "loss": LEARNED}]}), "learned projection alone"),
        (block(loss={"kind": "infonce"}, target="full"), "another dimension"),
        (block(finetune={**FINETUNE, "projection": 4}), "fine-tuning adds"),
        (block().model_copy(update={"view": "token_mean"}), "it learns the view token_mean"),
        (static_block(), "rotates"),
    ],
)  # fmt: skip
def test_who_shares_the_teachers_space(student, reason):
    found = asymmetric.left_out(student, TEACHER_DIM, "sentence")
    assert found is None if reason is None else reason in found
