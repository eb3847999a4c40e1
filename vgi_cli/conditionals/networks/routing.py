"""Routing of flattened rows to the one head network that each of them needs (like experts in a mixture).

Computing all S heads and selecting one costs S times too much. Here rows are sorted by block and cut into tiles of a
fixed number of rows, each tile owned by one head; a layer is then one batched product over tiles. On a GPU shapes
depend on (Q, S, tile) only, never on the values of j, so that a step can be captured and nothing waits for the device;
on a CPU, where reading a number costs nothing, tiles that no row is in are left out.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn


class Route(NamedTuple):
    """Where each of Q rows sits among tiles of one head each.

    slot    [Q] position of each row in the padded layout of T * tile rows
    source  [T * tile] the row in each slot; row 0 in those that are empty
    real    [T * tile, 1] 1 where there is a row, else 0
    head    [T] the head that owns each tile; the first S tiles belong to heads 0..S-1
    tile    rows per tile
    """

    slot: Tensor
    source: Tensor
    real: Tensor
    head: Tensor
    tile: int


def tile_size(Q: int, S: int) -> int:
    """Rows per tile: the power of two from 8 to 256 nearest above the mean number of rows per head."""
    tile = 8
    while tile < 256 and tile * S < Q:
        tile *= 2
    return tile


def route(j: Tensor, S: int, dtype: torch.dtype) -> Route:
    """Tiles for rows with heads j [Q] in 0..S-1: tile s belongs to head s, those after the first S to heads with more
    rows than one tile holds. Q // tile of these are enough for any j."""
    Q = j.shape[0]
    tile = tile_size(Q, S)
    counts = torch.zeros(S, dtype=torch.int64, device=j.device).scatter_add_(0, j, torch.ones_like(j))
    more = (counts - 1).clamp(min=0) // tile
    ends = more.cumsum(0)
    extra = Q // tile
    if j.device.type == "cpu":
        extra = int(ends[-1])
    sorted_j, order = torch.sort(j, stable=True)
    rank = torch.arange(Q, device=j.device) - (counts.cumsum(0) - counts)[sorted_j]
    beyond = (S - 1 + ends - more)[sorted_j] * tile  # where a head's rows go on after its own tile
    slots = torch.where(rank < tile, sorted_j * tile, beyond) + rank
    tiles = S + extra
    slot = torch.empty_like(j).scatter_(0, order, slots)
    source = j.new_zeros(tiles * tile).scatter_(0, slots, order)
    real = torch.zeros(tiles * tile, dtype=dtype, device=j.device).index_fill_(0, slots, 1.0)
    spare = torch.searchsorted(ends, torch.arange(extra, device=j.device), right=True).clamp_(max=S - 1)
    head = torch.cat([torch.arange(S, device=j.device), spare])
    return Route(slot, source, real[:, None], head, tile)


class _Gather(torch.autograd.Function):
    """h[forth], with the gradient grad[back] * keep, summed over the M slots of each row of h: a gather both ways,
    where autograd's own derivative of a gather adds row by row."""

    @staticmethod
    def forward(ctx: Any, h: Tensor, forth: Tensor, back: Tensor, keep: Tensor | None, M: int) -> Tensor:
        ctx.save_for_backward(back, keep)
        ctx.M = M
        return h.index_select(0, forth)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        back, keep = ctx.saved_tensors
        out = grad.index_select(0, back)
        if keep is not None:
            out = out * keep
        if ctx.M > 1:
            out = out.unflatten(0, (-1, ctx.M)).sum(1)
        return out, None, None, None, None


def scatter_rows(h: Tensor, where: Route, M: int = 1) -> Tensor:
    """[Q / M, F] -> [T, tile, F]: rows at their slots, each at M of them; anything in the empty ones."""
    source = where.source if M == 1 else where.source // M
    tiles: Tensor = _Gather.apply(h, source, where.slot, None, M)
    return tiles.view(-1, where.tile, h.shape[1])


def gather_rows(h: Tensor, where: Route) -> Tensor:
    """[T, tile, F] -> [Q, F]: the inverse of `scatter_rows`."""
    rows: Tensor = _Gather.apply(h.reshape(-1, h.shape[2]), where.slot, where.source, where.real, 1)
    return rows


class HeadLinear(nn.Module):
    """S linear layers of one shape, one for each head."""

    def __init__(self, S: int, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(S, inputs, outputs))
        self.bias = nn.Parameter(torch.zeros(S, 1, outputs))

    def forward(self, h: Tensor, where: Route) -> Tensor:
        """[T, tile, inputs] -> [T, tile, outputs]. Weights are copied for the tiles beyond one a head only."""
        S = self.weight.shape[0]
        out = torch.baddbmm(self.bias, h[:S], self.weight)
        if h.shape[0] == S:
            return out
        head = where.head[S:]
        more = torch.baddbmm(self.bias.index_select(0, head), h[S:], self.weight.index_select(0, head))
        return torch.cat([out, more])

    def every(self, h: Tensor, hide: bool) -> Tensor:
        """Every head on every row, rows last: h [inputs, Q] (for all heads) or [S, inputs, Q] -> [S, outputs, Q].
        `hide`: head s does not see input s."""
        weight = self.weight.transpose(1, 2)  # [S, outputs, inputs]
        if hide:
            weight = weight * (1 - torch.eye(weight.shape[0], dtype=h.dtype, device=h.device))[:, None]
        bias = self.bias.transpose(1, 2)
        if h.ndim == 2:
            out = torch.addmm(bias.reshape(-1, 1), weight.reshape(-1, h.shape[0]), h)
            return out.view(*weight.shape[:2], -1)
        return torch.baddbmm(bias, weight, h)
