"""Networks that see the observed cells of a row, and of the missing ones only that they are missing: encoders."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vgi_cli.maths.diagonal import finite
from vgi_cli.maths.nets import MLP, Activation, initialise_layers, zero_linear


class RowNetwork(nn.Module, ABC):
    """Rows with holes -> numbers for each row."""

    @abstractmethod
    def forward(self, x: Tensor, missing: Tensor | None = None, beside: Tensor | None = None) -> Tensor:
        """[.., out] of rows x [.., D]. What x holds in cells that are `missing` [.., D], NaN included, enters neither
        the value nor a gradient; `beside` [.., b]: more inputs, which broadcast with the rows."""

    @abstractmethod
    def initialise(self, generator: torch.Generator) -> None:
        """Draw the weights."""

    @property
    @abstractmethod
    def outlet(self) -> nn.Linear:
        """The last layer."""


class MaskedRows(RowNetwork):
    """A multilayer perceptron of the row with 0, in standardised columns the mean, in the missing cells (Nazábal et al.
    2020; Mattei and Frellsen 2019)."""

    def __init__(
        self, D: int, hidden: Sequence[int], out: int, *, beside: int = 0, activation: Activation = "sigmoid"
    ) -> None:
        super().__init__()
        self.net = MLP(D + beside, hidden, out, activation=activation)

    def forward(self, x: Tensor, missing: Tensor | None = None, beside: Tensor | None = None) -> Tensor:
        """See RowNetwork."""
        return self.net(x if missing is None else finite(x) * (~missing).to(x.dtype), beside)

    def initialise(self, generator: torch.Generator) -> None:
        """See RowNetwork."""
        self.net.initialise(generator)

    @property
    def outlet(self) -> nn.Linear:
        """See RowNetwork."""
        return self.net.outlet


class SetRows(RowNetwork):
    """A network of the set of observed cells (PointNet plus, Ma et al. 2019; PartialVAE+ in the paper).

    Each observed cell is (x_j, x_j e_j, b_j), with an embedding e_j and a number b_j learnt for its column; a network
    that all cells share, with residuals, maps it to features; the features of a row's cells are summed, and a second
    network maps the sum to the output. There is no activation after the sum; elsewhere it is a leaky ReLU.
    """

    def __init__(
        self, D: int, embedding: int, cell: Sequence[int], hidden: Sequence[int], out: int, *, beside: int = 0
    ) -> None:
        """embedding: length of e_j · cell: widths of the network of a cell · hidden: of the one after the sum."""
        super().__init__()
        self.embedding = nn.Parameter(torch.zeros(D, embedding))
        self.place = nn.Parameter(torch.zeros(D))
        self.inlet = zero_linear(embedding + 2, cell[0])
        self.cell = nn.ModuleList(zero_linear(a, b) for a, b in pairwise(cell))
        self.head = MLP(cell[-1] + beside, hidden, out)

    def forward(self, x: Tensor, missing: Tensor | None = None, beside: Tensor | None = None) -> Tensor:
        """See RowNetwork."""
        if missing is not None:
            x = x.masked_fill(missing, 0.0)
        weight = self.inlet.weight  # linear in x_j, x_j e_j and b_j: most of it is computed once for all rows
        slope = weight[:, 0] + self.embedding @ weight[:, 1:-1].mT
        offset = self.place[:, None] * weight[:, -1] + self.inlet.bias
        features = F.leaky_relu(x[..., None] * slope + offset)  # [.., D, cell]
        for layer in self.cell:
            new = F.leaky_relu(layer(features))
            features = features + new if new.shape == features.shape else new
        if missing is not None:
            features = features.masked_fill(missing[..., None], 0.0)
        total = features.sum(-2) / math.sqrt(x.shape[-1])  # a fixed factor: it only says where training starts
        return self.head(total, beside)

    @torch.no_grad()
    def initialise(self, generator: torch.Generator) -> None:
        """See RowNetwork."""
        initialise_layers(self, generator)
        for parameter in (self.embedding, self.place):
            draw = torch.empty(parameter.shape, dtype=parameter.dtype, device=generator.device)
            parameter.copy_(draw.normal_(generator=generator))

    @property
    def outlet(self) -> nn.Linear:
        """See RowNetwork."""
        return self.head.outlet
