"""A joint proposal with closed-form conditionals under any mask: a Gaussian mixture fitted to a model's own samples.

A black-box density offers draws and log p(x), not p(x_mis | x_obs). The mixture stands in for it: importance weights
and annealing correct what it gets wrong. The model gives as many samples as are asked for, so the number of components
is chosen on fresh ones, and nothing overfits.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from vgi_cli.maths.gaussian import LOG_2PI, observed_precision, patterns_of
from vgi_cli.maths.noise import KeyedNoise, numbered

WIDER = 1.1
"""Components are widened to this many standard deviations: a proposal should have the heavier tails."""
BROAD_WEIGHT, BROAD_SCALE = 0.05, 2.0
"""One more component with the overall mean and this many overall standard deviations, for rows in the tails."""
COMPONENTS = (1, 2, 4, 8, 16)
ROUNDING = 1e-10
"""Share of a column's variance that is added to its conditional variance: what float64 may lose."""
GAIN = 0.01
"""Nats a row that doubling the number of components must gain on fresh samples."""


class JointMixture:
    """Gaussian mixture: log weights [K'], means [K', D], covariances [K', D, D] of its K' components."""

    def __init__(self, log_weights: Tensor, means: Tensor, covariances: Tensor) -> None:
        self.log_weights = log_weights
        self.means = means
        self.covariances = covariances
        factor = torch.linalg.cholesky(covariances)
        self._whiten: Tensor = torch.linalg.inv(factor)  # [K', D, D] lower: |W (x - mean)|^2 is the quadratic form
        self._logdet: Tensor = 2 * factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        self.precisions = self._whiten.mT @ self._whiten

    @property
    def D(self) -> int:
        """Number of columns."""
        return int(self.means.shape[1])

    def to(self, like: Tensor) -> JointMixture:
        """The same mixture in the precision and on the device of `like`."""
        return JointMixture(*(t.to(like) for t in (self.log_weights, self.means, self.covariances)))

    def component_log_prob(self, x: Tensor) -> Tensor:
        """log(w_k N_k(x)): [n, D] -> [n, K']."""
        k, D = self.means.shape
        white: Tensor = (x @ self._whiten.flatten(0, 1).mT).unflatten(1, (k, D))
        white = white - (self._whiten @ self.means[:, :, None])[:, :, 0]
        return self.log_weights - 0.5 * (white.square().sum(-1) + self._logdet + D * LOG_2PI)

    def log_prob(self, x: Tensor) -> Tensor:
        """log g(x), nats: [n, D] -> [n]."""
        return self.component_log_prob(x).logsumexp(-1)

    def conditional(self, x: Tensor, missing: Tensor) -> JointConditional:
        """g(x_mis | x_obs) of rows x [R, D] with holes missing [R, D]."""
        patterns = patterns_of(missing)
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
        return JointConditional(x, missing, weights, torch.stack(means, 1), torch.stack(factors, 1), patterns.of_row)


class JointConditional(NamedTuple):
    """g(x_mis | x_obs) of R rows: a mixture again.

    x, missing  [R, D]
    log_joint   [R, K'] log(w_k N_k(x_obs))
    mean        [R, K', D] conditional means, observed cells as given
    factor      [U, K', D, D] lower factors of the conditional covariances by pattern, zero at observed cells
    of_row      [R] pattern of each row
    """

    x: Tensor
    missing: Tensor
    log_joint: Tensor
    mean: Tensor
    factor: Tensor
    of_row: Tensor

    def log_marginal(self) -> Tensor:
        """log g(x_obs): [R]."""
        return self.log_joint.logsumexp(1)

    def sample(self, noise: KeyedNoise) -> Tensor:
        """[P, R, D] draws, P = len(noise.draws): observed cells bit-equal to x."""
        u = noise.uniform(("component",))[..., 0].to(self.x.dtype)
        z = noise.normal(numbered("z", self.x.shape[1])).to(self.x.dtype)
        ends = self.log_joint.softmax(1).cumsum(1)
        chosen = (u[..., None] > ends).sum(-1).clamp(max=ends.shape[1] - 1)  # [P, R]
        out = torch.zeros_like(z)
        for k in range(ends.shape[1]):
            moved = torch.einsum("rde,pre->prd", self.factor[self.of_row, k], z) + self.mean[:, k]
            out = torch.where((chosen == k)[..., None], moved, out)
        return torch.where(self.missing, out, self.x)


