"""Networks that see the observed cells of a row, and of the missing ones only that they are missing: encoders."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import pairwise
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vgi_cli.maths.diagonal import finite
from vgi_cli.maths.indicators import Indicators
from vgi_cli.maths.nets import MLP, Activation, initialise_layers, zero_linear

HE = math.sqrt(6.0)
"""From torch's default weights to those that keep the size of a signal through leaky ReLUs (He et al. 2015)."""
EMBEDDING = 0.2
"""Standard deviation of embeddings at the start: steps have the learning rate's size, so small numbers learn first."""
SPREAD = 0.5
"""Standard deviation of a feature at the start, as the head sees it: the sum over D cells has sqrt(D) times that."""
CELLS = 2**18
"""Of so many cells a network of sets takes its centre and spread at the start."""


class RowNetwork(nn.Module, ABC):
    """Rows with holes -> numbers for each row."""

    @abstractmethod
    def forward(self, x: Tensor, missing: Tensor | None = None, beside: Tensor | None = None) -> Tensor:
        """[.., out] of rows x [.., D]. What x holds in cells that are `missing` [.., D], NaN included, enters neither
        the value nor a gradient; `beside` [.., b]: more inputs, which broadcast with the rows."""

    @abstractmethod
    def initialise(self, x: Tensor, generator: torch.Generator) -> None:
        """Draw the weights, for rows like x [R, D]."""

    @property
    @abstractmethod
    def outlet(self) -> nn.Linear:
        """The last layer."""


class MaskedRows(RowNetwork):
    """A multilayer perceptron of the row with 0, in standardised columns the mean, in the missing cells (Nazábal et al.
    2020; Mattei and Frellsen 2019). Levels enter as indicators, which are all 0 where the cell is missing."""

    def __init__(
        self,
        levels: Sequence[int],
        hidden: Sequence[int],
        out: int,
        *,
        beside: int = 0,
        activation: Activation = "sigmoid",
    ) -> None:
        """levels: of each dimension of a row, 0 where it is continuous."""
        super().__init__()
        self.indicators = Indicators(levels)
        self.net = MLP(self.indicators.F + beside, hidden, out, activation=activation)

    def forward(self, x: Tensor, missing: Tensor | None = None, beside: Tensor | None = None) -> Tensor:
        out: Tensor = self.net(self._inputs(x, missing), beside)
        return out

    def _inputs(self, x: Tensor, missing: Tensor | None) -> Tensor:
        """[.., F]."""
        inputs: Tensor = self.indicators(x if missing is None else finite(x))
        return inputs if missing is None else inputs * self.indicators.spread(~missing).to(x.dtype)

    def initialise(self, x: Tensor, generator: torch.Generator) -> None:
        self.net.initialise(generator)

    @property
    def outlet(self) -> nn.Linear:
        return self.net.outlet


