"""Black boxes with a closed form: a Gaussian mixture known through its density and draws, and quadrature."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from tests.oracles import GaussianModel, gaussian_marginal_log_prob, random_covariance
from vgi_cli.layout import Layout
from vgi_cli.models.base import Model, ModelConfig


class MixtureModel(Model):
    Config = ModelConfig

    def __init__(self, parts: list[GaussianModel], weights: list[float]) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)
        self.weights = weights

    @classmethod
    def build(cls, config: ModelConfig, layout: Layout) -> MixtureModel:
        return cls([GaussianModel.build(config, layout)], [1.0])

    def initialise(self, x: Tensor, generator: torch.Generator) -> None:
        """Nothing is fitted."""

    def log_prob(self, x: Tensor) -> Tensor:
        terms = [p.log_prob(x) + math.log(w) for p, w in zip(self.parts, self.weights, strict=True)]
        return torch.stack(terms, -1).logsumexp(-1)

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        which = torch.multinomial(torch.tensor(self.weights), n, True, generator=generator)
        return torch.stack([p.sample(n, generator) for p in self.parts])[which, torch.arange(n)]

    def marginal(self, x: Tensor, missing: Tensor) -> Tensor:
        terms = [
            gaussian_marginal_log_prob(p, x, missing) + math.log(w)
            for p, w in zip(self.parts, self.weights, strict=True)
        ]
        return torch.stack(terms, -1).logsumexp(-1)


def random_mixture(D: int, weights: list[float], g: torch.Generator) -> MixtureModel:
    parts = [
        GaussianModel(torch.randn(D, generator=g, dtype=torch.float64), random_covariance(D, g, 3)) for _ in weights
    ]
    return MixtureModel(parts, weights)


def quadrature(model: Model, x: Tensor, missing: Tensor, limit: float = 8.0, n: int = 501) -> Tensor:
    """log p(x_obs) [R] of rows with one or two holes, by the trapezium rule on a grid."""
    t = torch.linspace(-limit, limit, n, dtype=torch.float64)
    out = []
    for row, holes in zip(x, missing, strict=True):
        index = torch.nonzero(holes)[:, 0]
        grid = torch.cartesian_prod(*[t] * len(index)).view(-1, len(index))
        cells = row.repeat(len(grid), 1)
        cells[:, index] = grid
        with torch.no_grad():
            out.append(model.log_prob(cells).logsumexp(0) + len(index) * (t[1] - t[0]).log())
    return torch.stack(out)


def exact_holes(R: int, D: int, holes: int, g: torch.Generator) -> Tensor:
    """Masks with exactly `holes` holes a row."""
    return torch.rand(R, D, generator=g).argsort(1) < holes
