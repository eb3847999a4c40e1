"""Networks that map a completed row and a block index to the parameters of q(x_j | rest) (paper, appendix G).

Two layouts: `independent` has one network per block; `shared` has one trunk for all blocks and one small head per
block. Two kernels: `standard` hides the block's own value from its network, `extended` shows it, so that one pass of
the trunk serves every block of a row (appendix E). In up to 64 columns every head also sees the row through a linear
map of its own: the conditionals of Gaussian-like models are linear, and the network then only learns what is not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vgi_cli.conditionals.networks.routing import HeadLinear, gather_rows, route, scatter_rows
from vgi_cli.conditionals.networks.trunk import GAIN, RANK, SLOPE, BlockNetwork, LowRank, Trunk
from vgi_cli.maths.networks import NetworkInputs, Networks, suit, through

SKIP_UP_TO = 64  # columns up to which heads behind a trunk have a linear map of their own; beyond: trunk.py
DENSE_UP_TO = 1000  # multiplications a row up to which evaluating all heads costs less than sorting the rows by head


class HeadNetwork(BlockNetwork):
    """A head of its own for every block.

    S       blocks
    width   parameters of one conditional
    trunk   widths of the layers that all blocks share; empty: independent networks
    hidden  widths of the layers of each head
    D       columns; None: as many as blocks
    locations  parameters, the first of a conditional's, that are locations
    """

    def __init__(
        self,
        S: int,
        width: int,
        trunk: Sequence[int],
        hidden: Sequence[int],
        D: int | None = None,
        locations: int = 1,
    ) -> None:
        super().__init__()
        D = S if D is None else D
        sizes = [D, *trunk]
        self.trunk = Trunk(sizes, RANK if trunk and D > SKIP_UP_TO else 0)
        sizes = [sizes[-1], *hidden, width]
        self.heads = nn.ModuleList(HeadLinear(S, a, b) for a, b in pairwise(sizes))
        self.slope = LowRank(S, RANK, locations) if self.trunk.linear else None
        self.skip = HeadLinear(S, D, width) if D <= SKIP_UP_TO or not trunk else None
        self.dense = not trunk and S * sum(a * b for a, b in pairwise(sizes)) <= DENSE_UP_TO
        self.S = S

    def initialise(self, generator: torch.Generator) -> None:
        """Kaiming weights drawn from `generator`; last layer and linear map start at zero: q = N(0, 1) everywhere."""
        for name, parameter in self.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)
            inputs = parameter.shape[-2] if name.startswith("heads") else parameter.shape[-1]
            last = name.startswith((f"heads.{len(self.heads) - 1}.", "skip", "slope"))
            scale = 0.0 if last or name.endswith("bias") else GAIN / inputs**0.5
            with torch.no_grad():
                parameter.copy_(noise * scale)

    def forward(self, x: Tensor, j: Tensor, visible: bool, first: Tensor | None = None) -> Tensor:
        R, M = j.shape
        flat = j.reshape(-1)
        if self.dense:
            return self._every_head(x, flat, M, visible).view(R, M, -1)
        h, past = None, x.new_empty(R, 0)
        if len(self.trunk):
            h, past = self.trunk(x, j, self.trunk.first(x) if first is None else first, visible)
        params = self._own_head(x, h, flat, M, visible)
        return (params if self.slope is None else self.slope(params, past, flat)).view(R, M, -1)

    def _own_head(self, x: Tensor, h: Tensor | None, j: Tensor, M: int, visible: bool) -> Tensor:
        """[Q, width]: for each row the one head of its block; h [Q or R, F] the trunk's output."""
        if suit(networks := self._networks(), seen := NetworkInputs(x, h, j, hide=not visible)):
            return through(networks, seen)
        where = route(j, self.S, x.dtype)
        rows = x.new_empty(0)
        if h is None or self.skip is not None:
            rows = scatter_rows(x, where, M)
            if not visible:  # all rows of a tile hide the same column
                own = where.head[:, None, None].expand(-1, where.tile, 1)
                rows = rows.scatter(2, own, 0.0) if rows.requires_grad else rows.scatter_(2, own, 0.0)
        h = rows if h is None else scatter_rows(h, where, M if len(h) == len(x) else 1)
        h = self._layers(h, lambda layer, h, first: layer(h, where))
        return gather_rows(h if self.skip is None else h + self.skip(rows, where), where)

    def _networks(self) -> Networks:
        """The heads, one for each block."""
        layers = [(layer.weight, layer.bias) for layer in cast(list[HeadLinear], list(self.heads))]
        return Networks(layers, SLOPE, skip=None if self.skip is None else (self.skip.weight, self.skip.bias))

    def _every_head(self, x: Tensor, j: Tensor, M: int, visible: bool) -> Tensor:
        """The same for independent networks so small that evaluating them all costs less than sorting the rows."""
        rows = x.t() if M == 1 else x.repeat_interleave(M, 0).t()
        out = self._layers(rows, lambda layer, h, first: layer.every(h, hide=first and not visible))
        out = out + cast(HeadLinear, self.skip).every(rows, hide=not visible)
        return out.gather(0, j.expand(1, out.shape[1], -1))[0].t()

    def _layers(self, h: Tensor, apply: Callable[[HeadLinear, Tensor, bool], Tensor]) -> Tensor:
        """The layers of the heads: apply(layer, h, whether it is the first)."""
        *inner, last = cast(list[HeadLinear], list(self.heads))
        for i, layer in enumerate(inner):
            new = F.leaky_relu(apply(layer, h, i == 0), SLOPE, inplace=True)
            h = h + new if i > 0 and new.shape == h.shape else new
        return apply(last, h, not inner)
