import numpy as np
import pytest
from small_students import static_block

from pipeline.vectors.pca import Pca
from pipeline.vectors.targets import reduction


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