class SetRows(RowNetwork):
    """A network of the set of observed cells (PointNet plus, Ma et al. 2019; PartialVAE+ in the paper).

    Each observed cell is (x_j, x_j e_j, b_j), with an embedding e_j and a number b_j learnt for its column; a network
    that all cells share, with residuals, maps it to features; the features of a row's cells are summed, and a second
    network maps the sum to the output. There is no activation after the sum; elsewhere it is a leaky ReLU. A discrete
    cell is 1, with an embedding and a number learnt for its level.

    Where training starts decides how soon such an encoder learns (docs/research/benchmarks.md). Features are near
    0.2 whatever the cell holds, and the sum of hundreds says first of all how many cells there are: so a `centre`,
    learnt from there on, is taken from them, the average of the features at the start.
    """

    def __init__(
        self,
        levels: Sequence[int],
        embedding: int,
        cell: Sequence[int],
        hidden: Sequence[int],
        out: int,
        *,
        beside: int = 0,
    ) -> None:
        """levels: of each dimension of a row, 0 where it is continuous · embedding: length of e_j · cell: widths of the
        network of a cell · hidden: of the one after the sum."""
        super().__init__()
        self.indicators = Indicators(levels)
        self.embedding = nn.Parameter(torch.zeros(self.indicators.F, embedding))
        self.place = nn.Parameter(torch.zeros(self.indicators.F))
        self.inlet = zero_linear(embedding + 2, cell[0])
        self.cell = nn.ModuleList(zero_linear(a, b) for a, b in pairwise(cell))
        self.centre = nn.Parameter(torch.zeros(cell[-1]))
        self.head = MLP(cell[-1] + beside, hidden, out)

    def forward(self, x: Tensor, missing: Tensor | None = None, beside: Tensor | None = None) -> Tensor:
        x, missing = self._items(x, missing)
        if missing is None:
            total = self._features(x[..., None] * self._slope() + self._offset()).sum(-2)
        else:
            observed = self._gathered if x.device.type == "cpu" else self._masked
            total = observed(x, missing, self._slope(), self._offset())
        out: Tensor = self.head(total, beside)
        return out

    def _items(self, x: Tensor, missing: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Rows with an item for each level, of which the row has the one that it holds."""
        if self.indicators.plain:
            return x, missing
        items = self.indicators(x)
        absent = self.indicators.discrete & (items == 0)
        return items, absent if missing is None else absent | self.indicators.spread(missing)

    def _slope(self) -> Tensor:
        """The first layer is linear in x_j, x_j e_j and b_j: what it has before x_j [F, cell[0]], once for all rows; F:
        dimensions, of discrete ones their levels."""
        return self.inlet.weight[:, 0] + self.embedding @ self.inlet.weight[:, 1:-1].mT

    def _offset(self) -> Tensor:
        """The rest of the first layer [F, cell[0]]."""
        return self.place[:, None] * self.inlet.weight[:, -1] + self.inlet.bias

    def _masked(self, x: Tensor, missing: Tensor, slope: Tensor, offset: Tensor) -> Tensor:
        """The sum over the observed cells where shapes must not depend on the holes, nor a sum on their order."""
        features = self._features(x.masked_fill(missing, 0.0)[..., None] * slope + offset)
        return features.masked_fill(missing[..., None], 0.0).sum(-2)

    def _gathered(self, x: Tensor, missing: Tensor, slope: Tensor, offset: Tensor) -> Tensor:
        """The same at the price of the observed cells alone."""
        seen = ~missing.expand_as(x)
        row, column = seen.flatten(0, -2).nonzero().unbind(1)
        pre = torch.addcmul(offset.index_select(0, column), x[seen][:, None], slope.index_select(0, column))
        features = self._features(pre)
        total = features.new_zeros(x.shape[:-1].numel(), features.shape[1])
        return total.index_add(0, row, features).view(*x.shape[:-1], -1)

    def _features(self, pre: Tensor) -> Tensor:
        """[.., cell] features of cells from what the first layer makes of them."""
        features = F.leaky_relu(pre)
        for layer in self.cell:
            new = F.leaky_relu(layer(features))
            features = features + new if new.shape == features.shape else new
        return features - self.centre

    @torch.no_grad()
    def initialise(self, x: Tensor, generator: torch.Generator) -> None:
        initialise_layers(self, generator)
        for layer in self.head.layers:
            cast(nn.Linear, layer).weight.mul_(HE)
        for parameter in (self.embedding, self.place):
            draw = torch.empty(parameter.shape, dtype=parameter.dtype, device=generator.device)
            parameter.copy_(draw.normal_(generator=generator).mul_(EMBEDDING))
        self.inlet.weight.div_(EMBEDDING)  # products with embeddings and places are as large as ever, x_j counts more
        self.centre.zero_()
        rows, absent = self._items(x[: max(1, CELLS // max(x.shape[1], 1))].to(self.centre), None)
        features = self._features(rows[..., None] * self._slope() + self._offset())
        self.centre.copy_(features.mean((0, 1)) if absent is None else features[~absent].mean(0))
        moved = features - self.centre
        moved = moved if absent is None else moved.masked_fill(absent[..., None], 0.0)
        spread = moved.sum(1).std(0, correction=0) / math.sqrt(x.shape[1])
        factor = torch.where(spread > 0, SPREAD / spread, 1.0)
        cast(nn.Linear, self.head.layers[0]).weight[:, : len(factor)].mul_(factor)

    @property
    def outlet(self) -> nn.Linear:
        return self.head.outlet
