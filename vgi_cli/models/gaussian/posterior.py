"""Draws of the parameters of a mixture of Gaussians from their posterior, given an incomplete table.

Data augmentation (Tanner and Wong 1987; Schafer 1997, chapter 5): labels and missing cells are drawn given the
parameters, and the parameters given the completed rows. The labels are drawn with the holes integrated out.

The prior is that of a sparse finite mixture (Malsiner-Walli, Fruehwirth-Schnatter and Gruen 2016): more components than
the rows need, of which the posterior leaves the idle ones empty. It is hierarchical (Richardson and Green 1997), in
the units of the columns: m [D] and V [D] are the means and variances of their observed cells.

    weights   Dirichlet: alpha / K for each of the K learnt components, 1 for each broad one (widened.py)
    mean_k    normal, around m with covariance Sigma_k / kappa
    Sigma_k   inverse Wishart, mean W, nu degrees of freedom, times exp(-FLOOR tr(diag(V) Sigma_k^-1) / 2) where the
              component has rows: the same pseudo-scatter as the variance floor of EM, for columns that determine each
              other
    W         Wishart, mean diag(V) / 2, n0 degrees of freedom; of one component alone W is diag(V)
    alpha, kappa, nu, n0  uniform on grids (alpha: Escobar and West 1995 give it a gamma law)

A sweep draws in this order, each given all that is not named in brackets as integrated out:

    labels [missing cells]; missing cells; nu [means, covariances]; covariances [means]; means; kappa; W; n0; and last
    alpha [weights], weights.

Components without rows are integrated out of every step and drawn from their prior after n0, before anything depends on
them again (van Dyk and Park 2008 on the order of such steps).
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from vgi_cli.maths.wishart import inverse_wishart, log_integral, wishart
from vgi_cli.models.gaussian.family import EmTable
from vgi_cli.models.gaussian.full import FullGaussians, FullObserved
from vgi_cli.models.gaussian.mixture import GaussianMixture
from vgi_cli.models.gaussian.widened import ROWS, Widened

FLOOR = 1e-3
SPREADS = (0.15, 0.3, 0.6, 1.0, 2.0, 4.0, 8.0)
"""nu = D + 1 + max(1, s D) for s of these."""
COMMON = (0.15, 0.5, 1.0, 2.0, 4.0, 8.0)
"""n0 = D + 1 + max(1, s D) for s of these."""
PULLS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
"""Values of kappa."""
ALONE = 0.01
"""kappa of one component alone."""
CONCENTRATIONS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
"""Values of alpha."""
WITHIN = 0.5
"""Prior mean of W, in variances of the columns."""


class Hyper(NamedTuple):
    """What the components share: alpha, kappa, nu, n0 (see above), and W [D, D]."""

    alpha: float
    kappa: float
    nu: float
    n0: float
    W: Tensor


class Parameters(NamedTuple):
    """mean [K, D] and lower factors [K, D, D] of the covariances of the learnt components, log weights [K + B] of all,
    and what they share."""

    mean: Tensor
    factor: Tensor
    log_weights: Tensor
    hyper: Hyper


class Completed(NamedTuple):
    """Rows x [N, D] without holes, and the label [N] of the component that each belongs to."""

    x: Tensor
    label: Tensor


class Moments(NamedTuple):
    """Rows of each learnt component, about m: their number n [K], sums [K, D], scatter [K, D, D]."""

    n: Tensor
    total: Tensor
    scatter: Tensor


def freedoms(D: int, shares: tuple[float, ...]) -> Tensor:
    """The grid of degrees of freedom for D columns."""
    return torch.tensor([D + 1 + max(1.0, share * D) for share in shares], dtype=torch.float64)


class MixturePosterior:
    """The posterior of the parameters of a mixture of full Gaussians of numbers, and the steps of a chain in it."""

    def __init__(self, model: GaussianMixture, table: EmTable, floor: float = FLOOR) -> None:
        """model: in float64; its broad components are taken as they are. table: what was observed. Raises TypeError for
        mixtures of other covariances, or with levels."""
        gaussians = model.gaussians
        learnt = gaussians.learnt if isinstance(gaussians, Widened) else gaussians
        if not isinstance(learnt, FullGaussians):
            raise TypeError("only mixtures of Gaussians with full covariances have posterior draws")
        self._model, self._table, self._floor = copy.deepcopy(model), table, floor
        self.K, self.D = learnt.mean.shape
        self.m, self.V = table.scale.mean, table.scale.variance
        self._all = FullGaussians(self.K, self.D).double()
        if isinstance(gaussians, Widened):
            broad = gaussians.broad
            assert isinstance(broad, FullGaussians)
            self._all = FullGaussians(self.K + broad.K, self.D).double()
            with torch.no_grad():
                self._all.mean[self.K :], self._all.tril[self.K :] = broad.mean, broad.tril
        self.B = len(self._all.mean) - self.K
        self._missing = table.patterns.missing[table.patterns.of_row]

    def start(self) -> Parameters:
        """The parameters of the model, with values in the middle of what they share."""
        learnt = self._model.gaussians
        learnt = learnt.learnt if isinstance(learnt, Widened) else learnt
        assert isinstance(learnt, FullGaussians)
        several = self.K > 1
        factor = learnt.cholesky().detach()
        W = (factor @ factor.mT).mean(0) if several else torch.diag(self.V)
        nu, n0 = (float(freedoms(self.D, shares)[len(shares) // 2]) for shares in (SPREADS, COMMON))
        hyper = Hyper(2.0, 0.2 if several else ALONE, nu, n0, W)
        return Parameters(learnt.mean.detach().clone(), factor, self._model.log_weights().detach(), hyper)

    @torch.no_grad()
    def sweep(self, parameters: Parameters, rng: np.random.Generator) -> Parameters:
        """One sweep of the chain."""
        return self.parameters(self.completed(parameters, rng), parameters.hyper, rng)

    @torch.no_grad()
    def completed(self, parameters: Parameters, rng: np.random.Generator) -> Completed:
        """Labels and missing cells given the parameters."""
        self._set(parameters)
        table = self._table
        x, label = torch.empty_like(table.x), torch.empty(len(table.x), dtype=torch.int64)
        for rows, some in table.pieces(self._all.footprint(), summed=False):
            observed = self._all.observe(some)
            assert isinstance(observed, FullObserved)  # draws are asked for
            label[rows] = _pick(observed.log_prob + parameters.log_weights, rng)
            noise = torch.from_numpy(rng.standard_normal(tuple(table.x[rows].shape)))
            x[rows] = observed.draw_each(label[rows], noise, noise[:, :0])
        return Completed(x, label)

    @torch.no_grad()
    def parameters(self, rows: Completed, hyper: Hyper, rng: np.random.Generator) -> Parameters:
        """The parameters, and what they share, given completed rows; each value of `hyper` serves until it is drawn."""
        alpha, kappa, nu, n0, W = hyper
        found, D = self.moments(rows), self.D
        there = (found.n > 0).nonzero()[:, 0]
        n = found.n[there]
        nu = _drawn(freedoms(D, SPREADS), self.log_freedom(found, kappa, W), rng)
        shift = found.total[there] / (n + kappa)[:, None]
        scale = (nu - D - 1) * W + self._scatter(found, kappa)
        factor = inverse_wishart(nu + n, torch.linalg.cholesky(scale), rng)
        offset = shift + _spread(factor, (n + kappa).rsqrt(), rng)
        if self.K > 1:
            kappa = _drawn(torch.tensor(PULLS, dtype=torch.float64), _log_pull(offset, factor), rng)
            W = self._common(factor, nu, n0, rng)
            n0 = _drawn(freedoms(D, COMMON), self.log_common(W), rng)
        empty = (found.n == 0).nonzero()[:, 0]
        if len(empty):
            prior = torch.linalg.cholesky((nu - D - 1) * W).expand(len(empty), D, D)
            idle = inverse_wishart(torch.full((len(empty),), nu, dtype=torch.float64), prior, rng)
            factor = torch.cat([factor, idle])
            width = torch.full((len(empty),), kappa, dtype=torch.float64).rsqrt()
            offset = torch.cat([offset, _spread(idle, width, rng)])
        place = torch.argsort(torch.cat([there, empty]))
        count = torch.bincount(rows.label, minlength=self.K + self.B).to(torch.float64)
        grid = torch.tensor(CONCENTRATIONS, dtype=torch.float64)
        alpha = _drawn(grid, self.log_concentration(count), rng)
        log_weights = self._weights(count, alpha, rng)
        return Parameters(self.m + offset[place], factor[place], log_weights, Hyper(alpha, kappa, nu, n0, W))

    def moments(self, rows: Completed) -> Moments:
        """The rows of each learnt component; those of broad components are in none."""
        own = rows.label < self.K
        delta, label = rows.x[own] - self.m, rows.label[own]
        count = torch.bincount(label, minlength=self.K).to(torch.float64)
        total = delta.new_zeros(self.K, self.D).index_add_(0, label, delta)
        order = torch.argsort(label, stable=True)
        parts = delta[order].split(count.long().tolist())
        return Moments(count, total, torch.stack([part.mT @ part for part in parts]))

    def log_freedom(self, found: Moments, kappa: float, W: Tensor) -> Tensor:
        """[G] for each nu of its grid the log density of the completed rows, means and covariances integrated out; up
        to a constant."""
        D, grid = self.D, freedoms(self.D, SPREADS)
        n = found.n[found.n > 0]
        scale = (grid - D - 1)[:, None, None] * W
        both = torch.linalg.cholesky(scale[:, None] + self._scatter(found, kappa))
        with_rows = 2 * both.diagonal(dim1=-2, dim2=-1).log().sum(-1)  # [G, K]
        without = D * (grid - D - 1).log() + torch.logdet(W)
        gained = log_integral(grid[:, None] + n, with_rows, D) - log_integral(grid, without, D)[:, None]
        return gained.sum(1)

    def log_common(self, W: Tensor) -> Tensor:
        """[G] for each n0 of its grid the log density of W."""
        grid = freedoms(self.D, COMMON)
        inverse = 1 / (WITHIN * self.V)
        logdet = self.D * grid.log() + inverse.log().sum()
        density = 0.5 * (grid - self.D - 1) * torch.logdet(W) - 0.5 * grid * (W.diagonal() * inverse).sum()
        return density - log_integral(grid, logdet, self.D)

    def log_concentration(self, count: Tensor) -> Tensor:
        """[G] for each alpha of its grid the log probability of labels that count [K + B] rows, weights integrated
        out; up to a constant."""
        grid = torch.tensor(CONCENTRATIONS, dtype=torch.float64)
        each, total = grid / self.K, grid + ROWS * self.B
        within = torch.lgamma(count[: self.K] + each[:, None]) - torch.lgamma(each)[:, None]
        return torch.lgamma(total) - torch.lgamma(total + count.sum()) + within.sum(1)

    def state_dict(self, parameters: Parameters) -> dict[str, Tensor]:
        """The parameters as those of the model."""
        factor = parameters.factor
        self._model.gaussians.set_moments(parameters.mean, factor @ factor.mT)
        self._model.set_weights(parameters.log_weights.exp())
        return {name: value.detach().clone() for name, value in self._model.state_dict().items()}

    def _set(self, parameters: Parameters) -> None:
        """The learnt components of all."""
        factor = parameters.factor
        diagonal = factor.diagonal(dim1=-2, dim2=-1).log()
        self._all.mean[: self.K] = parameters.mean
        self._all.tril[: self.K] = factor.tril(-1) + torch.diag_embed(diagonal)

    def _scatter(self, found: Moments, kappa: float) -> Tensor:
        """[K, D, D] of the components with rows: about their means, the pull of the mean and the floor."""
        there = found.n > 0
        total, n = found.total[there], found.n[there]
        pulled = total[:, :, None] * total[:, None, :] / (n + kappa)[:, None, None]
        return found.scatter[there] - pulled + self._floor * torch.diag(self.V)

    def _common(self, factor: Tensor, nu: float, n0: float, rng: np.random.Generator) -> Tensor:
        """W given the covariances of the components with rows."""
        precision = torch.cholesky_inverse(factor).sum(0)
        inverse = (nu - self.D - 1) * precision + n0 * torch.diag(1 / (WITHIN * self.V))
        df = torch.tensor(n0 + len(factor) * nu, dtype=torch.float64)
        return wishart(df, torch.linalg.cholesky(inverse), rng)

    def _weights(self, count: Tensor, alpha: float, rng: np.random.Generator) -> Tensor:
        """[K + B] log weights given the counts. A gamma draw of a tiny shape a is one of a + 1 times u^(1 / a), taken
        in logarithms because it may be less than the smallest number."""
        shape = count + torch.cat([count.new_full((self.K,), alpha / self.K), count.new_full((self.B,), ROWS)])
        raised = torch.from_numpy(rng.standard_gamma((shape + 1).numpy())).log()
        u = torch.from_numpy(rng.random(len(shape)))
        return torch.log_softmax(raised + torch.log1p(-u) / shape, 0)


def _pick(joint: Tensor, rng: np.random.Generator) -> Tensor:
    """[R] a component of each row by its log probabilities [R, K], up to a constant."""
    bounds = torch.softmax(joint, -1).cumsum(-1)
    u = torch.from_numpy(rng.random(len(joint)))
    label: Tensor = (u[:, None] * bounds[:, -1:] > bounds[:, :-1]).sum(-1)
    return label


def _drawn(grid: Tensor, log_density: Tensor, rng: np.random.Generator) -> float:
    """One value of a grid [G] by its log density [G], up to a constant."""
    return float(grid[_pick(log_density[None], rng)[0]])


def _log_pull(offset: Tensor, factor: Tensor) -> Tensor:
    """[G] for each kappa of its grid the log density of means at offsets [K, D] from m; up to a constant."""
    grid = torch.tensor(PULLS, dtype=torch.float64)
    white = torch.linalg.solve_triangular(factor, offset[:, :, None], upper=False)
    density: Tensor = (offset.numel() * grid.log() - grid * white.square().sum()) / 2
    return density


def _spread(factor: Tensor, width: Tensor, rng: np.random.Generator) -> Tensor:
    """[K, D] draws of N(0, width_k^2 factor_k factor_k')."""
    noise = torch.from_numpy(rng.standard_normal(tuple(factor.shape[:2])))
    return (factor @ noise[:, :, None])[:, :, 0] * width[:, None]


def sample(
    posterior: MixturePosterior, start: Parameters, rng: np.random.Generator, burn: int, thin: int
) -> Iterator[Parameters | None]:
    """An endless chain: None after every sweep that is not kept; of those after the first `burn` each `thin`-th is."""
    state, done = start, 0
    while True:
        state = posterior.sweep(state, rng)
        done += 1
        yield state if done > burn and (done - burn) % thin == 0 else None
