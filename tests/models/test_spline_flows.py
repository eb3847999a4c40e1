"""What both flows promise: an exact density, its inverse, its draws, and what a run keeps of it."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from scipy import stats
from torch import Tensor

from tests.selection import covering, first
from vgi_cli.layout import Layout
from vgi_cli.models.flows.autoregressive import AutoregressiveFlow
from vgi_cli.models.flows.base import FlowConfig, SplineFlow
from vgi_cli.models.flows.coupling import Flow

FAMILIES: list[type[SplineFlow]] = [Flow, AutoregressiveFlow]
every = pytest.mark.parametrize("family", FAMILIES)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def rows(n: int, D: int, seed: int = 5) -> Tensor:
    return 1.5 * torch.randn(n, D, generator=generator(seed), dtype=torch.float64) + 0.5


def shaken(module: torch.nn.Module, noise: float = 0.15, seed: int = 1) -> None:
    """Move every parameter."""
    draws = generator(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(noise * torch.randn(parameter.shape, generator=draws, dtype=parameter.dtype))


def random_flow(
    family: type[SplineFlow], D: int, *, seed: int = 0, dtype: torch.dtype = torch.float64, **settings: float
) -> SplineFlow:
    """A flow far from the identity."""
    config = {"steps": 3, "hidden": 16, "bins": 5, "blocks": 1} | settings
    flow = family.build(FlowConfig(**config), Layout.plain(D)).to(dtype)
    flow.initialise(rows(50, D, seed).to(dtype), generator(seed))
    shaken(flow, seed=seed + 1)
    return flow.eval()


@covering(pytest.mark.parametrize("D", [1, 2, 3, 6]), every)
def test_log_determinant_is_that_of_the_jacobian(family: type[SplineFlow], D: int) -> None:
    flow = random_flow(family, D)
    x = rows(8, D)
    u, log_det = flow.to_base(x)
    jacobians = torch.stack([torch.autograd.functional.jacobian(lambda row: flow.to_base(row)[0], row) for row in x])
    torch.testing.assert_close(log_det, torch.linalg.slogdet(jacobians).logabsdet, atol=1e-9, rtol=1e-9)
    log_base = stats.norm.logpdf(u.detach().numpy()).sum(-1)
    torch.testing.assert_close(flow.log_prob(x), torch.as_tensor(log_base) + log_det, atol=1e-12, rtol=1e-12)
    assert float((u - x).detach().abs().max()) > 0.1


@every
@pytest.mark.parametrize("D", [1, 2, 5])
def test_round_trip(family: type[SplineFlow], D: int) -> None:
    flow = random_flow(family, D)
    x = rows(200, D)
    u, _ = flow.to_base(x)
    torch.testing.assert_close(flow.from_base(u), x, atol=1e-9, rtol=0)
    torch.testing.assert_close(flow.to_base(flow.from_base(x))[0], x, atol=1e-9, rtol=0)


@every
def test_leading_shapes_are_kept(family: type[SplineFlow]) -> None:
    flow = random_flow(family, 3)
    x = rows(24, 3).view(4, 3, 2, 3)
    u, log_det = flow.to_base(x)
    assert u.shape == x.shape and log_det.shape == (4, 3, 2) and flow.from_base(u).shape == x.shape
    torch.testing.assert_close(flow.log_prob(x).view(-1), flow.log_prob(x.view(-1, 3)))
    torch.testing.assert_close(flow.log_prob(x[1, 2, 0]), flow.log_prob(x)[1, 2, 0])
    assert flow.log_prob(x[:0]).shape == (0, 3, 2)


@pytest.mark.slow  # tests/contracts/test_models.py integrates over squares too
@every
def test_integrates_to_one_in_two_dimensions(family: type[SplineFlow]) -> None:
    flow = random_flow(family, 2, seed=3)
    axis = torch.linspace(-10, 10, 501, dtype=torch.float64)
    grid = torch.cartesian_prod(axis, axis)
    with torch.no_grad():
        mass = float(flow.log_prob(grid).exp().sum()) * (20 / 500) ** 2
    assert mass == pytest.approx(1.0, abs=2e-3)


@every
def test_integrates_to_one_in_one_dimension(family: type[SplineFlow]) -> None:
    flow = random_flow(family, 1, seed=4)
    axis = torch.linspace(-30, 30, 60_001, dtype=torch.float64)
    with torch.no_grad():
        mass = float(torch.trapezoid(flow.log_prob(axis[:, None]).exp(), axis))
    assert mass == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize("family", first(1, FAMILIES))
def test_samples_follow_the_density(family: type[SplineFlow]) -> None:
    """The distribution function of the first column, from the density on a grid, makes that column uniform."""
    flow = random_flow(family, 2, seed=3)
    x = flow.sample(4000, generator(1))
    axis = torch.linspace(-14, 14, 561, dtype=torch.float64)
    with torch.no_grad():
        density = flow.log_prob(torch.cartesian_prod(axis, axis)).exp().view(561, 561)
    for column, marginal in ((0, density.sum(1)), (1, density.sum(0))):
        distribution = torch.cumulative_trapezoid(marginal, axis) / torch.trapezoid(marginal, axis)
        uniform = torch.as_tensor(np.interp(x[:, column].numpy(), axis[1:].numpy(), distribution.numpy()))
        assert stats.kstest(uniform.numpy(), "uniform").pvalue > 0.01
    u, _ = flow.to_base(x)
    assert abs(float(u.detach().prod(1).mean())) < 4 / math.sqrt(4000)


@every
def test_builds_a_standard_normal(family: type[SplineFlow]) -> None:
    flow = family.build(FlowConfig(), Layout.plain(3)).double()
    x = rows(20, 3)
    expected = torch.as_tensor(stats.norm.logpdf(x.numpy()).sum(-1))
    torch.testing.assert_close(flow.log_prob(x), expected, atol=1e-12, rtol=0)


@every
def test_starts_near_the_standardised_columns(family: type[SplineFlow]) -> None:
    scale, shift = torch.tensor([100.0, 0.01, 1.0], dtype=torch.float64), torch.tensor([5e3, 0, 7], dtype=torch.float64)
    x = torch.randn(2000, 3, generator=generator(), dtype=torch.float64) * scale + shift
    flow = family.build(FlowConfig(), Layout.plain(3)).double()
    flow.initialise(x, generator(1))
    gaussian = torch.distributions.Normal(x.mean(0), x.std(0, correction=0)).log_prob(x).sum(-1)
    assert abs(float((flow.log_prob(x) - gaussian).detach().mean())) < 0.1


@every
def test_aligned_it_starts_near_the_normal_density_of_correlated_columns(family: type[SplineFlow]) -> None:
    scale, shift = torch.tensor([100.0, 0.01, 1.0], dtype=torch.float64), torch.tensor([5e3, 0, 7], dtype=torch.float64)
    mixed = torch.tensor([[1.0, 0.0, 0.0], [0.8, 0.6, 0.0], [-0.5, 0.2, 0.3]], dtype=torch.float64)
    x = torch.randn(2000, 3, generator=generator(), dtype=torch.float64) @ mixed.T * scale + shift
    flow = family.build(FlowConfig(), Layout.plain(3)).double()
    flow.initialise(x, generator(1))
    flow.align(x.mean(0), x.T.cov(correction=0))
    gaussian = torch.distributions.MultivariateNormal(x.mean(0), x.T.cov(correction=0)).log_prob(x)
    assert abs(float((flow.log_prob(x) - gaussian).detach().mean())) < 0.1


@every
def test_aligned_to_columns_that_repeat_each_other_or_are_constant_it_starts_finite(family: type[SplineFlow]) -> None:
    x = torch.cat([rows(40, 2)[:, [0, 1, 0, 1]], torch.full((40, 1), 7.0)], 1).float()
    flow = family.build(FlowConfig(), Layout.plain(5))
    flow.initialise(x, generator())
    flow.align(x.mean(0), x.T.cov(correction=0))
    u, _ = flow.to_base(x)
    assert 0.5 < float(u.detach().std()) < 2 and bool(torch.isfinite(flow.log_prob(x)).all())


@every
def test_a_constant_column_starts_finite(family: type[SplineFlow]) -> None:
    flow = family.build(FlowConfig(), Layout.plain(2))
    x = torch.tensor([[1.0, 3.0], [2.0, 3.0]])
    flow.initialise(x, generator())
    assert bool(torch.isfinite(flow.log_prob(x)).all())


@every
def test_initialise_depends_on_the_generator_alone(family: type[SplineFlow]) -> None:
    x = rows(30, 7).float()
    flows = []
    for global_seed, seed in ((1, 0), (2, 0), (3, 9)):
        torch.manual_seed(global_seed)
        before = torch.get_rng_state()
        flow = family.build(FlowConfig(dropout=0.2), Layout.plain(7))
        flow.initialise(x, generator(seed))
        flow.train().log_prob(x)
        flow.sample(3, generator(seed))
        assert torch.equal(torch.get_rng_state(), before)
        flows.append(flow.eval())
    first, second, other = flows
    assert torch.equal(first.log_prob(x), second.log_prob(x))
    assert torch.equal(first.sample(5, generator(1)), second.sample(5, generator(1)))
    assert not torch.equal(first.linear.permutation, other.linear.permutation)
    orders = {tuple(row.tolist()) for row in first.linear.permutation}
    assert len(orders) > 1 and all(sorted(order) == list(range(7)) for order in orders)


@every
def test_state_dict_round_trip(family: type[SplineFlow]) -> None:
    flow = random_flow(family, 4, dropout=0.1)
    fresh = family.build(FlowConfig(steps=3, hidden=16, bins=5, blocks=1, dropout=0.1), Layout.plain(4)).double().eval()
    fresh.load_state_dict(flow.state_dict())
    x = rows(20, 4)
    assert torch.equal(fresh.log_prob(x), flow.log_prob(x))


@every
def test_dropout_acts_in_training_only(family: type[SplineFlow]) -> None:
    flow = random_flow(family, 4, dropout=0.5)
    x = rows(50, 4)
    assert torch.equal(flow.log_prob(x), flow.log_prob(x))
    flow.train()
    assert not torch.equal(flow.log_prob(x), flow.log_prob(x))


@every
def test_every_parameter_learns_and_float32_gradients_are_finite(family: type[SplineFlow]) -> None:
    flow = random_flow(family, 5, dtype=torch.float32)
    x = rows(300, 5).float() * 3
    flow.log_prob(x).mean().backward()
    for name, parameter in flow.named_parameters():
        assert parameter.grad is not None and bool(torch.isfinite(parameter.grad).all()), name
        assert bool((parameter.grad != 0).any()), name


@every
@pytest.mark.parametrize("D", [1, 3])
def test_gradient_of_the_density(family: type[SplineFlow], D: int) -> None:
    flow = random_flow(family, D)
    x = rows(6, D).requires_grad_()
    assert torch.autograd.gradcheck(flow.log_prob, (x,))


@pytest.mark.parametrize("family", first(1, FAMILIES))
def test_learns_a_ring(family: type[SplineFlow]) -> None:
    """Maximum likelihood gets most of the way from the best Gaussian to the truth."""
    draws = generator(2)
    angle = 2 * math.pi * torch.rand(1500, generator=draws)
    radius = 1.4 + 0.15 * torch.randn(1500, generator=draws)
    x = torch.stack([radius * angle.cos(), radius * angle.sin()], 1)
    train, test = x[:1000], x[1000:]
    # Density of the ring: N(r; 1.4, 0.15^2) / (2 pi r).
    r = test.norm(dim=1)
    truth = float((torch.distributions.Normal(1.4, 0.15).log_prob(r) - (2 * math.pi * r).log()).mean())
    flow = family.build(FlowConfig(steps=3, hidden=32, blocks=1), Layout.plain(2))
    flow.initialise(train, generator(1))
    gaussian = float(torch.distributions.Normal(train.mean(0), train.std(0)).log_prob(test).sum(1).mean())
    optimiser = torch.optim.Adam(flow.parameters(), lr=1e-2)
    for _ in range(100):
        optimiser.zero_grad()
        (-flow.log_prob(train).mean()).backward()
        optimiser.step()
    with torch.no_grad():
        learned = float(flow.log_prob(test).mean())
    assert gaussian + 0.8 * (truth - gaussian) < learned < truth + 0.1


@pytest.mark.parametrize(
    ("key", "value"), [("bins", 1), ("steps", 0), ("dropout", 1.0), ("tail_bound", 0.0), ("depth", 3)]
)
def test_settings_out_of_range_are_refused(key: str, value: float) -> None:
    with pytest.raises(ValidationError, match=key):
        FlowConfig(**{key: value})


@every
def test_initialises_wherever_its_parameters_are(family: type[SplineFlow]) -> None:
    """Rows and generator are on the CPU, parameters may be on another device (`meta` stands in for it)."""
    flow = family.build(FlowConfig(dropout=0.1), Layout.plain(4)).to("meta")
    flow.initialise(rows(20, 4).float(), generator())
    assert all(parameter.is_meta for parameter in flow.parameters())
