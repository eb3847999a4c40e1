"""The layers that all blocks share (paper, appendix G: the partially shared layout), kept up to date along a sweep."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import cast

from torch import Tensor, nn
from torch.nn import functional as F

SLOPE = 0.01  # of the leaky ReLU (paper, section 4.3)
GAIN = (2.0 / (1.0 + SLOPE**2)) ** 0.5  # Kaiming gain of that activation
KEPT_FROM = 64  # columns from which the trunk's first layer is kept up to date instead of being computed anew


class Trunk(nn.ModuleList):
    """Layers of these sizes (the first is the number of columns), residual where two sizes are equal."""

    def __init__(self, sizes: Sequence[int]) -> None:
        super().__init__(nn.Linear(a, b) for a, b in pairwise(sizes))

    def first(self, x: Tensor) -> Tensor:
        """[R, W] what the trunk's first layer makes of rows x, before its activation; W = 0 where it is not kept.

        A changed column changes it by one column of the weights, and hiding a column takes the same away: in many
        columns both cost next to nothing, while a pass over the whole row costs most of the trunk.
        """
        if len(self) == 0 or x.shape[1] < KEPT_FROM:
            return x.new_empty(x.shape[0], 0)
        layer = cast(nn.Linear, self[0])
        return F.linear(x, layer.weight, layer.bias)

    def change_(self, first: Tensor, j: Tensor, step: Tensor) -> None:
        """Update `first` [R, W] in place after column j [R] has grown by step [R]."""
        if first.shape[1]:
            layer = cast(nn.Linear, self[0])
            first.addcmul_(layer.weight.t()[j], step[:, None])

    def forward(self, x: Tensor, j: Tensor, first: Tensor, visible: bool) -> Tensor:
        """[R, F] where the blocks are visible (one pass serves all of a row), else [R * M, F]."""
        inlet = cast(nn.Linear, self[0])
        if first.shape[1] == 0:
            rows = x if visible else x[:, None].expand(-1, j.shape[1], -1).scatter(2, j[..., None], 0.0).flatten(0, 1)
            first = F.linear(rows, inlet.weight, inlet.bias)
        elif not visible:
            own = x.gather(1, j)[..., None] * inlet.weight.t()[j]  # [R, M, W]
            first = (first[:, None] - own).flatten(0, 1)
        h = F.leaky_relu(first, SLOPE)
        for layer in list(self)[1:]:
            new = F.leaky_relu(layer(h), SLOPE, inplace=True)
            h = h + new if new.shape == h.shape else new
        return h
