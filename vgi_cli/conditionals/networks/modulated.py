"""One head for all blocks, modulated by an embedding of the block: no row is sent anywhere.

Every layer of the head is one dense product for all rows; the block only scales and shifts what comes out of it (FiLM,
Perez et al. 2018). Beside heads of their own (`network.py`) this costs no sorting and far fewer parameters; what it
loses in accuracy and gains in time is in docs/research/benchmarks.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vgi_cli.conditionals.networks.trunk import GAIN, KEPT_FROM, RANK, SLOPE, BlockNetwork, LowRank, Trunk, rows_of


class ModulatedNetwork(BlockNetwork):
    """A trunk and a head that all blocks share; an embedding scales and shifts each layer of the head.

    S       blocks
    width   parameters of one conditional
    trunk   widths of the layers before the block is named; hidden: of those after it
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
        self.S = S
        self.trunk = Trunk([D, *trunk], RANK if trunk and D > KEPT_FROM else 0)
        self.slope = LowRank(S, RANK, locations) if self.trunk.linear else None
        sizes = [trunk[-1] if trunk else D, *hidden]
        self.heads = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))
        self.scale = nn.ParameterList(nn.Parameter(torch.ones(S, b)) for b in sizes[1:])
        self.shift = nn.ParameterList(nn.Parameter(torch.zeros(S, b)) for b in sizes[1:])
        self.last = nn.Linear(sizes[-1], width)
        self.base = nn.Parameter(torch.zeros(S, width))

    def initialise(self, generator: torch.Generator) -> None:
        """Kaiming weights, embeddings N(1, 0.5^2) and N(0, 0.5^2) from `generator`; the last layer starts at zero."""
        for name, parameter in self.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)
            with torch.no_grad():
                if name.startswith(("scale", "shift")):
                    parameter.copy_(0.5 * noise + (1.0 if name.startswith("scale") else 0.0))
                elif name.startswith(("last", "base", "slope")) or name.endswith("bias"):
                    parameter.zero_()
                else:
                    parameter.copy_(noise * (GAIN / parameter.shape[-1] ** 0.5))

    def forward(self, x: Tensor, j: Tensor, visible: bool, first: Tensor | None = None) -> Tensor:
        R, M = j.shape
        flat = j.reshape(-1)
        past = x.new_empty(len(x), 0)
        if len(self.trunk):
            h, past = self.trunk(x, j, self.trunk.first(x) if first is None else first, visible)
        elif visible:
            h = x
        else:
            h = x[:, None].expand(-1, M, -1).scatter(2, j[..., None], 0.0).flatten(0, 1)
        for i, layer in enumerate(cast(list[nn.Linear], list(self.heads))):
            out = layer(h)  # at first a row for all of its blocks, from then on one for each
            embedding = (rows_of(part[i], flat) for part in (self.shift, self.scale))
            shift, scale = (part.view(len(out), -1, out.shape[1]) for part in embedding)
            new = F.leaky_relu(torch.addcmul(shift, out[:, None], scale), SLOPE, inplace=True).flatten(0, 1)
            h = h + new if i > 0 and new.shape == h.shape else new
        if len(h) < len(flat):
            h = h.repeat_interleave(M, 0)
        params: Tensor = self.last(h) + rows_of(self.base, flat)
        params = params if self.slope is None else self.slope(params, past, flat)
        return params.view(R, M, -1)
