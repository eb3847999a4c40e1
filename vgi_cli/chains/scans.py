"""Which blocks a chain redraws, and in which order: drawn without a look at the values of cells."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

FEW_BLOCKS = 16
"""Up to this number of blocks, finding a hole by its rank is quicker by comparing with all of them."""
FEWEST_PARTS = 8
"""A row with few holes is cut into at least so many parts (while it has as many holes): redrawing all its holes at once
would hardly ever be accepted, or, uncorrected, lose what they have to do with each other."""


class Scan(NamedTuple):
    """Which block each of R rows redraws at each of G steps, or which B columns together.

    j       [R, G] block indices; [R, G, B] columns, distinct within a step
    active  as j; False where the row has no hole left: the step leaves that block as it is
    """

    j: Tensor
    active: Tensor


def random_scan(allowed: Tensor, uniform: Tensor, G: int) -> Scan:
    """Blocks in random order without replacement, cut at the row's number of holes.

    allowed [R, S] blocks that may be redrawn; uniform [R, S] on (0, 1). The law is symmetric under reversal, which
    paths need.
    """
    top = torch.where(allowed, uniform, -1.0).topk(min(G, allowed.shape[1]), 1)
    return Scan(top.indices, top.values >= 0)


def holes_scan(holes: Tensor, K: int, uniform: Tensor) -> Scan:
    """The law of `random_scan` for K chains a row at the price of the steps instead of the blocks.

    holes [B, S] what may be redrawn; uniform [B * K, G] on (0, 1), chains of a row next to each other. Each step draws
    the rank of a hole among those that are left, whatever was drawn before.
    """
    B, S = holes.shape
    G = min(uniform.shape[1], S)
    seen = holes.to(torch.int32).cumsum(1, dtype=torch.int32)
    count = seen[:, -1].long().repeat_interleave(K)  # [B * K]
    drawn: list[Tensor] = []  # ranks so far, ascending
    ranks = []
    for g in range(G):
        left = (count - g).clamp(min=1)
        rank = torch.minimum((uniform[:, g] * left).long(), left - 1)
        for earlier in drawn:
            rank = rank + (rank >= earlier)
        ranks.append(rank)
        for i, earlier in enumerate(drawn):  # insert in order
            drawn[i], rank = torch.minimum(earlier, rank), torch.maximum(earlier, rank)
        drawn.append(rank)
    wanted = torch.stack(ranks, 1).add_(1).to(torch.int32).view(B, K * G)
    if S <= FEW_BLOCKS:
        j = (seen[:, None] < wanted[..., None]).sum(2)
    else:
        j = torch.searchsorted(seen, wanted)
    j = j.clamp_(max=S - 1).view(B * K, G)
    return Scan(j, torch.arange(G, device=holes.device) < count[:, None])


def repeated(scan: Scan, G: int) -> Scan:
    """G steps of every row with a hole: a row with fewer holes than that begins again with its first one.

    scan.j [R, steps], steps the lesser of G and S. Not symmetric under reversal: not for paths.
    """
    count = scan.active.sum(1, keepdim=True)
    place = torch.arange(G, device=count.device) % count.clamp(min=1)
    return Scan(scan.j.gather(1, place), (count > 0).expand(-1, G))


def block_scan(allowed: Tensor, keys: Tensor, G: int, B: int) -> Scan:
    """The holes of each row by falling key, cut into G parts of at most B columns.

    allowed [R, S] what may be redrawn; keys [R, S], any order of numbers above -inf. A row with fewer than
    FEWEST_PARTS * B holes has smaller parts.
    """
    R, S = allowed.shape
    B = min(B, S)
    drawn = min(G * B, S)
    order = torch.where(allowed, keys, -torch.inf).topk(drawn, 1).indices
    holes = allowed.sum(1)
    size = (-(-holes // FEWEST_PARTS)).clamp(max=B)[:, None, None]
    within = torch.arange(B, device=allowed.device)
    place = torch.arange(G, device=allowed.device)[:, None] * size + within  # [R, G, B]
    active = (within < size) & (place < holes[:, None, None].clamp(max=drawn))
    j = order.gather(1, (place % drawn).view(R, G * B)).view(R, G, B)
    return Scan(j, active)


def whole_sweep(S: int, B: int) -> int:
    """Steps after which every hole of every row of S columns has had its turn."""
    return max(-(-S // B), min(S, FEWEST_PARTS))
