"""Conditionals: densities are densities, kernels see what they should, draws carry their own density."""

import math

import pytest
import torch

from vgi_cli.conditionals.amortised import AmortisedConditionals, log_normal, put
from vgi_cli.conditionals.families.names import make_family
from vgi_cli.conditionals.networks.heads import HeadNetwork
from vgi_cli.conditionals.networks.modulated import ModulatedNetwork

D = 4


def block_network(layout, width):
    """A small network of each layout."""
    if layout == "modulated":
        return ModulatedNetwork(D, width, (8, 8), (6, 6))
    return HeadNetwork(D, width, (8, 8) if layout == "shared" else (), (6,))


def conditionals(family, layout, extended, seed=0):
    """Conditionals with random parameters everywhere, also in the layers that start at zero."""
    made = make_family(family, steps=2, bins=5)
    q = AmortisedConditionals(made, block_network(layout, made.width), extended=extended).double()
    g = torch.Generator().manual_seed(seed)
    q.initialise(g)
    with torch.no_grad():
        for parameter in q.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=g, dtype=torch.float64))
    return q


def every_cell(n):
    """All cells of n rows are missing."""
    return torch.ones(n, D, dtype=torch.bool)


every = pytest.mark.parametrize("family", ["gaussian", "spline"])
layouts = pytest.mark.parametrize("layout", ["independent", "shared", "modulated"])
kernels = pytest.mark.parametrize("extended", [False, True])


@every
@layouts
def test_warm_up_density_integrates_to_one_and_hides_its_own_column(family, layout):
    q = conditionals(family, layout, extended=True)
    u = torch.linspace(-9, 9, 4001, dtype=torch.float64)
    rows = torch.tensor([[0.3, -1.0, 0.7, 0.1]], dtype=torch.float64).repeat(len(u), 1)
    for j in range(D):
        index = torch.full((len(u), 1), j)
        grid, _ = q.family.to_value(q.network(rows, index, False)[:, 0], u)  # fine where the density is high
        density = q.log_prob(put(rows, index[:, 0], grid), every_cell(len(u)), index)[:, 0].exp()
        assert torch.trapezoid(density, grid).item() == pytest.approx(1, abs=5e-4)


@every
@layouts
@kernels
def test_only_the_extended_kernel_sees_its_own_value(family, layout, extended):
    q = conditionals(family, layout, extended)
    x = torch.zeros(1, D, dtype=torch.float64)
    j = torch.tensor([[2]])
    moved = put(x, j[:, 0], torch.tensor([1.5], dtype=torch.float64))
    assert torch.equal(q.network(x, j, False), q.network(moved, j, False))
    assert torch.equal(q.network(x, j, extended), q.network(moved, j, extended)) != extended


@every
@kernels
def test_proposal_densities_are_those_of_the_draws(family, extended):
    """The forward density integrates to 1 over what `propose` can reach, and going back has the reverse density."""
    q = conditionals(family, "shared", extended)
    x = torch.tensor([[0.2, 0.5, -0.4, 1.0]], dtype=torch.float64)
    u = torch.linspace(-30, 30, 60001, dtype=torch.float64)
    for wide in (-5.0, 5.0):  # the second noise chooses the component, never the density
        noise = torch.stack([u if wide > 0 else u / 3, torch.full_like(u, wide)], 1)
        there = q.propose(x.expand(len(u), -1), every_cell(len(u)), torch.full((len(u),), 1), noise)
        assert torch.trapezoid(there.log_forward.exp(), there.x[:, 1]).item() == pytest.approx(1, abs=3e-4)
    # going back from x' to x: the density of x_j among proposals from x' is the reverse density
    here, j = x.expand(3, -1), torch.full((3,), 1)
    there = q.propose(here, every_cell(3), j, torch.tensor([[0.3, 1.0], [-2.0, 1.0], [1.1, -4.0]], dtype=torch.float64))
    if extended:
        params = q.network(there.x, j[:, None], True)[:, 0]
    else:
        params = q.network(here, j[:, None], False)[:, 0]
    base, log_det = q.family.to_base(params, here[:, 1])
    mixture = 0.95 * log_normal(base).exp() + 0.05 * log_normal(base / 3).exp() / 3
    torch.testing.assert_close(there.log_reverse, mixture.log() + log_det)


@every
@kernels
def test_draw_changes_one_column_and_carries_its_density(family, extended):
    q = conditionals(family, "shared", extended)
    g = torch.Generator().manual_seed(1)
    x = torch.randn(50, D, generator=g, dtype=torch.float64)
    j = torch.randint(D, (50, 3), generator=g)
    noise = torch.randn(50, 3, q.noise_width, generator=g, dtype=torch.float64)
    draw = q.draw(x, every_cell(50), j, noise)
    changed = draw.x != x[:, None]
    assert torch.equal(changed, torch.arange(D) == j[..., None])
    params = q.network(x, j, extended)
    value = draw.x.gather(2, j[..., None])[..., 0]
    base, log_det = q.family.to_base(params, value)
    torch.testing.assert_close(base, noise[..., 0], rtol=1e-6, atol=1e-6)
    if family == "gaussian":
        log_std = 7.0 * torch.tanh(params[..., 1] / 7.0)
        torch.testing.assert_close(draw.log_q, -(log_std + 0.5 * math.log(2 * math.pi * math.e)))
    else:
        torch.testing.assert_close(draw.log_q, log_normal(base) + log_det, rtol=1e-6, atol=1e-6)
    redrawn = q.redraw(x, every_cell(50), j[:, 0], noise[:, 0])
    torch.testing.assert_close(redrawn, draw.x[:, 0])


@every
@layouts
def test_every_conditional_starts_standard_normal(family, layout):
    made = make_family(family, steps=2, bins=5)
    q = AmortisedConditionals(made, block_network(layout, made.width), extended=False).double()
    q.initialise(torch.Generator().manual_seed(0))
    x = torch.randn(9, D, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    j = torch.arange(9)[:, None] % D
    torch.testing.assert_close(q.log_prob(x, every_cell(9), j), log_normal(x.gather(1, j)), rtol=1e-9, atol=1e-9)


def test_same_generator_same_parameters():
    a, b, c = (conditionals("spline", "shared", True, seed) for seed in (3, 3, 4))
    assert all(torch.equal(p, r) for p, r in zip(a.parameters(), b.parameters(), strict=True))
    assert not all(torch.equal(p, r) for p, r in zip(a.parameters(), c.parameters(), strict=True))
