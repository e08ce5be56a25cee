import numpy as np
import pytest
import torch
from refusals import refuses

from pipeline.params.teacher import Flow
from pipeline.select.members.flows import fit

SETTINGS = {"levels": 2, "steps": 2, "hidden": 16, "epochs": 8, "batch_size": 32, "lr": 5e-3}


def bent(rows: int = 600) -> np.ndarray:
    """Vectors (rows, 6) near a curved surface, of which no linear map makes a normal distribution."""
    rng = np.random.default_rng(4)
    flat = rng.normal(size=(rows, 3))
    noise = 0.1 * rng.normal(size=(rows, 3))
    turn = np.linalg.qr(rng.normal(size=(6, 6)))[0]
    return (np.concatenate([flat, flat**2 + noise], axis=1) @ turn).astype(np.float32)


def settings(**changes: object) -> Flow:
    return Flow.model_validate({**SETTINGS, **changes})


@pytest.mark.parametrize("coupling", ["additive", "affine"])
def test_the_likelihood_of_bent_vectors_rises_also_of_others(coupling):
    vectors = bent()
    flow, before, after = fit(vectors[:500], settings(coupling=coupling), "key")
    assert after < before - 0.05
    with torch.no_grad():
        cost = -flow.log_likelihood(torch.from_numpy(vectors[500:])).mean().item() / 6
    assert cost < before - 0.05


@pytest.mark.parametrize("coupling", ["additive", "affine"])
def test_a_dead_dimension_of_a_model_breaks_no_training(coupling):
    vectors = np.insert(bent(), 2, np.float32(1e-30), axis=1)
    flow, before, after = fit(vectors, settings(coupling=coupling, levels=3), "key")
    assert after < before
    with torch.no_grad():
        latents = flow(torch.from_numpy(vectors))[0]
    assert latents.abs().max() < 30


def test_the_cost_is_the_mean_negative_log_likelihood_a_dimension():
    flow, _, after = fit(vectors := bent(100), settings(epochs=1), "key")
    with torch.no_grad():
        latents, log_dets = flow(torch.from_numpy(vectors))
    z = latents.numpy().astype(np.float64)
    wanted = (0.5 * (z**2 + np.log(2 * np.pi)).sum(axis=1) - log_dets.numpy()).mean() / 6
    assert after == pytest.approx(wanted, rel=1e-5)


def test_equal_vectors_give_equal_bytes_and_another_seed_others():
    made = [
        {name: tensor.numpy().tobytes() for name, tensor in fit(bent(), given, "key")[0].state_dict().items()}
        for given in (settings(), settings(), settings(seed=1))
    ]
    assert made[0] == made[1]
    assert made[0] != made[2]


def test_too_many_levels_and_too_fast_steps_are_told():
    with refuses("teacher.members.0.flow.levels is 4", "6 dimensions are too few", "choose 3 or less"):
        fit(bent(), settings(levels=4), "teacher.members.0.flow")
    with refuses("teacher.members.0.flow", "lower teacher.members.0.flow.lr", "1e+30"):
        fit(bent(), settings(lr=1e30), "teacher.members.0.flow")
    with refuses("teacher.members.0.flow: its training raised", "lower teacher.members.0.flow.lr, 0.5"):
        fit(bent(), settings(lr=0.5), "teacher.members.0.flow")
