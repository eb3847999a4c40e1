"""The rational-quadratic neural spline flow with coupling layers, RQ-NSF(C) (Durkan et al. 2019; Simkus et al. 2023,
section 6.4): `steps` times an LU-factorised linear map and a coupling layer of splines, and one more linear map.

Inside, rows are the last dimension: X is [D, R]. The two halves of a coupling layer are then contiguous, the spline
parameters come out of one product with the bins first, and sums over columns are sums over the first dimension.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Self, cast

import torch
from pydantic import Field
from torch import Tensor, nn

from vgi_cli.maths.nets import ResidualTrunk, initialise_linear, zero_linear
from vgi_cli.maths.splines import packed_rational_quadratic
from vgi_cli.models.base import Bijective, ModelConfig


class FlowConfig(ModelConfig):
    """Settings of the flow (`model.*`)."""

    steps: int = Field(5, ge=1, description="Flow steps: a linear map and a coupling layer each.")
    hidden: int = Field(64, ge=1, description="Hidden units of the networks that set the splines.")
    bins: int = Field(8, ge=2, le=256, description="Bins of each spline.")
    blocks: int = Field(2, ge=0, description="Residual blocks of each network.")
    dropout: float = Field(0.0, ge=0, lt=1, description="Share of hidden units that are dropped in training.")
    tail_bound: float = Field(3.0, gt=0, description="The splines live on [-tail_bound, tail_bound].")


class Flow(Bijective):
    """A density over D columns: an invertible map x -> u, u ~ N(0, I). D = 1 is a chain of unconditional splines."""

    Config: ClassVar[type[ModelConfig]] = FlowConfig
    learning_rate = 3e-3
    suited: ClassVar[Mapping[str, Mapping[str, Any]]] = {"vgi": {"conditional": "spline"}}

    def __init__(self, config: FlowConfig, D: int) -> None:
        super().__init__()
        self.D = D
        self.linear = LinearMaps(config.steps + 1, D)
        # With random permutations in front, halves that swap roles are the alternating masks of the paper.
        self.couplings = nn.ModuleList(Coupling(config, D, swap=bool(step % 2)) for step in range(config.steps))

    @property
    def steps(self) -> list[Coupling]:
        """The coupling layers, first to last."""
        return cast(list[Coupling], list(self.couplings))

    @classmethod
    def build(cls, config: Any, D: int) -> Self:
        """The identity map: a standard normal density."""
        return cls(config, D)

    @torch.no_grad()
    def initialise(self, x: Tensor, generator: torch.Generator) -> None:
        """Draw permutations and weights; the first linear map starts by standardising the columns of x [R, D]."""
        self.linear.initialise(x, generator)
        for coupling in self.steps:
            coupling.initialise(generator)

    def log_prob(self, x: Tensor) -> Tensor:
        """log p(x), nats: [.., D] -> [..]."""
        u, log_det = self._forward(self._columns(x))
        log_base = -0.5 * (u.square().sum(0) + self.D * math.log(2 * math.pi))
        return (log_base + log_det).view(x.shape[:-1])

    def to_base(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """u [.., D] and log|det du/dx| [..]."""
        u, log_det = self._forward(self._columns(x))
        return u.t().reshape(x.shape), log_det.view(x.shape[:-1])

    def from_base(self, u: Tensor) -> Tensor:
        """The inverse of `to_base`: [.., D] -> [.., D]."""
        X = self._columns(u)
        for index, coupling in reversed(list(enumerate(self.steps, 1))):
            X = coupling.inverse(self.linear.inverse(index, X))
        return self.linear.inverse(0, X).t().reshape(u.shape)

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """n independent rows [n, D], without gradient."""
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
        for index, coupling in enumerate(self.steps, 1):
            X, log_slopes = coupling(X)
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


class Coupling(nn.Module):
    """A coupling layer: a network of the one half of the columns sets the splines of the other half; the one half then
    passes through splines of its own, with free parameters. With one column, only the latter."""

    def __init__(self, config: FlowConfig, D: int, *, swap: bool) -> None:
        super().__init__()
        small = D // 2
        self.swap = swap and D > 1
        self.kept, self.moved = (small, D - small) if self.swap else (D - small, small)
        self.parameters_each = 3 * config.bins - 1
        self.bound = config.tail_bound
        self.free = nn.Parameter(torch.zeros(self.parameters_each, self.kept, 1))
        self.trunk: ResidualTrunk | None = None
        if self.moved:
            self.trunk = ResidualTrunk(self.kept, config.hidden, config.blocks, dropout=config.dropout)
            self.outlet = zero_linear(config.hidden, self.parameters_each * self.moved)

    def initialise(self, generator: torch.Generator) -> None:
        """Draw the network's weights; its output starts near 0, and so the layer near the identity."""
        self.free.zero_()
        if self.trunk is not None:
            self.trunk.initialise(generator)
            initialise_linear(self.outlet, generator, scale=0.1)

    def forward(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """[D, R] -> [D, R] and the log-determinant [R]."""
        kept, moved = self._halves(X)
        new_kept, log_det = packed_rational_quadratic(kept, self.free, bound=self.bound)
        log_det = log_det.sum(0)
        if self.trunk is None:
            return new_kept, log_det
        new_moved, log_slopes = packed_rational_quadratic(moved, self._splines(self.trunk, kept), bound=self.bound)
        return self._join(new_kept, new_moved), log_det + log_slopes.sum(0)

    def inverse(self, Y: Tensor) -> Tensor:
        """The inverse of `forward`: [D, R] -> [D, R]."""
        kept, moved = self._halves(Y)
        kept, _ = packed_rational_quadratic(kept, self.free, bound=self.bound, inverse=True)
        if self.trunk is None:
            return kept
        splines = self._splines(self.trunk, kept)
        moved, _ = packed_rational_quadratic(moved, splines, bound=self.bound, inverse=True)
        return self._join(kept, moved)

    def _splines(self, trunk: ResidualTrunk, kept: Tensor) -> Tensor:
        """Spline parameters [3 bins - 1, moved, R] from the kept half [kept, R]."""
        features = trunk(kept.t())
        flat = torch.addmm(self.outlet.bias[:, None], self.outlet.weight, features.t())
        return flat.view(self.parameters_each, self.moved, -1)

    def _halves(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """The kept and the moved columns of X [D, R]."""
        if self.swap:
            return X[self.moved :], X[: self.moved]
        return X[: self.kept], X[self.kept :]

    def _join(self, kept: Tensor, moved: Tensor) -> Tensor:
        """The inverse of `_halves`."""
        return torch.cat([moved, kept] if self.swap else [kept, moved])
