"""Networks that map a completed row and a block index to the parameters of q(x_j | rest) (paper, appendix G).

Two layouts: `independent` has one network per block; `shared` has one trunk for all blocks and one small head per
block. Two kernels: `standard` hides the block's own value from its network, `extended` shows it, so that one pass of
the trunk serves every block of a row (appendix E). Every head also sees the row through a linear map of its own: the
conditionals of Gaussian-like models are linear, and the network then only learns what is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vgi_cli.conditionals.routing import HeadLinear, Route, gather_rows, route, scatter_rows

SLOPE = 0.01  # of the leaky ReLU (paper, section 4.3)
GAIN = (2.0 / (1.0 + SLOPE**2)) ** 0.5  # Kaiming gain of that activation


class HeadNetwork(nn.Module):
    """Parameters [Q, width] of the conditionals of blocks j [Q] at rows x [Q, D].

    S       blocks (of one column each: block j is column j)
    width   parameters of one univariate conditional
    trunk   widths of the layers that all blocks share; empty: independent networks
    hidden  widths of the layers of each head
    """

    def __init__(self, S: int, width: int, trunk: Sequence[int], hidden: Sequence[int]) -> None:
        super().__init__()
        sizes = [S, *trunk]
        self.trunk = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))
        sizes = [sizes[-1], *hidden, width]
        self.heads = nn.ModuleList(HeadLinear(S, a, b) for a, b in pairwise(sizes))
        self.skip = HeadLinear(S, S, width)
        self.S = S

    def initialise(self, generator: torch.Generator) -> None:
        """Kaiming weights drawn from `generator`; last layer and linear map start at zero: q = N(0, 1) everywhere."""
        for name, parameter in self.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)
            inputs = parameter.shape[-2] if name.startswith("heads") else parameter.shape[-1]
            last = name.startswith((f"heads.{len(self.heads) - 1}.", "skip"))
            scale = 0.0 if last or name.endswith("bias") else GAIN / inputs**0.5
            with torch.no_grad():
                parameter.copy_(noise * scale)

    def forward(self, x: Tensor, j: Tensor, visible: bool) -> Tensor:
        """Parameters [R, M, width] for blocks j [R, M] of rows x [R, D]; `visible`: block j sees its own value."""
        R, M = j.shape
        if visible:  # one pass of the trunk serves all M blocks of a row
            shared = self._trunk(x)[:, None].expand(R, M, -1).reshape(R * M, -1)
            rows = x[:, None].expand(R, M, -1).reshape(R * M, -1)
        else:
            hidden = torch.arange(x.shape[1], device=x.device) == j[..., None]
            rows = torch.where(hidden, x.new_zeros(()), x[:, None]).reshape(R * M, -1)
            shared = self._trunk(rows)
        return self._head(shared, rows, route(j.reshape(-1), self.S)).view(R, M, -1)

    def _trunk(self, x: Tensor) -> Tensor:
        h = x
        for layer in self.trunk:
            new = F.leaky_relu(layer(h), SLOPE)
            h = h + new if new.shape == h.shape and layer is not self.trunk[0] else new
        return h

    def _head(self, shared: Tensor, rows: Tensor, where: Route) -> Tensor:
        tiles = scatter_rows(rows, where)
        h = tiles if len(self.trunk) == 0 else scatter_rows(shared, where)
        layers = list(self.heads)
        for i, layer in enumerate(layers[:-1]):
            new = F.leaky_relu(layer(h, where), SLOPE)
            h = h + new if i > 0 and new.shape == h.shape else new
        return gather_rows(layers[-1](h, where) + self.skip(tiles, where), where)
