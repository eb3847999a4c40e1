"""Closed forms that tests compare against: a Gaussian as a black-box model and as a Marginal, and its exact univariate
conditionals, in both kernels, with deliberate imperfections."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from vgi_cli.conditionals.base import Conditionals
from vgi_cli.conditionals.families.gaussian import NormalLaw
from vgi_cli.layout import Blocks, Layout
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


class PlainNormal(NormalLaw):
    """A normal of mean and log std that is scored at its draws, and proposed from as it is."""

    @property
    def log_std(self) -> Tensor:
        return self.raw

    def entropy(self) -> None:
        return None

    def widened(self, share: float = 0.0) -> PlainNormal:
        return self


class GaussianConditionals(Conditionals):
    """Exact q_j of a Gaussian; `shift` and `scale` spoil mean and standard deviation; `memory` is how much of its own
    previous value the extended kernel keeps (0: the standard kernel)."""

    noise_width = fresh_width = 1

    def __init__(self, mean: Tensor, covariance: Tensor, shift: float = 0.0, scale: float = 1.0, memory: float = 0.0):
        super().__init__(Blocks.columns(len(mean)))
        precision = torch.linalg.inv(covariance)
        self.mean = mean
        self.weights = precision / precision.diagonal()[:, None]
        self.std = precision.diagonal().rsqrt() * scale
        self.shift = shift
        self.memory = memory
        self.extended = memory != 0

    def law(self, x: Tensor, missing: Tensor, block: Tensor, *, hidden: bool = False) -> PlainNormal:
        rows = x.view(len(x), *[1] * (block.ndim - 1), -1)
        own = self.at(x, block)
        mean = own - ((rows - self.mean) * self.weights[block]).sum(-1) + self.shift
        return PlainNormal(mean if hidden else mean + self.memory * (own - mean), self.std[block].log())


def random_covariance(D: int, generator: torch.Generator, factors: int = 3) -> Tensor:
    """F F' + diag, float64, with strong correlations."""
    F = torch.randn(D, factors, generator=generator, dtype=torch.float64)
    return F @ F.mT + torch.diag(0.3 + torch.rand(D, generator=generator, dtype=torch.float64))