def fit_joint(fit: Tensor, fresh: Tensor, generator: torch.Generator) -> JointMixture:
    """A widened mixture for a density of which `fit` [n, D] and `fresh` [n', D] are samples.

    The number of components doubles while that gains GAIN nats a row on `fresh`.
    """
    fit, fresh = fit.double().cpu(), fresh.double().cpu()
    best: tuple[float, JointMixture] | None = None
    for count in COMPONENTS:
        if count > 1 and len(fit) < 20 * count:
            break
        mixture = fit_mixture(fit, count, generator)
        score = float(mixture.log_prob(fresh).mean())
        if best is not None and score < best[0] + GAIN:
            break
        best = (score, mixture)
    assert best is not None
    return widen(best[1], fit)


def widen(mixture: JointMixture, samples: Tensor) -> JointMixture:
    """Wider components and a broad one: bounded importance weights where the model's tails are Gaussian or lighter."""
    D = mixture.D
    overall = torch.atleast_2d(samples.mT.cov()) + 1e-6 * torch.eye(D).to(samples)
    log_weights = torch.cat(
        [mixture.log_weights + math.log1p(-BROAD_WEIGHT), mixture.log_weights.new_full((1,), math.log(BROAD_WEIGHT))]
    )
    means = torch.cat([mixture.means, samples.mean(0, keepdim=True)])
    covariances = torch.cat([mixture.covariances * WIDER**2, overall[None] * BROAD_SCALE**2])
    return JointMixture(log_weights, means, covariances)


def fit_mixture(x: Tensor, count: int, generator: torch.Generator, iterations: int = 60) -> JointMixture:
    """EM on complete samples x [n, D]: `count` full covariances, each with a small share of the columns' variances."""
    floor = torch.diag(1e-4 * x.var(0) + 1e-10)
    if count == 1:
        return JointMixture(x.new_zeros(1), x.mean(0, keepdim=True), torch.atleast_2d(x.mT.cov())[None] + floor)
    scaled = x / x.std(0).clamp(min=1e-12)
    centres = _spread(scaled, count, generator)
    r = torch.nn.functional.one_hot(torch.cdist(scaled, centres).argmin(1), count).to(x)
    last = -math.inf
    for _ in range(iterations):
        mixture = _maximise(x, r + 1e-8, floor)
        log_r = mixture.component_log_prob(x)
        total = log_r.logsumexp(1, keepdim=True)
        r = (log_r - total).exp()
        if float(total.mean()) < last + 1e-3:
            break
        last = float(total.mean())
    return mixture


def _maximise(x: Tensor, r: Tensor, floor: Tensor) -> JointMixture:
    """M step from responsibilities r [n, K']."""
    total = r.sum(0)
    means = (r.mT @ x) / total[:, None]
    covariances = torch.stack(
        [((x - mean) * weight[:, None]).mT @ (x - mean) for mean, weight in zip(means, r.mT, strict=True)]
    )
    covariances = covariances / total[:, None, None]
    return JointMixture((total / total.sum()).log(), means, 0.5 * (covariances + covariances.mT) + floor)


def _spread(x: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Starting centres [count, D], each drawn with probability proportional to its squared distance to the others."""
    x = x[torch.randperm(len(x), generator=generator)[:4000]]
    centres = x[:1]
    for _ in range(count - 1):
        distance = torch.cdist(x, centres).min(1).values.square()
        centres = torch.cat([centres, x[torch.multinomial(distance + 1e-12, 1, generator=generator)]])
    return centres
