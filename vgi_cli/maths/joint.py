"""A joint proposal with closed-form conditionals under any mask: a Gaussian mixture fitted to a model's own samples.
Discrete dimensions are independent of each other and of the numbers within a component.

A black-box density offers draws and log p(x), not p(x_mis | x_obs). The mixture stands in for it: importance weights
and annealing correct what it gets wrong. The model gives as many samples as are asked for, so the number of components
is chosen on fresh ones, and nothing overfits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from vgi_cli.maths.gaussian import LOG_2PI, Patterns, observed_precision, patterns_of
from vgi_cli.maths.indicators import Indicators
from vgi_cli.maths.laws import CategoricalLaw
from vgi_cli.maths.noise import KeyedNoise, numbered

WIDER = 1.1
"""Components are widened to this many standard deviations: a proposal should have the heavier tails."""
BROAD_WEIGHT, BROAD_SCALE = 0.05, 2.0
"""One more component with the overall mean and this many overall standard deviations, for rows in the tails."""
COMPONENTS = (1, 2, 4, 8, 16)
ROUNDING = 1e-10
"""Share of a column's variance that is added to its conditional variance: what float64 may lose."""
ITERATIONS = 60
"""Of EM, at most."""
GAIN = 0.01
"""Nats a row that doubling the number of components must gain on fresh samples."""


class LevelTables:
    """Probabilities of the levels of discrete dimensions, in each of K' components.

    counts      of each of the D dimensions its number of levels, 0 where it is continuous
    log_probs   [K', d, width] of the d discrete dimensions; -inf beyond the levels of one
    continuous, discrete  the dimensions
    """

    def __init__(self, counts: Sequence[int], log_probs: Tensor) -> None:
        self.counts, self.log_probs = tuple(counts), log_probs
        device = log_probs.device
        self.continuous = torch.tensor([i for i, n in enumerate(counts) if not n], dtype=torch.int64, device=device)
        self.discrete = torch.tensor([i for i, n in enumerate(counts) if n], dtype=torch.int64, device=device)

    def to(self, like: Tensor) -> LevelTables:
        """The same in the precision and on the device of `like`."""
        return LevelTables(self.counts, self.log_probs.to(like))

    def of(self, x: Tensor) -> Tensor:
        """[n, K', d] log probabilities of the levels that rows x [n, D] hold."""
        own = x[:, self.discrete].long().clamp(0, self.log_probs.shape[2] - 1)
        return self.log_probs[:, torch.arange(own.shape[1], device=x.device), own].movedim(0, 1)

    def draw(self, component: Tensor, noise: KeyedNoise) -> Tensor:
        """Levels [P, R, d] in the components [P, R]."""
        law = CategoricalLaw(self.log_probs[component])
        return law.draw(noise.normal(numbered("level", len(self.discrete))).to(self.log_probs)[..., None])


def fitted_tables(x: Tensor, r: Tensor, counts: Sequence[int]) -> LevelTables:
    """The shares of the levels of rows x [n, D] under weights r [n, K'], with a pseudo-row spread as over all rows, of
    which a level that none holds has a share too."""
    d = [i for i, n in enumerate(counts) if n]
    table = x.new_full((r.shape[1], len(d), max(counts)), -torch.inf)
    for place, i in enumerate(d):
        hot = torch.nn.functional.one_hot(x[:, i].long(), counts[i]).to(x)
        overall = (hot.sum(0) + 1.0) / (len(x) + counts[i])
        table[:, place, : counts[i]] = ((r.mT @ hot + overall) / (r.sum(0)[:, None] + 1.0)).log()
    return LevelTables(counts, table)


