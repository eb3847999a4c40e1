"""What the neural spline flows share (Durkan et al. 2019; Simkus et al. 2023, section 6.4): `steps` times a linear map,
LU-factorised (Kingma and Dhariwal 2018), and a layer of rational-quadratic splines, and one more linear map. What sets
a layer's splines is the family's own: `coupling.py`, `autoregressive.py`.

Rows with discrete dimensions: the levels have a probability of their own (`levels.py`), and their embedding is a
context of the flow, which then is a density of the continuous dimensions given the levels.

Inside, rows are the last dimension: X is [D, R]. Groups of columns are then contiguous, the spline parameters come out
of one product with the bins first, and sums over columns are sums over the first dimension.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, cast

import torch
from pydantic import Field
from torch import Tensor, nn

from vgi_cli.layout import Layout
from vgi_cli.models.base import Bijective, ModelConfig
from vgi_cli.models.flows.levels import LevelSizes, Ordinal, RowLevels
from vgi_cli.ranges import Bins, FlowBlocks, FlowSteps, FlowWidth, Positive, ShareBelow1, Width

LEAST = 0.01
"""Variance of a principal component of standardised columns, at least, when they are made uncorrelated: what few rows
say of the least ones is mostly wrong (docs/research/defaults.md)."""
MOST_LOG_SCALE = 3.0
"""The scale that levels set stays between exp(-3) and exp(3): levels that few rows share cannot shrink to a point."""


class FlowConfig(ModelConfig):
    """Settings of a flow (`model.*`)."""

    steps: FlowSteps = Field(5, description="Flow steps: a linear map and a layer of splines each.")
    hidden: FlowWidth = Field(64, description="Hidden units of the networks that set the splines.")
    bins: Bins = Field(8, description="Bins of each spline.")
    blocks: FlowBlocks = Field(2, description="Residual blocks of each network.")
    dropout: ShareBelow1 = Field(0.0, description="Share of hidden units that are dropped in training.")
    tail_bound: Positive = Field(3.0, description="The splines live on [-tail_bound, tail_bound].")
    embedding: Width = Field(16, description="Length of the embedding of a row's levels, which sets the flow.")
    level_hidden: FlowWidth = Field(64, description="Hidden units of the networks of levels.")
    level_blocks: FlowBlocks = Field(1, description="Residual blocks of the networks of levels.")
    ordinal: Ordinal = Field("softmax", description="Of ordered levels: free probabilities, or cumulative logits.")

    @property
    def level_sizes(self) -> LevelSizes:
        """The settings of the networks of levels."""
        return LevelSizes(self.level_hidden, self.level_blocks, self.embedding, self.dropout, self.ordinal)


class SplineLayer(nn.Module, ABC):
    """An invertible map of D columns by one spline each; the identity, or near it, at the start."""

    @abstractmethod
    def initialise(self, generator: torch.Generator) -> None:
        """Draw the weights (in place)."""

    @abstractmethod
    def forward(self, X: Tensor, context: Tensor | None) -> tuple[Tensor, Tensor]:
        """[D, R] -> [D, R] and the log-determinant [R]; context [E, R] where the layer has one."""

    @abstractmethod
    def inverse(self, Y: Tensor, context: Tensor | None) -> Tensor:
        """The inverse of `forward`: [D, R] -> [D, R]."""


class SplineFlow(Bijective):
    """A density over D columns: an invertible map x -> u, u ~ N(0, I); where some hold levels, of these and of the
    others given these.

    numbers  columns that hold no levels
    context  length of the embedding of a row's levels that sets the map, 0 where there is none
    """

    Config: ClassVar[type[ModelConfig]] = FlowConfig
    discrete: ClassVar[bool] = True
    aligns = True
    learning_rate = 3e-3
    method_defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {"vgi": {"conditional": "spline"}}
    _numbers: Tensor

    def __init__(self, config: FlowConfig, layout: Layout) -> None:
        super().__init__()
        self.D = layout.D
        self.numbers = self.D - len(layout.discrete)
        self.context = config.embedding if layout.discrete and self.numbers else 0
        self.levels: RowLevels | None = None
        self.shifts: ContextShifts | None = None
        if layout.discrete:
            self.levels = RowLevels(layout, config.level_sizes)
            self._continuous = [i for i, count in enumerate(layout.level_counts) if not count]
            self.register_buffer("_numbers", torch.tensor(self._continuous, dtype=torch.int64), persistent=False)
        count = config.steps + 1 if self.numbers else 0
        self.linear = LinearMaps(count, self.numbers)
        if self.context:
            self.shifts = ContextShifts(count, self.numbers, self.context)

    @property
    @abstractmethod
    def steps(self) -> list[SplineLayer]:
        """The layers of splines, first to last."""

    @torch.no_grad()
    def initialise(self, x: Tensor, generator: torch.Generator) -> None:
        """Draw permutations and weights; the first linear map starts by standardising the columns of x [R, D]. Levels
        start near their frequencies, and the numbers hardly depend on them."""
        if self.numbers:
            self.linear.initialise(x if self.levels is None else x[:, self._continuous], generator)
        for layer in self.steps:
            layer.initialise(generator)
        if self.levels is not None:
            self.levels.initialise(x, generator)

    @torch.no_grad()
    def align(self, mean: Tensor, covariance: Tensor) -> None:
        """The density of the numbers starts near the normal one of this mean and covariance."""
        self.linear.align(mean, covariance)

    def log_prob(self, x: Tensor) -> Tensor:
        if self.levels is None:
            return self._log_density(self._columns(x), None).view(x.shape[:-1])
        indicators = self.levels.indicators(x)
        log_p = self.levels.density(indicators)
        if self.levels.embedding is not None:
            numbers = self._columns(x[..., self._numbers])
            log_p = log_p + self._log_density(numbers, self.levels.embedding(indicators))
        return cast(Tensor, log_p).view(x.shape[:-1])

    def to_base(self, x: Tensor) -> tuple[Tensor, Tensor]:
        self._require_map()
        u, log_det = self._forward(self._columns(x), None)
        return u.t().reshape(x.shape), log_det.view(x.shape[:-1])

    def from_base(self, u: Tensor) -> Tensor:
        self._require_map()
        return self._inverse(self._columns(u), None).t().reshape(u.shape)

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        parameter = next(self.parameters())
        device = parameter.device if generator is None else generator.device
        with torch.no_grad():
            if self.levels is None:
                u = torch.randn(n, self.D, dtype=parameter.dtype, device=device, generator=generator)
                return self.from_base(u.to(parameter.device))
            x = parameter.new_zeros(n, self.D)
            x[:, self.levels.columns] = self.levels.sample(n, generator)
            if self.levels.embedding is not None:
                u = torch.randn(n, self.numbers, dtype=parameter.dtype, device=device, generator=generator)
                context = self.levels.embedding(self.levels.indicators(x))
                x[:, self._numbers] = self._inverse(self._columns(u.to(parameter.device)), context).t()
            return x

    def _require_map(self) -> None:
        """ValueError where rows hold levels: a row is then no invertible map of a normal."""
        if self.levels is not None:
            raise ValueError("rows with levels are no invertible map of a normal")

    def _columns(self, x: Tensor) -> Tensor:
        """[.., D] -> [D, R], rows in the last dimension."""
        return x.reshape(-1, x.shape[-1]).t().contiguous()

    def _log_density(self, X: Tensor, context: Tensor | None) -> Tensor:
        """log p [R] of the numbers [D, R], given a context [E, R] where there is one."""
        u, log_det = self._forward(X, context)
        log_base = -0.5 * (u.square().sum(0) + self.numbers * math.log(2 * math.pi))
        return log_base + log_det

    def _forward(self, X: Tensor, context: Tensor | None) -> tuple[Tensor, Tensor]:
        """[D, R] -> u [D, R] and log|det| [R]."""
        weights, log_det = self.linear.weights()
        X = torch.addmm(self.linear.bias[0, :, None], weights[0], X)
        shifts: Tensor | None = None
        if self.shifts is not None and context is not None:
            shifts, log_scale = self.shifts(context)
            X = (X + shifts[0]) * log_scale.exp()
            log_det = log_det + log_scale.sum(0)
        for index, layer in enumerate(self.steps, 1):
            X, log_slopes = layer(X, context)
            log_det = log_det + log_slopes
            X = torch.addmm(self.linear.bias[index, :, None], weights[index], X)
            if shifts is not None:
                X = X + shifts[index]
        return X, log_det

    def _inverse(self, X: Tensor, context: Tensor | None) -> Tensor:
        """The inverse of `_forward`: [D, R] -> [D, R]."""
        shifts: Tensor | None = None
        if self.shifts is not None and context is not None:
            shifts, log_scale = self.shifts(context)
        for index, layer in reversed(list(enumerate(self.steps, 1))):
            if shifts is not None:
                X = X - shifts[index]
            X = layer.inverse(self.linear.inverse(index, X), context)
        if shifts is not None:
            X = X / log_scale.exp() - shifts[0]
        return self.linear.inverse(0, X)


class ContextShifts(nn.Module):
    """What a context adds to the linear maps of a flow: a shift of each, and a scale of the first. Linear in the
    context; 0 until it learns."""

    def __init__(self, count: int, D: int, context: int) -> None:
        super().__init__()
        self.shape = (count + 1, D)
        self.weight = nn.Parameter(torch.zeros((count + 1) * D, context))

    def forward(self, context: Tensor) -> tuple[Tensor, Tensor]:
        """[E, R] -> shifts [count, D, R] and the logarithm of the first map's scale [D, R]."""
        out = (self.weight @ context).view(*self.shape, -1)
        return out[:-1], MOST_LOG_SCALE * torch.tanh(out[-1] / MOST_LOG_SCALE)


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

    def align(self, mean: Tensor, covariance: Tensor) -> None:
        """The first map turns columns of this mean [D] and covariance [D, D] into uncorrelated ones of variance 1 that
        are as near to the standardised columns as such can be: by the symmetric root of the inverse of their
        correlations (Kessy, Lewin and Strimmer 2018)."""
        first = self.permutation[0].to(mean.device)
        mean, covariance = mean[first].double(), covariance[first][:, first].double()
        spread = covariance.diagonal().sqrt()
        spread = torch.where(spread > 0, spread, 1.0)
        correlation = covariance / (spread[:, None] * spread)
        values, vectors = torch.linalg.eigh(correlation.fill_diagonal_(1.0))
        root = vectors / values.clamp(min=LEAST).sqrt() @ vectors.T
        # Of a positive definite matrix C C' the factors L U are C / d and d C' with d the diagonal of C.
        factor = torch.linalg.cholesky(root)
        diagonal = factor.diagonal()
        lower, upper = factor / diagonal, diagonal[:, None] * factor.T / spread
        self.factors[0].copy_(lower.tril(-1) + upper.triu(1) + torch.diag(upper.diagonal().log()))
        self.bias[0].copy_(-(lower @ upper @ mean))

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
