import numpy as np
import pytest
from refusals import refuses
from safetensors.numpy import save_file
from sklearn.decomposition import PCA

from pipeline.vectors.space import pca
from pipeline.vectors.space.pca import Pca

RNG = np.random.default_rng(0)
VECTORS = (RNG.normal(size=(300, 12)) * np.linspace(3, 0.1, 12) + RNG.normal(size=12)) @ RNG.normal(
    size=(12, 12)
)
REFERENCE = PCA().fit(VECTORS)


def of_sklearn():
    return Pca(REFERENCE.mean_, REFERENCE.components_, REFERENCE.explained_variance_)


@pytest.mark.parametrize("dim", [1, 5, 12])
def test_reduce_is_sklearns_transform(dim):
    reduced = of_sklearn().reduce(VECTORS, dim)
    assert reduced.dtype == np.float32
    np.testing.assert_allclose(reduced, REFERENCE.transform(VECTORS)[:, :dim], atol=1e-4)


@pytest.mark.parametrize("dim", [1, 5, 12])
def test_a_whitened_reduction_is_sklearns(dim):
    reference = PCA(dim, whiten=True, svd_solver="full").fit(VECTORS)
    reduced = of_sklearn().reduce(VECTORS, dim, whiten=True)
    assert reduced.dtype == np.float32
    expected = reference.transform(VECTORS)
    signs = np.sign((reduced * expected).sum(axis=0))
    np.testing.assert_allclose(reduced * signs, expected, atol=1e-4)
    np.testing.assert_allclose(np.cov(reduced.T), np.eye(dim).squeeze(), atol=1e-4)


def test_the_rank_leaves_out_directions_without_variance():
    assert of_sklearn().rank == 12
    flat = VECTORS.copy()
    flat[:, 4:6] = VECTORS[0, 4:6]
    fitted = PCA().fit(flat)
    assert Pca(fitted.mean_, fitted.components_, fitted.explained_variance_).rank == 10


def test_cached_half_precision_vectors_are_reduced_in_float32():
    half = VECTORS.astype(np.float16)
    expected = REFERENCE.transform(half.astype(np.float64))[:, :4]
    np.testing.assert_allclose(of_sklearn().reduce(half, 4), expected, atol=1e-4)


def test_a_pca_comes_back_as_it_was(tmp_path):
    fitted = of_sklearn()
    pca.write(fitted, tmp_path / "sentence.safetensors")
    read = pca.read(tmp_path, "sentence")
    for name in ("mean", "components", "explained_variance"):
        assert np.array_equal(getattr(read, name), getattr(fitted, name))
        assert getattr(read, name).dtype == np.float64
    assert read.dim == 12


def test_components_that_are_a_transposed_view_come_back_the_right_way_round(tmp_path):
    turned = Pca(REFERENCE.mean_, REFERENCE.components_.T.copy().T, REFERENCE.explained_variance_)
    for name, fitted in (("a", of_sklearn()), ("b", turned)):
        pca.write(fitted, tmp_path / f"{name}.safetensors")
    assert (tmp_path / "a.safetensors").read_bytes() == (tmp_path / "b.safetensors").read_bytes()


def test_a_view_that_was_not_fitted(tmp_path):
    with refuses(tmp_path / "cls.safetensors", "add 'cls' to encode.views", "`dvc repro fit_pca`"):
        pca.read(tmp_path, "cls")


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: path.write_bytes(b"no tensors"),
        lambda path: save_file({"mean": np.zeros(3)}, path),
        lambda path: save_file(
            {name: np.zeros(3) for name in ("mean", "components", "explained_variance", "more")}, path
        ),
    ],
)
def test_a_file_that_is_no_pca(tmp_path, spoil):
    spoil(tmp_path / "cls.safetensors")
    with refuses(tmp_path / "cls.safetensors", "PCA", "`dvc repro -f fit_pca`"):
        pca.read(tmp_path, "cls")
