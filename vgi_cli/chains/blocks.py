"""Sweeps that redraw B columns of a row together, from the product of their conditionals at the row as it stands.

One at a time, a visit of G updates changes G cells; here it changes G B for about the same price, because the price is
that of the densities and of the trunk, not of the cells. Uncorrected (`gibbs_blocks`) the product forgets how the B
columns depend on each other given the rest; with the Metropolis rule (`metropolis_blocks`) the step leaves
p(x_mis | x_obs) invariant: every factor of the way back is conditioned on the whole new row, in both kernels.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from vgi_cli.chains.sweeps import SweepNoise, Swept
from vgi_cli.conditionals.base import Rows, Univariate
from vgi_cli.notation import LogDensity

FEWEST_PARTS = 8
"""A row with few holes is cut into at least so many parts (while it has as many holes): redrawing all its holes at once
would hardly ever be accepted, or, uncorrected, lose what they have to do with each other."""


class BlockScan(NamedTuple):
    """Which B columns each of R rows redraws together at each of G steps.

    j       [R, G, B] columns, distinct within a step
    active  [R, G, B] False where the row has no hole left: that column stays
    """

    j: Tensor
    active: Tensor


def block_scan(allowed: Tensor, keys: Tensor, G: int, B: int) -> BlockScan:
    """The holes of each row by falling key, cut into G parts of at most B columns.

    allowed [R, S] what may be redrawn; keys [R, S], any order of numbers above -inf. A row with fewer than
    FEWEST_PARTS * B holes has smaller parts. Nothing looks at the values of cells.
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
    return BlockScan(j, active)


def whole_sweep(S: int, B: int) -> int:
    """Steps after which every hole of every row of S columns has had its turn."""
    return max(-(-S // B), min(S, FEWEST_PARTS))


def gibbs_blocks(
    q: Univariate,
    x: Tensor,
    missing: Tensor,
    scan: BlockScan,
    noise: SweepNoise,
    box: Tensor | None = None,
) -> Swept:
    """Every draw is kept (unless it leaves the box [2, D]): the paper's pseudo-Gibbs rule, B columns at a time."""
    x = x.clone()
    kept = []
    for g in range(scan.j.shape[1]):
        j, active = scan.j[:, g], scan.active[:, g]
        old = x.gather(1, j)
        value = q.fresh(q.params(q.see(x, missing), j), noise.normal[:, g])
        kept.append(active if box is None else active & _inside(value, j, box))
        x.scatter_(1, j, torch.where(kept[-1], value, old))
    return Swept(x, torch.stack(kept, 1))


def metropolis_blocks(
    log_p: LogDensity,
    q: Univariate,
    x: Tensor,
    missing: Tensor,
    scan: BlockScan,
    noise: SweepNoise,
    wide: float,
    box: Tensor | None = None,
) -> Swept:
    """B columns are kept together with probability min(1, p(x')/p(x) · prod_j k_j(x_j | x')/k_j(x'_j | x)).

    k_j is the proposal of column j, its parameters read off the whole row before (x) or after (x') the step; `wide`:
    the share of a widened q in it.
    """
    rows = q.see(x.clone(), missing)
    log_p_x = log_p(rows.x, missing)
    kept = []
    for g in range(scan.j.shape[1]):
        j, active = scan.j[:, g], scan.active[:, g]
        old = rows.x.gather(1, j)
        value, forward = q.proposed_apart(q.params(rows, j), noise.normal[:, g], wide)
        value = torch.where(active, value, old)
        new = q.see(rows.x.scatter(1, j, value), missing)
        log_p_new = log_p(new.x, missing)
        reverse = q.log_proposal_apart(q.params(new, j), old, wide)
        ratio = log_p_new - log_p_x + torch.where(active, reverse - forward, 0.0).sum(1)
        accepted = noise.log_uniform[:, g] < ratio  # False where the ratio is NaN
        if box is not None:
            accepted = accepted & (_inside(value, j, box) | ~active).all(1)
        kept.append(active & accepted[:, None])
        log_p_x = torch.where(accepted, log_p_new, log_p_x)
        rows = Rows(*(torch.where(accepted[:, None], there, here) for there, here in zip(new, rows, strict=True)))
    return Swept(rows.x, torch.stack(kept, 1))


def _inside(value: Tensor, j: Tensor, box: Tensor) -> Tensor:
    return (value >= box[0, j]) & (value <= box[1, j])
