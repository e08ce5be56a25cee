import numpy as np
import pytest
from small_students import static_block, transformer_block

from pipeline.params.finetune import Whitening
from pipeline.params.students import StaticStudent
from pipeline.vectors.space.pca import Pca
from pipeline.vectors.space.targets import is_unit, left_out, reduction, student_similarity

TEACHER_DIM = 32
LEARNED = {"kind": "infonce", "projection": "learned"}
NULL = {"train": None, "loss": None}
FINETUNE = {"data": ["mine"], "lr": 1e-3}


def summed(*losses: dict) -> dict:
    return {"kind": "sum", "terms": [{"weight": 1, "loss": loss} for loss in losses]}


def block(*, loss=None, finetune=None, **train) -> StaticStudent:
    """A student of 8 dimensions whose table is not rotated."""
    made = static_block(train={"regularise": None, **train}).model_dump(mode="json")
    return StaticStudent.model_validate({**made, "loss": loss or {"kind": "mse"}, "finetune": finetune})


@pytest.mark.parametrize(
    ("dim", "train", "expected"),
    [
        (3, {}, "reduced"),
        (3, {"whiten": True}, "whitened"),
        (5, {}, "full"),
        (5, {"matryoshka": [2]}, "reduced"),
        (5, {"whiten": True}, "whitened"),
        (5, {"target": "full"}, "full"),
        (5, {"centre": True}, "centred"),
        (3, {"target": "full", "centre": True}, "centred"),
        (3, {"centre": True}, "reduced"),
        (5, {"whiten": True, "shrinkage": 0.3}, "shrunk"),
        (3, {"whiten": True, "shrinkage": 0.3}, "shrunk"),
        (5, {"whiten": True, "centre": True}, "whitened"),
    ],
)
def test_targets_are_the_teachers_vectors_or_their_components(dim, train, expected):
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(20, 5)) * [5, 4, 3, 2, 1] + 1
    centred = vectors - vectors.mean(axis=0)
    _, singular, components = np.linalg.svd(centred, full_matrices=False)
    variance = singular**2 / 20
    reduced = np.stack([centred @ component for component in components], axis=1)[:, :dim]
    covariance = centred.T @ centred / 20
    shrunk = 0.7 * covariance + 0.3 * np.trace(covariance) / 5 * np.eye(5)
    deviations = [np.sqrt(component @ shrunk @ component) for component in components[:dim]]
    wanted = {
        "full": vectors,
        "centred": centred,
        "reduced": reduced,
        "whitened": reduced / np.sqrt(variance[:dim]),
        "shrunk": reduced / deviations,
    }[expected]
    student = static_block(dim=dim, train={"regularise": None, **train})
    found = reduction(student, Pca(vectors.mean(axis=0), components, variance))(vectors)
    np.testing.assert_allclose(found, wanted, atol=1e-5)
    assert found.dtype == np.float32


@pytest.mark.parametrize(
    ("student", "reason"),
    [
        (block(), None),
        (block(loss={"kind": "cosine"}), None),
        (block(loss={"kind": "infonce"}), None),
        (block(loss=summed(LEARNED, {"kind": "mse"})), None),
        (block(finetune=FINETUNE), None),
        (transformer_block(), None),
        (block(centre=True), None),  # the documents are reduced by the same rule
        (block(loss=LEARNED), "projection alone"),
        (block(loss={"kind": "relational"}), "by their cosines"),
        (block(loss={"kind": "kl"}), "through a softmax"),
        (block(loss={"kind": "kl", "temperature": 0.05}), "through a softmax"),
        (block(loss=summed({"kind": "kl"}, {"kind": "mse"})), None),
        (block(loss=summed({"kind": "kl"}, LEARNED)), "through a softmax"),
        (block(loss={"kind": "crd"}, select="agreement"), "projection alone"),
        (block(loss=summed(LEARNED)), "projection alone"),
        (block(loss={"kind": "infonce"}, target="full"), "another dimension"),
        (block(finetune={**FINETUNE, "projection": 4}), "fine-tuning adds"),
        (block().model_copy(update={"view": "token_mean"}), "it learns the view token_mean"),
        (static_block(), "rotates"),
        (block().model_copy(update={"whitening": Whitening(dim=4)}), "whitening gives"),
        (block().model_copy(update=NULL), "not trained on the teacher's vectors"),
    ],
)  # fmt: skip
def test_who_shares_the_teachers_space(student, reason):
    found = left_out(student, TEACHER_DIM, "sentence")
    assert found is None if reason is None else reason in found


@pytest.mark.parametrize(
    ("similarity", "lengths", "expected"),
    [
        ("cosine", (1.0, 3.0), True),
        ("dot", (1.0, 1.0), True),
        ("dot", (1.0, 1.2), False),
        ("euclidean", (1.0, 1.0), True),
        ("manhattan", (0.5, 2.0), False),
    ],
)
def test_a_student_has_length_1_where_directions_alone_count(similarity, lengths, expected):
    directions = np.random.default_rng(0).standard_normal((2, 384))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    stored = (directions * np.array(lengths)[:, None]).astype(np.float16)
    assert is_unit(similarity, stored) is expected


@pytest.mark.parametrize("dim", [3, 5])
def test_without_training_a_start_is_fitted_to_principal_components_and_compared_by_cosine(dim):
    random = np.random.default_rng(0)
    axes, _ = np.linalg.qr(random.normal(size=(5, 5)))
    fitted = Pca(random.normal(size=5), axes, np.arange(5.0, 0, -1))
    student = transformer_block(dim=dim).model_copy(update=NULL)
    vectors = random.normal(size=(4, 5))
    expected = vectors if dim == 5 else (vectors - fitted.mean) @ axes[:dim].T
    np.testing.assert_allclose(reduction(student, fitted)(vectors), expected, atol=1e-5)
    assert student_similarity("euclidean", transformer_block(dim=dim), fitted) == "euclidean"
    assert student_similarity("euclidean", student, fitted) == "cosine"


@pytest.mark.parametrize("init", [{}, {"path": "glove.txt"}])
def test_a_table_is_compared_by_cosine_wherever_its_rows_come_from(init):
    fitted = Pca(np.zeros(5), np.eye(5), np.ones(5))
    assert student_similarity("euclidean", static_block(dim=5, init=init), fitted) == "cosine"
