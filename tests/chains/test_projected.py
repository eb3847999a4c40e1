"""Projected latent Markov chains: they draw from p(x_mis | x_obs) of a flow, whatever the auxiliary noise."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from tests.oracles import GaussianModel, gaussian_conditional, random_covariance
from tests.selection import covering, first
from vgi_cli.chains.projected import (
    IncompleteRows,
    Kernel,
    at_base,
    draw_noise,
    log_proposal,
    normal_log_prob,
    projected,
    step,
    strain,
)


class LinearFlow:
    """u = L^-1 (x - mean): x is Gaussian with covariance L L'."""

    def __init__(self, model: GaussianModel) -> None:
        self.mean, self.factor = model.mean, model.factor

    def to_base(self, x: Tensor) -> tuple[Tensor, Tensor]:
        u = torch.linalg.solve_triangular(self.factor, (x - self.mean).mT, upper=False).mT
        return u, -self.factor.diagonal().log().sum().expand(len(x))

    def from_base(self, u: Tensor) -> Tensor:
        return self.mean + u @ self.factor.mT


class BentFlow:
    """x0 = sinh(u0), x1 = exp(u0 / 2) u1 + u0²: neither its density nor its log-determinant is flat."""

    def to_base(self, x: Tensor) -> tuple[Tensor, Tensor]:
        u0 = torch.asinh(x[:, 0])
        u1 = (x[:, 1] - u0.square()) * torch.exp(-u0 / 2)
        return torch.stack([u0, u1], 1), -0.5 * torch.log1p(x[:, 0].square()) - u0 / 2

    def from_base(self, u: Tensor) -> Tensor:
        return torch.stack([torch.sinh(u[:, 0]), torch.exp(u[:, 0] / 2) * u[:, 1] + u[:, 0].square()], 1)


def run(
    flow: LinearFlow | BentFlow, rows: IncompleteRows, kernel: Kernel, u: Tensor, steps: int, seed: int = 0
) -> Tensor:
    """The rows y [R, D] after so many steps."""
    g = torch.Generator().manual_seed(seed)
    state = at_base(flow, rows, kernel, u)
    for _ in range(steps):
        state = step(flow, rows, kernel, state, draw_noise(u, g))[0]
    assert (strain(rows, kernel, state.y).mean() - 1).abs() < 0.25  # at rest, where nothing is left of the start
    return state.y


@pytest.mark.parametrize(
    ("auxiliary", "perturb", "steps"),
    first(2, [(1.0, 0.8, 60), (0.3, 0.4, 200), (0.1, 0.15, 500)]),
    ids=["1", "0.3", "0.1"],
)
def test_linear_flow_has_the_closed_form_conditional_as_the_auxiliary_noise_falls(
    auxiliary: float, perturb: float, steps: int
) -> None:
    """2,000 chains of one row with two holes, from unconditional draws: mean within 4.5 standard errors, covariance
    within 12 %."""
    g = torch.Generator().manual_seed(2)
    model = GaussianModel(torch.tensor([0.3, -0.2, 0.5]).double(), random_covariance(3, g, 2) / 2)
    flow, n = LinearFlow(model), 2000
    x = model.sample(1, g)
    holes = torch.tensor([[True, False, True]])
    mean, covariance = gaussian_conditional(model, x[0], holes[0])
    rows = IncompleteRows(x.expand(n, -1), holes.expand(n, -1))
    u = torch.randn(n, 3, generator=g, dtype=torch.float64)
    y = run(flow, rows, Kernel(0.5, 1.0, perturb, auxiliary), u, steps)[:, [0, 2]]
    assert ((y.mean(0) - mean).abs() < 4.5 * (covariance.diagonal() / n).sqrt()).all()
    assert ((y.mT.cov() - covariance).abs() < 0.12 * covariance.diagonal().max()).all()


def quadrature(x: Tensor, hole: int) -> tuple[Tensor, Tensor, Tensor]:
    """Grid, distribution function and mean of the missing cell of one row [2] under BentFlow (trapezoidal rule)."""
    grid = torch.linspace(-30, 30, 60_001, dtype=torch.float64)
    every = x.repeat(len(grid), 1)
    every[:, hole] = grid
    u, log_det = BentFlow().to_base(every)
    p = (normal_log_prob(u, 1.0) + log_det).exp()
    mass = torch.cumulative_trapezoid(p, grid)
    return grid, torch.cat([mass.new_zeros(1), mass / mass[-1]]), torch.trapezoid(grid * p, grid) / mass[-1]


@covering(pytest.mark.parametrize("resample", [0.0, 0.5, 1.0]), pytest.mark.parametrize("hole", [0, 1]))
def test_nonlinear_flow_against_quadrature(hole: int, resample: float) -> None:
    """Kolmogorov and Smirnov's distance of 3,000 chains to the law by quadrature, p = 0.001. Given x1 = 1.5 the law of
    x0 has two modes."""
    x = torch.tensor([0.7, 1.5], dtype=torch.float64)
    n = 3000
    holes = torch.zeros(n, 2, dtype=torch.bool)
    holes[:, hole] = True
    g = torch.Generator().manual_seed(1)
    u = torch.randn(n, 2, generator=g, dtype=torch.float64)
    y = run(BentFlow(), IncompleteRows(x.repeat(n, 1), holes), Kernel(resample, 1.3, 0.7, 0.5), u, 120)[:, hole]
    grid, law, mean = quadrature(x, hole)
    there = law[torch.searchsorted(grid, y.sort().values).clamp(max=len(law) - 1)]
    assert (there - torch.arange(n) / n).abs().max() < 1.95 / math.sqrt(n)
    assert (y.mean() - mean).abs() < 4.5 * y.std() / math.sqrt(n)


