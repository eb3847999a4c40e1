"""What the neural spline flows share (Durkan et al. 2019; Simkus et al. 2023, section 6.4): `steps` times a linear map,
LU-factorised (Kingma and Dhariwal 2018), and a layer of rational-quadratic splines, and one more linear map. What sets
a layer's splines is the family's own: `coupling.py`, `autoregressive.py`.

Inside, rows are the last dimension: X is [D, R]. Groups of columns are then contiguous, the spline parameters come out
of one product with the bins first, and sums over columns are sums over the first dimension.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from vgi_cli.layout import Layout
from vgi_cli.models.base import Bijective, ModelConfig
from vgi_cli.ranges import Bins, FlowBlocks, FlowSteps, FlowWidth, Positive, ShareBelow1


class FlowConfig(ModelConfig):
    """Settings of a flow (`model.*`)."""

    steps: FlowSteps = Field(5, description="Flow steps: a linear map and a layer of splines each.")
    hidden: FlowWidth = Field(64, description="Hidden units of the networks that set the splines.")
    bins: Bins = Field(8, description="Bins of each spline.")
    blocks: FlowBlocks = Field(2, description="Residual blocks of each network.")
    dropout: ShareBelow1 = Field(0.0, description="Share of hidden units that are dropped in training.")
    tail_bound: Positive = Field(3.0, description="The splines live on [-tail_bound, tail_bound].")


class SplineLayer(nn.Module, ABC):
    """An invertible map of D columns by one spline each; the identity, or near it, at the start."""

    @abstractmethod
    def initialise(self, generator: torch.Generator) -> None:
        """Draw the weights (in place)."""

    @abstractmethod
    def forward(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """[D, R] -> [D, R] and the log-determinant [R]."""

    @abstractmethod
    def inverse(self, Y: Tensor) -> Tensor:
        """The inverse of `forward`: [D, R] -> [D, R]."""


class SplineFlow(Bijective):
    """A density over D columns: an invertible map x -> u, u ~ N(0, I)."""

    Config: ClassVar[type[ModelConfig]] = FlowConfig
    learning_rate = 3e-3
    method_defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {"vgi": {"conditional": "spline"}}

    def __init__(self, config: FlowConfig, layout: Layout) -> None:
        super().__init__()
        self.D = layout.D
        self.linear = LinearMaps(config.steps + 1, self.D)

    @property
    @abstractmethod
    def steps(self) -> list[SplineLayer]:
        """The layers of splines, first to last."""

    @torch.no_grad()
    def initialise(self, x: Tensor, generator: torch.Generator) -> None:
        """Draw permutations and weights; the first linear map starts by standardising the columns of x [R, D]."""
        self.linear.initialise(x, generator)
        for layer in self.steps:
            layer.initialise(generator)

    def log_prob(self, x: Tensor) -> Tensor:
        u, log_det = self._forward(self._columns(x))
        log_base = -0.5 * (u.square().sum(0) + self.D * math.log(2 * math.pi))
        return (log_base + log_det).view(x.shape[:-1])

    def to_base(self, x: Tensor) -> tuple[Tensor, Tensor]:
        u, log_det = self._forward(self._columns(x))
        return u.t().reshape(x.shape), log_det.view(x.shape[:-1])

    def from_base(self, u: Tensor) -> Tensor:
        X = self._columns(u)
        for index, layer in reversed(list(enumerate(self.steps, 1))):
            X = layer.inverse(self.linear.inverse(index, X))
        return self.linear.inverse(0, X).t().reshape(u.shape)

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        parameter = self.linear.bias
        device = parameter.device if generator is None else generator.device
        u = torch.randn(n, self.D, dtype=parameter.dtype, device=device, generator=generator)
        with torch.no_grad():
            return self.from_base(u.to(parameter.device))

    def _columns(self, x: Tensor) -> Tensor:
        """[.., D] -> [D, R], rows in the last dimension."""
        return x.reshape(-1, self.D).t().contiguous()

    def _forward(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """[D, R] -> u [D, R] and log|det| [R]."""
        weights, log_det = self.linear.weights()
        X = torch.addmm(self.linear.bias[0, :, None], weights[0], X)
        for index, layer in enumerate(self.steps, 1):
            X, log_slopes = layer(X)
            log_det = log_det + log_slopes
            X = torch.addmm(self.linear.bias[index, :, None], weights[index], X)
        return X, log_det


class LinearMaps(nn.Module):
    """Linear maps y = L U P x + b: P a fixed random permutation, L unit lower triangular, U upper triangular.

    One matrix holds a map: L strictly below its diagonal, U strictly above, and on it the logarithms of U's diagonal.
    The zero matrix is the identity and the log-determinant is the trace. All maps of a flow live together, so that
    their products cost one call.
    """

    permutation: Tensor

    def __init__(self, count: int, D: int) -> None:
        super().__init__()
        self.factors = nn.Parameter(torch.zeros(count, D, D))
        self.bias = nn.Parameter(torch.zeros(count, D))
        self.register_buffer("permutation", torch.arange(D).repeat(count, 1))

    def initialise(self, x: Tensor, generator: torch.Generator) -> None:
        """Draw the permutations; the first map standardises the columns of x [R, D], the others start at identity."""
        count, D = self.bias.shape
        order = [torch.randperm(D, generator=generator, device=generator.device) for _ in range(count)]
        self.permutation.copy_(torch.stack(order))
        first = order[0].to(x.device)  # x may lie elsewhere than the parameters
        spread = x.std(0, correction=0)
        log_scale = -torch.where(spread > 0, spread, 1.0).log()[first]
        self.factors.zero_()
        self.factors[0].diagonal().copy_(log_scale)
        self.bias.zero_()
        self.bias[0].copy_(-x.mean(0)[first] * log_scale.exp())

    def weights(self) -> tuple[Tensor, Tensor]:
        """The matrices L U P [count, D, D], and the sum of all log-determinants.

        The products are formed: one dense product with the rows is faster than two triangular ones and a gather at
        every D that coupling flows are used for. Inverses are never formed.
        """
        lower, upper = self._triangles()
        columns = self.permutation.argsort(1)[:, None, :].expand_as(lower)
        return (lower @ upper).gather(2, columns), self.factors.diagonal(dim1=1, dim2=2).sum()

    def inverse(self, index: int, Y: Tensor) -> Tensor:
        """x = P^-1 U^-1 L^-1 (y - b) for map `index`, by triangular solves: [D, R] -> [D, R]."""
        lower, upper = self._triangles()
        Y = torch.linalg.solve_triangular(lower[index], Y - self.bias[index, :, None], upper=False, unitriangular=True)
        Y = torch.linalg.solve_triangular(upper[index], Y, upper=True)
        return Y[self.permutation[index].argsort()]

    def _triangles(self) -> tuple[Tensor, Tensor]:
        """L and U [count, D, D] of all maps."""
        eye = torch.eye(self.bias.shape[1], dtype=self.factors.dtype, device=self.factors.device)
        diagonal = self.factors.diagonal(dim1=1, dim2=2).exp()
        return self.factors.tril(-1) + eye, self.factors.triu(1) + torch.diag_embed(diagonal)