class JointMixture:
    """Gaussian mixture: log weights [K'], means [K', D], covariances [K', D, D] of its K' components. With `levels` D
    counts the continuous dimensions only, and rows x have the discrete ones beside them."""

    def __init__(
        self, log_weights: Tensor, means: Tensor, covariances: Tensor, levels: LevelTables | None = None
    ) -> None:
        self.log_weights = log_weights
        self.levels = levels
        self.means = means
        self.covariances = covariances
        factor = torch.linalg.cholesky(covariances)
        self._whiten: Tensor = torch.linalg.inv(factor)  # [K', D, D] lower: |W (x - mean)|^2 is the quadratic form
        self._logdet: Tensor = 2 * factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        self.precisions = self._whiten.mT @ self._whiten

    @property
    def D(self) -> int:
        """Number of dimensions of a row."""
        return int(self.means.shape[1]) if self.levels is None else len(self.levels.counts)

    def to(self, like: Tensor) -> JointMixture:
        """The same mixture in the precision and on the device of `like`."""
        levels = None if self.levels is None else self.levels.to(like)
        return JointMixture(self.log_weights.to(like), self.means.to(like), self.covariances.to(like), levels)

    def numbers(self, x: Tensor) -> Tensor:
        """The continuous dimensions of x [.., D]."""
        return x if self.levels is None else x[..., self.levels.continuous]

    def component_log_prob(self, x: Tensor) -> Tensor:
        """log(w_k N_k(x)): [n, D] -> [n, K']."""
        k, D = self.means.shape
        by_levels = 0.0 if self.levels is None else self.levels.of(x).sum(-1)
        x = self.numbers(x)
        white: Tensor = (x @ self._whiten.flatten(0, 1).mT).unflatten(1, (k, D))
        white = white - (self._whiten @ self.means[:, :, None])[:, :, 0]
        return self.log_weights - 0.5 * (white.square().sum(-1) + self._logdet + D * LOG_2PI) + by_levels

    def log_prob(self, x: Tensor) -> Tensor:
        """log g(x), nats: [n, D] -> [n]."""
        return self.component_log_prob(x).logsumexp(-1)

    def conditional(self, x: Tensor, missing: Tensor, apart: bool = False) -> JointConditional:
        """g(x_mis | x_obs) of rows x [R, D] with holes missing [R, D]; `apart`: rows with the same holes do not share
        their factors, so that the rounding of a row cannot depend on the patterns beside it."""
        rows, holes_of_rows, by_levels = x, missing, None
        if self.levels is not None:
            seen = ~missing[:, None, self.levels.discrete]
            by_levels = torch.where(seen, self.levels.of(x), 0.0).sum(-1)
            x, missing = self.numbers(x), self.numbers(missing)
        patterns = Patterns(missing, torch.arange(len(x), device=x.device)) if apart else patterns_of(missing)
        o = (~patterns.missing).double()
        log_prob, means, factors = [], [], []
        for log_weight, mean, S in zip(self.log_weights, self.means.double(), self.covariances.double(), strict=True):
            P = observed_precision(S, patterns.missing)
            delta = torch.where(missing, 0.0, x.double() - mean)
            solved = (P.padded[patterns.of_row] @ delta[:, :, None])[:, :, 0]
            quadratic = (delta * solved).sum(1)
            constant = (P.logdet + o.sum(1) * LOG_2PI)[patterns.of_row]
            log_prob.append((log_weight - 0.5 * (quadratic + constant)).to(x.dtype))
            means.append(torch.where(missing, (mean + solved @ S).to(x.dtype), x))
            holes = (1 - o)[:, :, None] * (1 - o)[:, None, :]
            rest = (S - S @ P.padded @ S) * holes
            # columns that determine each other leave next to nothing, which rounding may turn negative
            rest = 0.5 * (rest + rest.mT) + torch.diag_embed(o + (1 - o) * ROUNDING * S.diagonal())
            factors.append((torch.linalg.cholesky(rest) * holes).to(x.dtype))
        weights = torch.stack(log_prob, 1)
        weights = weights if by_levels is None else weights + by_levels
        mean, factor = torch.stack(means, 1), torch.stack(factors, 1)
        return JointConditional(rows, holes_of_rows, weights, mean, factor, patterns.of_row, self.levels)


class JointConditional(NamedTuple):
    """g(x_mis | x_obs) of R rows: a mixture again. With `levels` mean, factor and pattern are of the continuous
    dimensions.

    x, missing  [R, D]
    log_joint   [R, K'] log(w_k N_k(x_obs))
    mean        [R, K', D] conditional means, observed cells as given
    factor      [U, K', D, D] lower factors of the conditional covariances by pattern, zero at observed cells
    of_row      [R] pattern of each row
    levels      of the discrete dimensions
    """

    x: Tensor
    missing: Tensor
    log_joint: Tensor
    mean: Tensor
    factor: Tensor
    of_row: Tensor
    levels: LevelTables | None = None

    def log_marginal(self) -> Tensor:
        """log g(x_obs): [R]."""
        return self.log_joint.logsumexp(1)

    def sample(self, noise: KeyedNoise) -> Tensor:
        """[P, R, D] draws, P = len(noise.draws): observed cells bit-equal to x."""
        u = noise.uniform(("component",))[..., 0].to(self.x.dtype)
        z = noise.normal(numbered("z", self.mean.shape[2])).to(self.x.dtype)
        ends = self.log_joint.softmax(1).cumsum(1)
        chosen = (u[..., None] > ends).sum(-1).clamp(max=ends.shape[1] - 1)  # [P, R]
        out = torch.zeros_like(z)
        for k in range(ends.shape[1]):
            moved = torch.einsum("rde,pre->prd", self.factor[self.of_row, k], z) + self.mean[:, k]
            out = torch.where((chosen == k)[..., None], moved, out)
        if self.levels is not None:
            numbers, out = out, self.x.expand(len(out), -1, -1).clone()
            out[..., self.levels.continuous] = numbers
            out[..., self.levels.discrete] = self.levels.draw(chosen, noise)
        return torch.where(self.missing, out, self.x)


