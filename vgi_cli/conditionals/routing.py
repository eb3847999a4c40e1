"""Routing of flattened rows to the one head network that each of them needs (like experts in a mixture).

Computing all S heads and selecting one costs S times too much. Here rows are sorted by block and cut into tiles of a
fixed number of rows, each tile owned by one head; a layer is then one batched product over tiles. Shapes depend on
(Q, S, tile) only, never on the values of j, so a step can be captured or compiled, and nothing waits for the device.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn


class Route(NamedTuple):
    """Where each of Q rows sits among tiles of one head each.

    slot   [Q] position of each row in the padded layout of T * tile rows
    head   [T] the head that owns each tile
    tile   rows per tile
    """

    slot: Tensor
    head: Tensor
    tile: int


def tile_size(Q: int, S: int) -> int:
    """Rows per tile: the power of two from 8 to 256 nearest below the mean number of rows per head."""
    tile = 8
    while tile < 256 and tile * 2 * S <= Q:
        tile *= 2
    return tile


def route(j: Tensor, S: int) -> Route:
    """Tiles for rows with heads j [Q] in 0..S-1. There are Q // tile + S tiles, enough for any j."""
    Q = j.shape[0]
    tile = tile_size(Q, S)
    tiles = Q // tile + S
    counts = torch.zeros(S, dtype=torch.int64, device=j.device).scatter_add_(0, j, torch.ones_like(j))
    ends = ((counts + tile - 1) // tile).cumsum(0)  # tile index after each head's last tile
    starts = ends - (counts + tile - 1) // tile
    sorted_j, order = torch.sort(j, stable=True)
    rank = torch.arange(Q, device=j.device) - (counts.cumsum(0) - counts)[sorted_j]
    slot = torch.empty_like(j).scatter_(0, order, starts[sorted_j] * tile + rank)
    head = torch.searchsorted(ends, torch.arange(tiles, device=j.device), right=True).clamp_(max=S - 1)
    return Route(slot, head, tile)


def scatter_rows(h: Tensor, where: Route) -> Tensor:
    """[Q, F] -> [T, tile, F]: rows at their slots, zeros elsewhere."""
    T = where.head.shape[0]
    padded = h.new_zeros(T * where.tile, h.shape[1]).index_copy(0, where.slot, h)
    return padded.view(T, where.tile, h.shape[1])


def gather_rows(h: Tensor, where: Route) -> Tensor:
    """[T, tile, F] -> [Q, F]: the inverse of `scatter_rows`."""
    return h.reshape(-1, h.shape[2]).index_select(0, where.slot)


class HeadLinear(nn.Module):
    """S linear layers of one shape, one for each head."""

    def __init__(self, S: int, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(S, inputs, outputs))
        self.bias = nn.Parameter(torch.zeros(S, 1, outputs))

    def forward(self, h: Tensor, where: Route) -> Tensor:
        """[T, tile, inputs] -> [T, tile, outputs]."""
        return torch.baddbmm(self.bias.index_select(0, where.head), h, self.weight.index_select(0, where.head))