def test_the_papers_kernel_leaves_its_target_as_it_is() -> None:
    """Started at exact draws of target and auxiliary cells (0.001), the law after 120 steps of both proposals is still
    the closed form; the chains have moved."""
    g = torch.Generator().manual_seed(4)
    model = GaussianModel(torch.zeros(2).double(), random_covariance(2, g, 1))
    flow, n = LinearFlow(model), 4000
    full = model.sample(n, g)
    holes = torch.tensor([True, False]).expand(n, -1)
    around = full + 0.001 * torch.randn(n, 2, generator=g, dtype=torch.float64)
    start = torch.where(holes, full, around)
    y = run(flow, IncompleteRows(full, holes), Kernel(0.5, 1.0, 0.01, 0.001), flow.to_base(start)[0], 120)
    assert ((y[:, 0] - full[:, 0]).abs() > 1e-9).double().mean() > 0.8
    white = flow.to_base(projected(IncompleteRows(full, holes), y))[0]
    assert (white.mean(0).abs() < 4.5 / math.sqrt(n)).all()
    assert ((white.mT @ white / n - torch.eye(2)).abs() < 4.5 * math.sqrt(2 / n)).all()


def test_proposal_density_is_the_mixture() -> None:
    """It integrates to 1, and weighs back what is drawn from it."""
    start = torch.tensor([[0.6]], dtype=torch.float64)
    kernel = Kernel(0.3, 1.5, 0.2, 1.0)
    grid = torch.linspace(-12, 12, 4001, dtype=torch.float64)
    density = log_proposal(kernel, start.expand(4001, 1), grid[:, None]).exp()
    assert torch.trapezoid(density, grid).item() == pytest.approx(1, abs=1e-6)
    parts = torch.tensor([[0.0, 0.6], [1.5, 0.2]], dtype=torch.float64)
    expected = torch.distributions.Normal(*parts).log_prob(grid[:, None]).exp() @ torch.tensor(
        [0.3, 0.7], dtype=torch.float64
    )
    torch.testing.assert_close(density, expected, rtol=1e-9, atol=1e-12)
    each = kernel._replace(perturb_std=torch.full((4001,), 0.2, dtype=torch.float64))
    torch.testing.assert_close(log_proposal(each, start.expand(4001, 1), grid[:, None]).exp(), density)


@pytest.mark.parametrize("outside", [Tensor.exp, Tensor.neg], ids=["above", "below"])
def test_imputations_stay_in_their_range_from_any_start(outside: Callable[[Tensor], Tensor]) -> None:
    n = 500
    x = torch.zeros(n, 2, dtype=torch.float64)
    holes = torch.tensor([True, False]).expand(n, -1)
    box = torch.tensor([[-0.5, -9.0], [0.2, 9.0]], dtype=torch.float64)
    u = outside(torch.full((n, 2), 2.0, dtype=torch.float64))
    y = run(BentFlow(), IncompleteRows(x, holes, box), Kernel(0.5, 1.0, 0.5, 0.5), u, 200)
    assert ((y[:, 0] >= -0.5) & (y[:, 0] <= 0.2)).all() and y[:, 0].std() > 0.1


def test_a_density_that_is_no_number_is_never_accepted() -> None:
    class Broken(BentFlow):
        def to_base(self, x: Tensor) -> tuple[Tensor, Tensor]:
            u, log_det = super().to_base(x)
            return u, torch.where(u[:, 0] > 0.5, torch.nan, log_det)

    n = 300
    x, g = torch.zeros(n, 2, dtype=torch.float64), torch.Generator().manual_seed(0)
    rows = IncompleteRows(x, torch.ones(n, 2, dtype=torch.bool))
    state = at_base(Broken(), rows, Kernel(0.5, 1.0, 0.3, 1.0), x - 1)
    for _ in range(50):
        state = step(Broken(), rows, Kernel(0.5, 1.0, 0.3, 1.0), state, draw_noise(x, g))[0]
    assert (state.u[:, 0] <= 0.5).all() and torch.isfinite(state.log_target).all()


def test_rows_without_observed_cells_draw_from_the_flow() -> None:
    n = 4000
    g = torch.Generator().manual_seed(3)
    rows = IncompleteRows(torch.zeros(n, 2, dtype=torch.float64), torch.ones(n, 2, dtype=torch.bool))
    u = 3 + torch.rand(n, 2, generator=g, dtype=torch.float64)
    u = BentFlow().to_base(run(BentFlow(), rows, Kernel(0.5, 1.0, 0.5, 0.5), u, 60))[0]
    assert (u.mean(0).abs() < 4.5 / math.sqrt(n)).all() and ((u.var(0) - 1).abs() < 4.5 * math.sqrt(2 / n)).all()