def fit_joint(fit: Tensor, fresh: Tensor, generator: torch.Generator, counts: Sequence[int] = ()) -> JointMixture:
    """A widened mixture for a density of which `fit` [n, D] and `fresh` [n', D] are samples; `counts`: how many levels
    each dimension has (0: it is continuous), empty where all are continuous.

    The number of components doubles while that gains GAIN nats a row on `fresh`.
    """
    fit, fresh = fit.double().cpu(), fresh.double().cpu()
    best: tuple[float, JointMixture] | None = None
    for count in COMPONENTS:
        if count > 1 and len(fit) < 20 * count:
            break
        mixture = fit_mixture(fit, count, generator, counts=counts)
        score = float(mixture.log_prob(fresh).mean())
        if best is not None and score < best[0] + GAIN:
            break
        best = (score, mixture)
    assert best is not None
    return widen(best[1], fit)


def widen(mixture: JointMixture, samples: Tensor) -> JointMixture:
    """Wider components and a broad one: bounded importance weights where the model's tails are Gaussian or lighter."""
    levels = mixture.levels
    if levels is not None:
        ones = samples.new_ones(len(samples), 1)
        overall = fitted_tables(samples, ones, levels.counts).log_probs
        wider = torch.logaddexp(levels.log_probs + math.log1p(-BROAD_WEIGHT), overall + math.log(BROAD_WEIGHT))
        even = (overall > -torch.inf).to(samples)
        flat = torch.logaddexp(overall, (even / even.sum(-1, keepdim=True)).log()) - math.log(2.0)
        levels = LevelTables(levels.counts, torch.cat([wider, flat]))
    samples = mixture.numbers(samples)
    overall = _covariance(samples) + 1e-6 * torch.eye(samples.shape[1]).to(samples)
    log_weights = torch.cat(
        [mixture.log_weights + math.log1p(-BROAD_WEIGHT), mixture.log_weights.new_full((1,), math.log(BROAD_WEIGHT))]
    )
    means = torch.cat([mixture.means, samples.mean(0, keepdim=True)])
    covariances = torch.cat([mixture.covariances * WIDER**2, overall[None] * BROAD_SCALE**2])
    return JointMixture(log_weights, means, covariances, levels)


def fit_mixture(x: Tensor, count: int, generator: torch.Generator, counts: Sequence[int] = ()) -> JointMixture:
    """EM on complete samples x [n, D]: `count` full covariances, each with a small share of the columns' variances;
    `counts` as in `fit_joint`."""
    numbers = x[:, [i for i, n in enumerate(counts) if not n]] if counts else x
    floor = torch.diag(1e-4 * numbers.var(0) + 1e-10) if numbers.shape[1] else numbers.new_zeros(0, 0)
    if count == 1:
        levels = fitted_tables(x, x.new_ones(len(x), 1), counts) if counts else None
        return JointMixture(x.new_zeros(1), numbers.mean(0, keepdim=True), _covariance(numbers)[None] + floor, levels)
    spread = Indicators(counts).to(x)(x) if counts else x
    scaled = spread / spread.std(0).clamp(min=1e-12)
    centres = _spread(scaled, count, generator)
    r = torch.nn.functional.one_hot(torch.cdist(scaled, centres).argmin(1), count).to(x)
    last = -math.inf
    for _ in range(ITERATIONS):
        mixture = _maximise(x, r + 1e-8, floor, counts)
        log_r = mixture.component_log_prob(x)
        total = log_r.logsumexp(1, keepdim=True)
        r = (log_r - total).exp()
        if float(total.mean()) < last + 1e-3:
            break
        last = float(total.mean())
    return mixture


def _covariance(x: Tensor) -> Tensor:
    """[D, D] of rows x [n, D], D = 0 included."""
    return torch.atleast_2d(x.mT.cov()) if x.shape[1] else x.new_zeros(0, 0)


def _maximise(x: Tensor, r: Tensor, floor: Tensor, counts: Sequence[int]) -> JointMixture:
    """M step from responsibilities r [n, K']."""
    levels = fitted_tables(x, r, counts) if counts else None
    x = x if levels is None else x[:, levels.continuous]
    total = r.sum(0)
    means = (r.mT @ x) / total[:, None]
    covariances = torch.stack(
        [((x - mean) * weight[:, None]).mT @ (x - mean) for mean, weight in zip(means, r.mT, strict=True)]
    )
    covariances = covariances / total[:, None, None]
    return JointMixture((total / total.sum()).log(), means, 0.5 * (covariances + covariances.mT) + floor, levels)


def _spread(x: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Starting centres [count, D], each drawn with probability proportional to its squared distance to the others."""
    x = x[torch.randperm(len(x), generator=generator)[:4000]]
    centres = x[:1]
    for _ in range(count - 1):
        distance = torch.cdist(x, centres).min(1).values.square()
        centres = torch.cat([centres, x[torch.multinomial(distance + 1e-12, 1, generator=generator)]])
    return centres
