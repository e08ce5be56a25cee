import numpy as np
import pytest
import torch
from model2vec.distill.inference import apply_pca, compute_weights
from refusals import refuses
from sklearn.decomposition import PCA
from small_students import TEACHER_DIM, TEXTS, own_vectors, static_block, targets

from pipeline.data import teacher_parts
from pipeline.params.train import Regularise
from pipeline.train.students.kinds import static


def table_of(student: static.Static) -> np.ndarray:
    return student.module["table"].weight.detach().numpy()


def spread_weights(student: static.Static) -> torch.Tensor:
    """Token weights (V, 1) that are not all the same."""
    weights = student.module["weights"].weight
    with torch.no_grad():
        weights.copy_(torch.linspace(0.5, 2, len(weights))[:, None])
    return weights.detach()


@pytest.mark.parametrize("sif", [1e-4, None])
def test_the_initial_table_is_model2vecs_distillation(parts, sif):
    vocabulary = teacher_parts.read_vocabulary(parts)
    expected = apply_pca(vocabulary, 8) * compute_weights(len(vocabulary), sif)[:, None]
    student = static.build(static_block(init={"sif": sif}), parts)
    np.testing.assert_allclose(table_of(student), expected, rtol=1e-6)


def test_more_dimensions_than_the_vocabulary_has(parts):
    with refuses("dim ", " 33,", f" {TEACHER_DIM} ", "auto"):
        static.build(static_block(dim=33), parts)


def test_vectors_are_means_of_weighted_rows(parts):
    student = static.build(static_block(), parts)
    rows = table_of(student) * spread_weights(student).numpy()
    tokenizer = teacher_parts.read_tokenizer(parts)
    ids = [tokenizer.encode(text, add_special_tokens=False).ids for text in TEXTS]
    expected = [rows[of_text].mean(axis=0) for of_text in ids]
    np.testing.assert_allclose(own_vectors(student, TEXTS), expected, atol=1e-6)


@pytest.mark.parametrize("texts", [["", "cat", ""], ["", ""]])
def test_a_text_without_tokens_is_a_zero_vector(parts, texts):
    student = static.build(static_block(), parts)
    found = own_vectors(student, texts)
    assert found.any(axis=1).tolist() == [bool(text) for text in texts]


def test_rows_and_weights_get_the_gradients_of_the_mean(parts):
    student = static.build(static_block(), parts)
    student.encode(student.tokenise(["ab"])).vectors.sum().backward()
    seen = teacher_parts.read_tokenizer(parts).encode("ab", add_special_tokens=False).ids
    table, weights = student.module["table"].weight, student.module["weights"].weight
    assert sorted(table.grad.any(dim=1).nonzero().flatten().tolist()) == sorted(seen)
    torch.testing.assert_close(table.grad[seen], torch.full((2, 8), 0.5))
    torch.testing.assert_close(weights.grad[seen, 0], table[seen].sum(1) / 2)


def test_fit_projection_comes_as_close_as_a_linear_map_of_the_vectors_can(parts):
    student = static.build(static_block(init={"ridge_lambda": 1e-9}), parts)
    tokens = student.tokenise(TEXTS)
    before = np.column_stack([own_vectors(student, TEXTS), np.ones(len(TEXTS))]).astype(np.float64)
    best = before @ np.linalg.lstsq(before, targets(), rcond=None)[0]
    student.fit_projection(tokens, targets())
    np.testing.assert_allclose(own_vectors(student, TEXTS), best, atol=1e-3)


def test_no_projection_leaves_the_table(parts):
    student = static.build(static_block(init={"projection": "none"}), parts)
    before = table_of(student).copy()
    student.fit_projection(student.tokenise(TEXTS), targets())
    np.testing.assert_array_equal(table_of(student), before)


def regularised(parts, regularise: dict | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The weighted rows before, the rows after, and how often each token is in the texts."""
    student = static.build(static_block(train={"regularise": regularise}), parts)
    before = (table_of(student) * spread_weights(student).numpy()).astype(np.float64)
    tokenizer = teacher_parts.read_tokenizer(parts)
    counts = np.zeros(len(before))
    for text in TEXTS:
        for token in tokenizer.encode(text, add_special_tokens=False).ids:
            counts[token] += 1
    student.regularise(student.tokenise(TEXTS))
    assert (student.module["weights"].weight == 1).all()
    return before, table_of(student), counts


def test_regularise_is_tokenlearns_post_processing(parts):
    before, after, counts = regularised(parts, {"pca": True, "sif": 1e-3})
    rotated = PCA(n_components=8).fit_transform(before)
    probability = (counts + 1) / (counts.sum() + len(counts))
    expected = rotated * (1e-3 / (1e-3 + probability))[:, None]
    np.testing.assert_allclose(after @ after.T, expected @ expected.T, atol=1e-6)


def test_the_rotation_keeps_all_distances_between_rows(parts):
    before, after, _ = regularised(parts, {"pca": True, "sif": None})

    def distances(rows: np.ndarray) -> np.ndarray:
        return np.linalg.norm(rows[:, None] - rows[None], axis=2)

    np.testing.assert_allclose(distances(after), distances(before), atol=1e-5)
    np.testing.assert_allclose(after.mean(axis=0), 0, atol=1e-6)
    covariance = np.cov(after.T)
    np.testing.assert_allclose(covariance, np.diag(np.diag(covariance)), atol=1e-5)


def test_no_regularisation_only_multiplies_the_weights_in(parts):
    before, after, _ = regularised(parts, None)
    np.testing.assert_allclose(after, before, rtol=1e-6)


def test_tokenlearns_settings_are_the_default():
    assert static_block().train.regularise == Regularise(pca=True, sif=1e-3)


def test_sparse_gradients_are_the_dense_ones(parts):
    dense, sparse = (static.build(static_block(train={"sparse": kind}), parts) for kind in (False, True))
    for student in (dense, sparse):
        student.encode(student.tokenise(TEXTS)).vectors.square().sum().backward()
    for name in ("table", "weights"):
        gradient = sparse.module[name].weight.grad
        assert gradient.is_sparse
        torch.testing.assert_close(gradient.to_dense(), dense.module[name].weight.grad)


def test_there_is_no_embedding_layer_apart_from_the_vectors(parts):
    student = static.build(static_block(), parts)
    with refuses("static", "leave hsic and token_embedding out"):
        student.encode(student.tokenise(TEXTS), embedded=True)
