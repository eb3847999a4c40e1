"""The layers that all blocks share (paper, appendix G: the partially shared layout), kept up to date along a sweep."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import pairwise
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vgi_cli.maths.networks import NetworkInputs, Networks, suit, through

SLOPE = 0.01  # of the leaky ReLU (paper, section 4.3)
GAIN = (2.0 / (1.0 + SLOPE**2)) ** 0.5  # Kaiming gain of that activation
RANK = 64  # linear features of a row in many columns
KEPT_FROM = 64  # columns from which the trunk's first layer is kept up to date instead of being computed anew
EVERY_UP_TO = 32  # blocks for each of a row's M up to which linear maps of all are one product, less than M gathered


def rows_of(weight: Tensor, j: Tensor) -> Tensor:
    """weight [S, ..] at j [Q]: [Q, ..]. On a CPU a copy row by row; on a GPU its derivative would add in any order,
    so that two equal fits would differ."""
    return weight.index_select(0, j) if weight.device.type == "cpu" else weight[j]


class Trunk(nn.ModuleList):
    """Layers of these sizes (the first is the number of columns), residual where two sizes are equal.

    linear  features of the row that go past all layers: as many more outputs of the first layer, without activation
    """

    def __init__(self, sizes: Sequence[int], linear: int = 0) -> None:
        extra = [linear, *(0 for _ in sizes)]
        super().__init__(nn.Linear(a, b + more) for (a, b), more in zip(pairwise(sizes), extra, strict=False))
        self.linear = linear

    def first(self, x: Tensor) -> Tensor:
        """[R, W] what the trunk's first layer makes of rows x, before its activation; W = 0 where it is not kept.

        A changed column changes it by one column of the weights, and hiding a column takes the same away: in many
        columns both cost next to nothing, while a pass over the whole row costs most of the trunk.
        """
        if len(self) == 0 or x.shape[1] < KEPT_FROM:
            return x.new_empty(x.shape[0], 0)
        layer = cast(nn.Linear, self[0])
        return F.linear(x, layer.weight, layer.bias)

    @torch.no_grad()
    def align_(self, x: Tensor, least: float = 1e-6) -> None:
        """Let the linear features start as the leading principal components of rows x [R, D], standardised; one of less
        variance than `least` as if it had that.

        Columns that hang together through few factors have eigenvalues orders of magnitude apart. Gradient steps on
        features of random directions then learn the small ones hardly at all (docs/research/benchmarks.md).
        """
        if self.linear == 0:
            return
        layer = cast(nn.Linear, self[0])
        centre = x.mean(0)
        value, vector = torch.linalg.eigh((x - centre).double().t().cov(correction=0))
        value, vector = value[-self.linear :], vector[:, -self.linear :]
        weight = (vector * value.clamp(min=least).rsqrt()).t().to(layer.weight)
        layer.weight[-self.linear :] = weight
        layer.bias[-self.linear :] = -weight @ centre.to(weight)

    def change_(self, first: Tensor, j: Tensor, step: Tensor) -> None:
        """Update `first` [R, W] in place after column j [R] has grown by step [R]."""
        if first.shape[1]:
            layer = cast(nn.Linear, self[0])
            first.addcmul_(layer.weight.t()[j], step[:, None])

    def forward(self, x: Tensor, j: Tensor, first: Tensor, visible: bool) -> tuple[Tensor, Tensor]:
        """Features [.., F] and linear ones [.., linear]: a row of them for each row of x where the blocks are visible
        (one pass serves all of a row), else for each of R * M."""
        inlet = cast(nn.Linear, self[0])
        if first.shape[1] == 0:
            rows = x if visible else x[:, None].expand(-1, j.shape[1], -1).scatter(2, j[..., None], 0.0).flatten(0, 1)
            seen = NetworkInputs(rows, None, j.new_zeros(len(rows)))
            if not self.linear and suit(networks := self._networks(), seen):
                return through(networks, seen), first.new_empty(len(rows), 0)
            first = F.linear(rows, inlet.weight, inlet.bias)
        elif not visible:
            own = x.gather(1, j)[..., None] * inlet.weight.t()[j]  # [R, M, W]
            first = (first[:, None] - own).flatten(0, 1)
        past = first[:, first.shape[1] - self.linear :]
        h = F.leaky_relu(first[:, : first.shape[1] - self.linear] if self.linear else first, SLOPE)
        for layer in list(self)[1:]:
            new = F.leaky_relu(layer(h), SLOPE, inplace=True)
            h = h + new if new.shape == h.shape else new
        return h, past

    def _networks(self) -> Networks:
        """The layers as one network that all rows take."""
        layers = cast(list[nn.Linear], list(self))
        return Networks([(layer.weight.t()[None], layer.bias[None, None]) for layer in layers], SLOPE, active=True)


class BlockNetwork(nn.Module, ABC):
    """A network that maps a completed row and a block to the parameters of q(x_j | rest) (paper, appendix G).

    S      blocks
    trunk  what is computed of a row before a block is named; empty where nothing is
    """

    S: int
    trunk: Trunk

    @abstractmethod
    def initialise(self, generator: torch.Generator) -> None:
        """Set initial parameters (in place), so that q = N(0, 1) everywhere."""

    @abstractmethod
    def forward(self, x: Tensor, j: Tensor, visible: bool, first: Tensor | None = None) -> Tensor:
        """Parameters [R, M, width] for blocks j [R, M] of rows x [R, D]; `visible`: block j sees its own value (else
        block j must be column j, which is hidden);
        `first`: what `trunk.first` gives for x, where it is known."""


class LowRank(nn.Module):
    """A linear map of its own for the location of each of S blocks, through features that they share.

    The conditionals of Gaussian-like models are linear in the row, and a network of leaky units represents that badly.
    In few columns each block has a map of D weights (`network.py`); in many, where columns hang together through few
    factors, `rank` features of the row serve all: the maps together have rank `rank`.
    """

    def __init__(self, S: int, rank: int, locations: int = 1) -> None:
        """`locations`: parameters, the first of a block's, that have such a map."""
        super().__init__()
        self.locations = locations
        self.weight = nn.Parameter(torch.zeros(S, rank) if locations == 1 else torch.zeros(S, locations, rank))

    def forward(self, params: Tensor, past: Tensor, j: Tensor) -> Tensor:
        """params [Q, width] of blocks j [Q], the maps added to the first of them; past [Q or a part of it, rank]."""
        M = len(j) // max(len(past), 1)
        slope = self._every(past, j.view(len(past), M)) if len(self.weight) <= EVERY_UP_TO * M else self._own(past, j)
        return torch.cat([params[:, : self.locations] + slope, params[:, self.locations :]], 1)

    def _own(self, past: Tensor, j: Tensor) -> Tensor:
        """[Q, locations], from the weights of each row's own block."""
        past = past.view(len(past), 1, -1).expand(-1, len(j) // len(past), -1).reshape(len(j), -1)
        weight = rows_of(self.weight, j)
        if self.locations == 1:
            return (past * weight).sum(1, keepdim=True)
        return (past[:, None] * weight).sum(2)

    def _every(self, past: Tensor, j: Tensor) -> Tensor:
        """The same for blocks j [R, M] of rows past [R, rank], from one product for all blocks."""
        every = past @ self.weight.flatten(0, -2).t()
        if self.locations > 1:
            j = (j[..., None] * self.locations + torch.arange(self.locations, device=j.device)).flatten(1)
        return every.gather(1, j).view(-1, self.locations)
