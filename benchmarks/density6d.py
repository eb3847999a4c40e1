"""A density over six columns that is far from Gaussian and known exactly, with its true conditionals under any mask.

    python benchmarks/density6d.py            # self-test: normalisation, conditionals against closed forms, moments

Three independent factors over two columns each; column k and column k + 3 belong together, so that neither order nor
neighbourhood gives the structure away. Every column has mean 0 and standard deviation near 1.

    banana   columns 0, 3   a ~ N(0, 1),   b | a ~ N(0.6 (a^2 - 1), 0.25^2)
    ring     columns 1, 4   (a, b) = r (cos t, sin t),   t ~ U(0, 2 pi),   r ~ N(1.4, 0.15^2) cut to r > 0, hence
                            p(a, b) = N(r; 1.4, 0.15^2) / (2 pi r Phi(1.4 / 0.15)) at r = sqrt(a^2 + b^2)
    mixture  columns 2, 5   sum_k w_k N(m_k, C_k), five components: three elongated ones that cross, two compact ones

log p(x) is the sum over the factors. The holes of a row leave a factor in one of three states: both columns observed;
both missing, drawn from the factor; one missing, drawn from p(a | b) or p(b | a) by inverting its distribution function
on a grid of 2,001 points. The same grid gives the marginals, hence log p(x_obs) to six digits.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import torch
from torch import Tensor

COLUMNS = 6
PAIRS = ((0, 3), (1, 4), (2, 5))
GRID_POINTS = 2001
ROWS_AT_ONCE = 100


class Factor(ABC):
    """A density over two columns, float64; all but 1e-10 of its mass lies in the product of the two `spans`."""

    spans: tuple[tuple[float, float], tuple[float, float]]

    @abstractmethod
    def log_prob(self, ab: Tensor) -> Tensor:
        """log p(a, b): [.., 2] -> [..]."""

    @abstractmethod
    def sample(self, n: int, generator: torch.Generator) -> Tensor:
        """[n, 2]."""


class Banana(Factor):
    """b follows a parabola in a."""

    bend, width = 0.6, 0.25
    spans = ((-7.0, 7.0), (-3.0, 31.0))

    def log_prob(self, ab: Tensor) -> Tensor:
        a, b = ab.unbind(-1)
        return normal_log_prob(a, 0.0, 1.0) + normal_log_prob(b, self.bend * (a * a - 1), self.width)

    def sample(self, n: int, generator: torch.Generator) -> Tensor:
        a, e = torch.randn(2, n, generator=generator, dtype=torch.float64)
        return torch.stack([a, self.bend * (a * a - 1) + self.width * e], -1)


class Ring(Factor):
    """A circle with a noisy radius."""

    radius, width = 1.4, 0.15
    spans = ((-3.0, 3.0), (-3.0, 3.0))

    def log_prob(self, ab: Tensor) -> Tensor:
        r = ab.square().sum(-1).sqrt().clamp(min=1e-9)  # p is unbounded at r = 0, of no weight
        inside = 0.5 * math.erfc(-self.radius / self.width / math.sqrt(2))
        return normal_log_prob(r, self.radius, self.width) - torch.log(2 * math.pi * r) - math.log(inside)

    def sample(self, n: int, generator: torch.Generator) -> Tensor:
        # r <= 0 is 9 standard deviations away (probability 5e-21): the cut needs no redraw.
        r = self.radius + self.width * torch.randn(n, generator=generator, dtype=torch.float64)
        t = 2 * math.pi * torch.rand(n, generator=generator, dtype=torch.float64)
        return torch.stack([r * t.cos(), r * t.sin()], -1)


class Mixture(Factor):
    """Five Gaussians."""

    spans = ((-6.0, 6.0), (-6.0, 6.0))

    def __init__(self) -> None:
        def as_tensor(rows: list[list[float]]) -> Tensor:
            return torch.tensor(rows, dtype=torch.float64)

        self.weights = torch.tensor([0.3, 0.2, 0.2, 0.2, 0.1], dtype=torch.float64)
        self.means = as_tensor([[-1.0, -0.8], [0.8, 0.9], [1.1, -0.9], [-0.8, 1.2], [0.8, 0.0]])
        scales = as_tensor([[0.6, 0.15], [0.5, 0.12], [0.25, 0.25], [0.4, 0.1], [0.12, 0.12]])
        angles = torch.tensor([0.9, -0.7, 0.0, 0.3, 0.0], dtype=torch.float64)
        turn = torch.stack([angles.cos(), -angles.sin(), angles.sin(), angles.cos()], -1).view(-1, 2, 2)
        self.factors = turn * scales[:, None, :]
        self.covariances = self.factors @ self.factors.mT

    def log_prob(self, ab: Tensor) -> Tensor:
        whiten = torch.linalg.inv(self.factors)  # 2 x 2 by hand: torch's multivariate normal takes 50 times longer
        a, b = (ab[..., None, :] - self.means).unbind(-1)
        u, v = (whiten[:, row, 0] * a + whiten[:, row, 1] * b for row in (0, 1))
        log_scale = whiten.det().abs().log() - math.log(2 * math.pi)
        return torch.logsumexp(self.weights.log() + log_scale - 0.5 * (u * u + v * v), -1)

    def sample(self, n: int, generator: torch.Generator) -> Tensor:
        k = torch.multinomial(self.weights, n, replacement=True, generator=generator)
        e = torch.randn(n, 2, 1, generator=generator, dtype=torch.float64)
        return self.means[k] + (self.factors[k] @ e)[..., 0]


class Density6D:
    """The product of the three factors; float64 throughout."""

    def __init__(self) -> None:
        self.factors: tuple[Factor, ...] = (Banana(), Ring(), Mixture())

    def log_prob(self, x: Tensor) -> Tensor:
        """log p(x), nats: [.., 6] -> [..]."""
        return sum(
            (f.log_prob(x[..., list(pair)]) for f, pair in zip(self.factors, PAIRS, strict=True)), x.new_zeros(())
        )

    def sample(self, n: int, generator: torch.Generator) -> Tensor:
        """n independent rows [n, 6]."""
        x = torch.empty(n, COLUMNS, dtype=torch.float64)
        for factor, pair in zip(self.factors, PAIRS, strict=True):
            x[:, list(pair)] = factor.sample(n, generator)
        return x

    def observed_log_prob(self, x: Tensor, missing: Tensor) -> Tensor:
        """log p(x_obs): x [R, 6], missing [R, 6] True where absent -> [R]; 0 for a row without observed cells."""
        total = torch.zeros(x.shape[0], dtype=torch.float64)
        for factor, pair in zip(self.factors, PAIRS, strict=True):
            hidden = missing[:, list(pair)]
            both = ~hidden.any(1)
            total[both] += factor.log_prob(x[both][:, list(pair)])
            for own in (0, 1):
                rows = hidden[:, own] & ~hidden[:, 1 - own]
                total[rows] += log_marginal(factor, x[rows, pair[1 - own]], own)
        return total

    def conditional_sample(self, x: Tensor, missing: Tensor, generator: torch.Generator) -> Tensor:
        """One draw of the missing cells from p(x_mis | x_obs): [R, 6], observed cells as given."""
        x = x.clone()
        for factor, pair in zip(self.factors, PAIRS, strict=True):
            hidden = missing[:, list(pair)]
            both = hidden.all(1)
            x[both.nonzero(), list(pair)] = factor.sample(int(both.sum()), generator)
            for own in (0, 1):
                rows = hidden[:, own] & ~hidden[:, 1 - own]
                x[rows, pair[own]] = draw_one(factor, x[rows, pair[1 - own]], own, generator)
        return x


def mcar(n: int, share: float, generator: torch.Generator) -> Tensor:
    """A mask [n, 6], True where absent: each cell is absent with probability `share`, independently."""
    return torch.rand(n, COLUMNS, generator=generator) < share


def normal_log_prob(x: Tensor, mean: Tensor | float, std: float) -> Tensor:
    """log N(x; mean, std^2)."""
    return -0.5 * ((x - mean) / std).square() - math.log(std * math.sqrt(2 * math.pi))


def grid(factor: Factor, own: int) -> Tensor:
    """The grid [GRID_POINTS] of column `own` of a factor."""
    return torch.linspace(*factor.spans[own], GRID_POINTS, dtype=torch.float64)


def on_grid(factor: Factor, given: Tensor, own: int) -> Tensor:
    """log p of the factor [n, GRID_POINTS] with column `own` on the grid and the other one at `given` [n]."""
    columns = [grid(factor, own).expand(len(given), -1), given[:, None].expand(-1, GRID_POINTS)]
    return factor.log_prob(torch.stack(columns if own == 0 else columns[::-1], -1))


def log_marginal(factor: Factor, given: Tensor, own: int) -> Tensor:
    """log p(given) [n]: column `own` is summed out by the trapezium rule."""
    low, high = factor.spans[own]
    parts = [torch.logsumexp(on_grid(factor, part, own), -1) for part in given.split(ROWS_AT_ONCE)]
    return torch.cat([*parts, given.new_zeros(0)]) + math.log((high - low) / (GRID_POINTS - 1))


def draw_one(factor: Factor, given: Tensor, own: int, generator: torch.Generator) -> Tensor:
    """A draw [n] of column `own` given the other one: the distribution function on the grid, inverted linearly."""
    u = torch.rand(len(given), generator=generator, dtype=torch.float64)
    axis = grid(factor, own)
    out = [given.new_zeros(0)]
    for part, level in zip(given.split(ROWS_AT_ONCE), u.split(ROWS_AT_ONCE), strict=True):
        log_density = on_grid(factor, part, own)
        density = (log_density - log_density.amax(-1, keepdim=True)).exp()
        mass = torch.cumulative_trapezoid(density, axis, dim=-1)
        mass = torch.nn.functional.pad(mass / mass[:, -1:], (1, 0))
        right = torch.searchsorted(mass, level[:, None], right=True).clamp(1, GRID_POINTS - 1)
        low, high = mass.gather(1, right - 1), mass.gather(1, right)
        share = ((level[:, None] - low) / (high - low).clamp(min=1e-300)).clamp(0, 1)
        out.append((axis[right - 1] + share * (axis[right] - axis[right - 1]))[:, 0])
    return torch.cat(out)


def self_test() -> None:
    """Every claim of the module docstring, as numbers; raises AssertionError where one fails."""
    generator = torch.Generator().manual_seed(0)
    density = Density6D()
    x = density.sample(20_000, generator)
    print("column means", [f"{v:+.3f}" for v in x.mean(0).tolist()])
    print("column standard deviations", [f"{v:.3f}" for v in x.std(0).tolist()])
    assert float(x.mean(0).abs().max()) < 0.03
    assert float((x.std(0) - 1).abs().max()) < 0.15

    expected = 0.0
    for factor in density.factors:
        name = type(factor).__name__
        a, b = (torch.linspace(*span, 1601, dtype=torch.float64) for span in factor.spans)
        log_p = factor.log_prob(torch.cartesian_prod(a, b))
        cell = float((a[1] - a[0]) * (b[1] - b[0]))
        mass, own = (cell * float(v.sum()) for v in (log_p.exp(), log_p.exp() * log_p))
        expected += own
        drawn = float(factor.log_prob(factor.sample(200_000, generator)).mean())
        print(f"{name:8s} integrates to {mass:.8f}; E log p = {own:.4f} by quadrature, {drawn:.4f} by sampling")
        assert abs(mass - 1) < 1e-5
        assert abs(own - drawn) < 0.02
    print(f"E log p(x) = {expected:.4f}; mean over 20,000 rows {float(density.log_prob(x).mean()):.4f}")

    banana, _, mixture = density.factors
    given = torch.linspace(-2, 2, 9, dtype=torch.float64)
    error = (log_marginal(banana, given, 1) - normal_log_prob(given, 0.0, 1.0)).abs().max()
    print(f"marginal of the banana against its closed form: {float(error):.1e}")
    assert float(error) < 1e-6
    assert isinstance(mixture, Mixture)
    spread = mixture.covariances[:, 0, 0].sqrt()
    closed = torch.distributions.Normal(mixture.means[:, 0], spread).log_prob(given[:, None]) + mixture.weights.log()
    error = (log_marginal(mixture, given, 1) - closed.logsumexp(-1)).abs().max()
    print(f"marginal of the mixture against its closed form: {float(error):.1e}")
    assert float(error) < 1e-6
    b = draw_one(banana, torch.full((100_000,), 1.3, dtype=torch.float64), 1, generator)
    print(f"b | a = 1.3 of the banana: mean {float(b.mean()):.4f} (0.4140), deviation {float(b.std()):.4f} (0.2500)")
    assert abs(float(b.mean()) - 0.414) < 0.004
    assert abs(float(b.std()) - 0.25) < 0.003

    # The sharpest check: rows whose holes are redrawn from the true conditionals are distributed as before.
    missing = mcar(len(x), 0.5, generator)
    again = density.conditional_sample(x, missing, generator)
    assert torch.equal(again[~missing], x[~missing])
    before, after = density.log_prob(x), density.log_prob(again)
    spread_log = math.sqrt(float(before.var() + after.var()) / len(x))
    shift = float(after.mean() - before.mean())
    print(f"mean log p after redrawing half of the cells: {shift:+.4f} (standard error {spread_log:.4f})")
    assert abs(shift) < 4 * spread_log
    moments = torch.stack([x, x**2, x**3, x[:, [3, 4, 5, 0, 1, 2]] * x**2], 0)
    moments_again = torch.stack([again, again**2, again**3, again[:, [3, 4, 5, 0, 1, 2]] * again**2], 0)
    score = (moments_again.mean(1) - moments.mean(1)) / ((moments.var(1) + moments_again.var(1)) / len(x)).sqrt()
    print(f"largest standardised difference of 24 moments: {float(score.abs().max()):.2f}")
    assert float(score.abs().max()) < 4
    x, missing = x[:4000], missing[:4000]
    held = density.observed_log_prob(x, missing)
    print(f"E log p(x_obs) at half missing: {float(held.mean()):.4f}")
    whole = density.observed_log_prob(x, torch.zeros_like(missing))
    assert torch.allclose(whole, density.log_prob(x))
    assert float(density.observed_log_prob(x, torch.ones_like(missing)).abs().max()) == 0


if __name__ == "__main__":
    self_test()
