"""The flow against autograd's Jacobian, in float64, and backwards."""

import pytest
import torch

from pipeline.params.teacher import Flow
from pipeline.teacher.shared.flow import NormalisingFlow

KINDS = [
    (coupling, levels, dim)
    for coupling in ("additive", "affine")
    for levels, dim in ((1, 2), (2, 7), (3, 12))
]


def flow(dim: int, **settings: object) -> NormalisingFlow:
    """Its weights are moved from their start, where a step only scales."""
    made = NormalisingFlow(dim, Flow.model_validate({"steps": 2, "hidden": 5, **settings})).double()
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter += 0.3 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
    return made


def vectors(rows: int, dim: int) -> torch.Tensor:
    return torch.randn(rows, dim, generator=torch.Generator().manual_seed(3), dtype=torch.float64)


@pytest.mark.parametrize(("coupling", "levels", "dim"), KINDS)
def test_the_log_determinant_is_that_of_the_jacobian(coupling, levels, dim):
    made, given = flow(dim, coupling=coupling, levels=levels), vectors(4, dim)
    latents, log_dets = made(given)
    for one, latent, log_det in zip(given, latents, log_dets, strict=True):
        jacobian = torch.autograd.functional.jacobian(lambda x: made(x[None])[0][0], one)
        torch.testing.assert_close(torch.linalg.slogdet(jacobian).logabsdet, log_det)
        torch.testing.assert_close(made(one[None])[0][0], latent)
    normal = torch.distributions.Normal(torch.zeros(dim, dtype=torch.float64), 1.0)
    torch.testing.assert_close(made.log_likelihood(given), normal.log_prob(latents).sum(dim=1) + log_dets)


@pytest.mark.parametrize(("coupling", "levels", "dim"), KINDS)
def test_it_goes_back_to_the_vectors(coupling, levels, dim):
    made, given = flow(dim, coupling=coupling, levels=levels), vectors(5, dim)
    latents = made(given)[0]
    assert not torch.allclose(latents, given, atol=0.1)
    torch.testing.assert_close(made.inverse(latents), given)


def test_a_level_leaves_half_of_the_dimensions_as_they_come_to_it():
    made, given = flow(8, levels=3, steps=1), vectors(6, 8)
    jacobian = torch.autograd.functional.jacobian(lambda x: made(x[None])[0][0], given[0])
    first = torch.autograd.functional.jacobian(lambda x: made.levels[0][0](x[None])[0][0], given[0])
    torch.testing.assert_close(jacobian[4:], first[4:])
    assert not torch.allclose(jacobian[:4], first[:4])
    assert made.widths == [8, 4, 2]


def test_it_starts_from_mean_0_and_variance_1():
    made = NormalisingFlow(6, Flow(levels=2)).double()
    given = 3 + 2 * vectors(200, 6) @ vectors(6, 6)
    made.initialise(given)
    latents = made(given)[0]
    torch.testing.assert_close(latents.mean(dim=0), torch.zeros(6, dtype=torch.float64), atol=1e-9, rtol=0)
    torch.testing.assert_close(latents.var(dim=0, correction=0), torch.ones(6, dtype=torch.float64))


def test_a_dimension_that_does_not_vary_stays_finite():
    made, given = NormalisingFlow(4, Flow(levels=1)), vectors(50, 4).float()
    given[:, 1] = 5
    made.initialise(given)
    assert torch.isfinite(made.log_likelihood(given)).all()


def test_the_seed_decides_the_weights_and_nothing_else_does():
    torch.manual_seed(0)
    first, state = NormalisingFlow(9, Flow()).state_dict(), torch.random.get_rng_state()
    torch.manual_seed(1)
    again, other = NormalisingFlow(9, Flow()).state_dict(), NormalisingFlow(9, Flow(seed=1)).state_dict()
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert any(not torch.equal(first[name], other[name]) for name in first)
    torch.manual_seed(0)
    assert torch.equal(torch.random.get_rng_state(), state)


@pytest.mark.parametrize(("levels", "least"), [(1, 2), (2, 3), (3, 5), (4, 9)])
def test_the_least_dimension_leaves_two_to_the_last_level(levels, least):
    assert Flow(levels=levels).least_dim == least
    assert NormalisingFlow(least, Flow(levels=levels)).widths[-1] == 2
    assert levels == 1 or (least - 1) // 2 ** (levels - 1) == 1
