"""Truncated normals against scipy, in the middle and far into the tails."""

from __future__ import annotations

import pytest
import torch
from scipy.stats import norm, truncnorm

from vgi_cli.maths.truncated import log_mass, truncated_mixture, truncated_normal, truncated_on_grid

INTERVALS = [
    (-1.0, 2.0),
    (3.0, 4.0),
    (-9.0, -8.5),
    (8.0, 9.0),
    (-float("inf"), -6.0),
    (0.5, float("inf")),
    (25.0, 26.0),
]


def scalar(value: float) -> torch.Tensor:
    return torch.tensor(value, dtype=torch.float64)


@pytest.mark.parametrize(("low", "high"), INTERVALS)
def test_inverse_distribution_function(low: float, high: float) -> None:
    u = torch.linspace(0.01, 0.99, 23, dtype=torch.float64)
    z = truncated_normal(scalar(low).expand(23), scalar(high).expand(23), u)
    assert bool(((z >= low) & (z <= high)).all())
    torch.testing.assert_close(z, torch.from_numpy(truncnorm.ppf(u.numpy(), low, high)), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize(("low", "high"), [(-40.0, -35.0), (35.0, 40.0), (-float("inf"), -50.0)])
def test_beyond_the_reach_of_the_inverse_the_tail_is_exponential(low: float, high: float) -> None:
    u = torch.linspace(0.05, 0.95, 9, dtype=torch.float64)
    z = truncated_normal(scalar(low).expand(9), scalar(high).expand(9), u)
    # the distribution function from the density itself, by the trapezoidal rule on the near end of the interval
    near, sign = (low, 1.0) if low > 0 else (high, -1.0)
    grid = torch.linspace(0, 1.0, 200001, dtype=torch.float64)
    log_density = -0.5 * (near + sign * grid).square()
    mass = torch.cumulative_trapezoid((log_density - log_density[0]).exp(), grid)
    mass = mass / mass[-1]
    index = ((z - near) * sign / grid[1]).round().long().clamp(1, 200000)
    reached = mass[index - 1]
    expected = u if low > 0 else 1 - u
    torch.testing.assert_close(reached, expected, rtol=0, atol=3e-3)


@pytest.mark.parametrize(("low", "high"), INTERVALS)
def test_log_mass(low: float, high: float) -> None:
    a, b = (low, high) if low <= 0 else (-high, -low)
    expected = norm.logcdf(b) + torch.log1p(-scalar(norm.logcdf(a) - norm.logcdf(b)).exp()).item()
    assert log_mass(scalar(low), scalar(high)).item() == pytest.approx(expected, rel=1e-9)


def test_mixture_has_the_truncated_density() -> None:
    generator = torch.Generator().manual_seed(0)
    n = 200_000
    log_weights = torch.tensor([0.3, 0.7], dtype=torch.float64).log().expand(n, 2)
    mean = torch.tensor([-1.0, 2.0], dtype=torch.float64).expand(n, 2)
    sd = torch.tensor([0.5, 1.5], dtype=torch.float64).expand(n, 2)
    u, choice = (torch.rand(n, dtype=torch.float64, generator=generator) for _ in range(2))
    x = truncated_mixture(log_weights, mean, sd, scalar(-0.5), scalar(1.5), choice, u)

    def mass(high: float) -> float:
        first = norm.cdf(high, -1, 0.5) - norm.cdf(-0.5, -1, 0.5)
        return 0.3 * first + 0.7 * (norm.cdf(high, 2, 1.5) - norm.cdf(-0.5, 2, 1.5))

    assert bool(((x >= -0.5) & (x <= 1.5)).all())
    for cut in (-0.3, 0.0, 0.5, 1.0):
        expected = mass(cut) / mass(1.5)
        assert (x <= cut).double().mean().item() == pytest.approx(expected, abs=4 * (0.25 / n) ** 0.5)


def test_any_density_is_inverted_on_a_grid() -> None:
    u = torch.linspace(0.001, 0.999, 199, dtype=torch.float64)
    means = torch.where(torch.arange(199) % 2 == 0, 0.0, 1.0).double()  # every row has its own density
    drawn = truncated_on_grid(lambda x: 7.0 - 0.5 * (x - means[:, None]).square(), scalar(-1.5), scalar(2.5), u)
    expected = torch.from_numpy(truncnorm.ppf(u.numpy(), -1.5 - means.numpy(), 2.5 - means.numpy(), means.numpy()))
    torch.testing.assert_close(drawn, expected, rtol=0, atol=4 / 256 / 20)
    assert bool(((drawn >= -1.5) & (drawn <= 2.5)).all())


def test_on_a_grid_an_end_of_the_interval_may_hold_everything() -> None:
    u = torch.tensor([1e-3, 0.5, 1 - 1e-3], dtype=torch.float64)
    for slope, end in ((-900.0, 0.0), (900.0, 1.0)):
        drawn = truncated_on_grid(lambda x, s=slope: (s * x).expand(3, -1), scalar(0.0), scalar(1.0), u)  # type: ignore[misc]
        assert bool(((drawn - end).abs() < 3 / 256).all()) and bool(((drawn >= 0) & (drawn <= 1)).all())
