import numpy as np
import pytest
from small_students import static_block

from pipeline.artifacts.pca import Pca
from pipeline.training.targets import reduction


@pytest.mark.parametrize(
    ("dim", "train", "expected"),
    [
        (3, {}, "reduced"),
        (3, {"whiten": True}, "whitened"),
        (5, {}, "full"),
        (5, {"matryoshka": [2]}, "reduced"),
        (5, {"whiten": True}, "whitened"),
        (5, {"target": "full"}, "full"),
    ],
)
def test_targets_are_the_teachers_vectors_or_their_components(dim, train, expected):
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(20, 5)) * [5, 4, 3, 2, 1] + 1
    centred = vectors - vectors.mean(axis=0)
    _, singular, components = np.linalg.svd(centred, full_matrices=False)
    variance = singular**2 / 20
    reduced = np.stack([centred @ component for component in components], axis=1)[:, :dim]
    wanted = {"full": vectors, "reduced": reduced, "whitened": reduced / np.sqrt(variance[:dim])}[expected]
    student = static_block(dim=dim, train={"regularise": None, **train})
    found = reduction(student, Pca(vectors.mean(axis=0), components, variance))(vectors)
    np.testing.assert_allclose(found, wanted, atol=1e-5)
    assert found.dtype == np.float32
