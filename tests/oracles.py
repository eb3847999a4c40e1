"""Closed forms that tests compare against: a Gaussian as a black-box model and as a Marginal, and its exact univariate
conditionals, in both kernels, with deliberate imperfections."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from vgi_cli.conditionals.base import Draw, Proposal, Rows, Univariate
from vgi_cli.layout import Layout
from vgi_cli.models.base import Model, ModelConfig


class GaussianModel(Model):
    """N(mean, covariance), known only through its density and its draws."""

    Config = ModelConfig

    def __init__(self, mean: Tensor, covariance: Tensor) -> None:
        super().__init__()
        self.register_buffer("mean", mean)
        self.register_buffer("covariance", covariance)
        self.register_buffer("factor", torch.linalg.cholesky(covariance))

    @classmethod
    def build(cls, config: ModelConfig, layout: Layout) -> GaussianModel:
        return cls(torch.zeros(layout.D, dtype=torch.float64), torch.eye(layout.D, dtype=torch.float64))

    def initialise(self, x: Tensor, generator: torch.Generator) -> None:
        self.mean.copy_(x.mean(0))

    def log_prob(self, x: Tensor) -> Tensor:
        delta = (x - self.mean).reshape(-1, x.shape[-1])
        white = torch.linalg.solve_triangular(self.factor, delta.mT, upper=False)
        logdet = self.factor.diagonal().log().sum()
        constant = 0.5 * x.shape[-1] * math.log(2 * math.pi)
        return (-0.5 * white.square().sum(0) - logdet - constant).view(x.shape[:-1])

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        noise = torch.randn(n, len(self.mean), generator=generator, dtype=self.mean.dtype)
        return self.mean + noise @ self.factor.mT


def gaussian_marginal_log_prob(model: GaussianModel, x: Tensor, missing: Tensor) -> Tensor:
    """log p(x_obs) [R], row by row."""
    out = []
    for row, holes in zip(x, missing, strict=True):
        o = torch.nonzero(~holes)[:, 0]
        if len(o) == 0:
            out.append(x.new_zeros(()))
            continue
        part = torch.distributions.MultivariateNormal(model.mean[o], model.covariance[o][:, o])
        out.append(part.log_prob(row[o]))
    return torch.stack(out)


def gaussian_conditional(model: GaussianModel, x: Tensor, missing: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and covariance of the missing cells of one row, x [D], missing [D]."""
    o, m = torch.nonzero(~missing)[:, 0], torch.nonzero(missing)[:, 0]
    S = model.covariance
    gain = torch.linalg.solve(S[o][:, o], S[o][:, m]).mT
    return model.mean[m] + gain @ (x[o] - model.mean[o]), S[m][:, m] - gain @ S[o][:, m]


class GaussianConditionals(Univariate):
    """Exact q_j of a Gaussian; `shift` and `scale` spoil mean and standard deviation; `memory` is how much of its own
    previous value the extended kernel keeps (0: the standard kernel)."""

    noise_width = fresh_width = 1

    def __init__(self, mean: Tensor, covariance: Tensor, shift: float = 0.0, scale: float = 1.0, memory: float = 0.0):
        super().__init__(len(mean))
        precision = torch.linalg.inv(covariance)
        self.mean = mean
        self.weights = precision / precision.diagonal()[:, None]
        self.std = precision.diagonal().rsqrt() * scale
        self.shift = shift
        self.memory = memory
        self.extended = memory != 0

    def initialise(self, generator: torch.Generator) -> None:
        """Nothing is fitted."""

    def align(self, x: Tensor) -> None:
        """Nothing is fitted."""

    def _params(self, x: Tensor, j: Tensor, visible: bool) -> tuple[Tensor, Tensor]:
        """x [.., D], j [..]."""
        own = x.gather(-1, j[..., None])[..., 0]
        mean = own - ((x - self.mean) * self.weights[j]).sum(-1) + self.shift
        return (mean + self.memory * (own - mean) if visible else mean), self.std[j]

    def _log(self, value: Tensor, mean: Tensor, std: Tensor) -> Tensor:
        return -0.5 * ((value - mean) / std).square() - std.log() - 0.5 * math.log(2 * math.pi)

    def blocks(self, missing: Tensor) -> Tensor:
        return missing

    def draw(self, x: Tensor, missing: Tensor, j: Tensor, noise: Tensor) -> Draw:
        rows = x[:, None].expand(*j.shape, x.shape[-1])
        mean, std = self._params(rows, j, True)
        value = mean + std * noise[..., 0]
        return Draw(rows.scatter(-1, j[..., None], value[..., None]), self._log(value, mean, std))

    def propose(self, x: Tensor, missing: Tensor, j: Tensor, noise: Tensor) -> Proposal:
        mean, std = self._params(x, j, True)
        value = mean + std * noise[..., 0]
        new = x.scatter(-1, j[..., None], value[..., None])
        back, back_std = self._params(new, j, True)
        own = x.gather(-1, j[..., None])[..., 0]
        return Proposal(new, self._log(value, mean, std), self._log(own, back, back_std))

    def redraw(self, x: Tensor, missing: Tensor, j: Tensor, noise: Tensor) -> Tensor:
        return self.propose(x, missing, j, noise).x

    def see(self, x: Tensor, missing: Tensor) -> Rows:
        return Rows(x, missing, x.new_empty(len(x), 0))

    def params(self, rows: Rows, j: Tensor) -> Tensor:
        return torch.stack(self._params(rows.x[:, None].expand(*j.shape, rows.x.shape[1]), j, True), -1)

    def set_(self, rows: Rows, j: Tensor, value: Tensor) -> None:
        rows.x.scatter_(1, j[:, None], value[:, None])

    def fresh(self, params: Tensor, noise: Tensor) -> Tensor:
        return params[..., 0] + params[..., 1] * noise[..., 0]

    def proposed(self, params: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        value = self.fresh(params, noise)
        return value, self.log_proposal(params, value)

    def log_proposal(self, params: Tensor, value: Tensor) -> Tensor:
        return self._log(value, params[..., 0], params[..., 1])

    def draw_together(self, x: Tensor, j: Tensor, active: Tensor, noise: Tensor) -> Draw:
        value, log_q = self.proposed(self.params(self.see(x, torch.ones_like(x, dtype=torch.bool)), j), noise)
        new = x.scatter(1, j, torch.where(active, value, x.gather(1, j)))
        return Draw(new, torch.where(active, log_q, 0.0).sum(1))

    def proposed_apart(self, params: Tensor, noise: Tensor, wide: float) -> tuple[Tensor, Tensor]:
        return self.proposed(params, noise)

    def log_proposal_apart(self, params: Tensor, value: Tensor, wide: float) -> Tensor:
        return self.log_proposal(params, value)

    def log_prob(self, x: Tensor, wanted: Tensor, j: Tensor) -> Tensor:
        rows = x[:, None].expand(*j.shape, x.shape[-1])
        mean, std = self._params(rows, j, False)
        return self._log(rows.gather(-1, j[..., None])[..., 0], mean, std)


def random_covariance(D: int, generator: torch.Generator, factors: int = 3) -> Tensor:
    """F F' + diag, float64, with strong correlations."""
    F = torch.randn(D, factors, generator=generator, dtype=torch.float64)
    return F @ F.mT + torch.diag(0.3 + torch.rand(D, generator=generator, dtype=torch.float64))
