import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refuses
from sklearn.decomposition import PCA

from pipeline.vectors.space.pca import fit

DIM = 16
RNG = np.random.default_rng(0)
SPREAD = RNG.normal(size=(400, DIM)) * np.linspace(4, 0.2, DIM)
VECTORS = SPREAD @ np.linalg.qr(RNG.normal(size=(DIM, DIM)))[0] + RNG.normal(size=DIM)


def same_up_to_sign(components, reference):
    """Whether rows are the same directions: unit vectors with cosines of 1 or -1."""
    cosines = (components * reference).sum(axis=1)
    np.testing.assert_allclose(np.abs(cosines), 1, atol=1e-9)
    np.testing.assert_allclose(components, reference * np.sign(cosines)[:, None], atol=1e-7)


def test_a_centred_fit_is_sklearns_pca():
    fitted, reference = fit([VECTORS], DIM, centre=True), PCA(svd_solver="full").fit(VECTORS)
    np.testing.assert_allclose(fitted.mean, reference.mean_, atol=1e-12)
    np.testing.assert_allclose(fitted.explained_variance, reference.explained_variance_, rtol=1e-9)
    same_up_to_sign(fitted.components, reference.components_)


def test_without_the_mean_coordinates_are_sklearns_components_times_the_vectors():
    fitted, reference = fit([VECTORS], DIM, centre=False), PCA(svd_solver="full").fit(VECTORS)
    expected = VECTORS @ reference.components_[:5].T
    reduced = fitted.reduce(VECTORS, 5)
    np.testing.assert_allclose(reduced * np.sign((reduced * expected).sum(axis=0)), expected, atol=1e-4)


def test_the_distilled_targets_are_sklearns_transform_up_to_sign():
    reduced = fit([VECTORS], DIM, centre=True).reduce(VECTORS, 5)
    reference = PCA(5, svd_solver="full").fit_transform(VECTORS)
    signs = np.sign((reduced * reference).sum(axis=0))
    np.testing.assert_allclose(reduced * signs, reference, atol=1e-4)


@given(st.lists(st.integers(0, 400), max_size=6), st.booleans())
def test_the_split_into_batches_does_not_matter(cuts, centre):
    batches = np.split(VECTORS, sorted(cuts))
    whole, split = (fit(parts, DIM, centre=centre) for parts in ([VECTORS], iter(batches)))
    np.testing.assert_allclose(split.mean, whole.mean, atol=1e-12)
    np.testing.assert_allclose(split.components, whole.components, atol=1e-7)
    np.testing.assert_allclose(split.explained_variance, whole.explained_variance, rtol=1e-9)


def test_half_precision_vectors_are_summed_in_float64():
    half = np.tile((100 * VECTORS).astype(np.float16), (20, 1))
    reference = PCA(svd_solver="full").fit(half.astype(np.float64))
    fitted = fit([half[:1000], half[1000:]], DIM, centre=True)
    np.testing.assert_allclose(fitted.mean, reference.mean_, rtol=1e-9)
    np.testing.assert_allclose(fitted.explained_variance, reference.explained_variance_, rtol=1e-7)


def test_the_largest_entry_of_each_component_is_positive():
    for vectors in (VECTORS, -VECTORS):
        components = fit([vectors], DIM, centre=True).components
        assert (np.abs(components).max(axis=1) == components.max(axis=1)).all()


def test_directions_without_variance_have_none():
    flat = VECTORS.copy()
    flat[:, 3] = 7.25
    fitted = fit([flat], DIM, centre=True)
    assert fitted.explained_variance[-1] == pytest.approx(0, abs=1e-9)
    assert (fitted.explained_variance >= 0).all()
    same_up_to_sign(fitted.components[-1:], np.eye(DIM)[3:4])


@pytest.mark.parametrize("rows", [0, 1])
def test_a_corpus_of_no_pair_says_what_to_change(rows):
    with refuses(f"{rows} training texts", "corpus.sources", "pca.max_rows"):
        fit([VECTORS[:rows]], DIM, centre=True)


def test_fewer_vectors_than_dimensions_have_as_many_components_as_vary():
    fitted = fit([VECTORS[: DIM - 3]], DIM, centre=True)
    reference = PCA(svd_solver="full").fit(VECTORS[: DIM - 3])
    assert fitted.rank == DIM - 4
    kept = reference.explained_variance_[: DIM - 4]
    np.testing.assert_allclose(fitted.explained_variance[: DIM - 4], kept, atol=1e-9)


def test_as_many_vectors_as_dimensions_are_enough():
    fitted = fit([VECTORS[: DIM - 3], VECTORS[DIM - 3 : DIM]], DIM, centre=True)
    reference = PCA(svd_solver="full").fit(VECTORS[:DIM])
    np.testing.assert_allclose(fitted.explained_variance, reference.explained_variance_, atol=1e-9)
