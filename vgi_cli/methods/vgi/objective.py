"""The VGI objective and the imputation step on one batch (paper, Algorithms 2, 3 and 5).

All randomness is drawn first (`sweep_noise`, `draw_noise`) and handed in, so that what follows is a fixed function of
tensors, which can be captured or compiled.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from vgi_cli.chains.blocks import block_scan, gibbs_blocks, metropolis_blocks
from vgi_cli.chains.kernels import Scan, holes_scan, random_scan
from vgi_cli.chains.sweeps import SweepNoise, Swept, gibbs_sweep, metropolis_path, metropolis_sweep
from vgi_cli.conditionals.amortised import WIDE_SHARE
from vgi_cli.conditionals.base import Conditionals, OfColumns, Univariate
from vgi_cli.notation import LogDensity

RANKED = 12
"""Up to this many blocks a row are found by rank (`holes_scan`); for more, blocks are sorted by random numbers."""


class Sweep(NamedTuple):
    """After G steps: rows x [R, D]; steps tried and accepted per block [S]; which steps were accepted [R, G], or
    [R, G, B] where B columns move together."""

    x: Tensor
    tried: Tensor
    accepted: Tensor
    steps: Tensor


class DrawNoise(NamedTuple):
    """For M redrawn blocks of n rows: uniform `order` chooses them, normal [n, M, fresh_width] draws them; where B
    columns are redrawn together, normal [n, M, B, fresh_width]. `latents`: for latents that are drawn too."""

    order: Tensor
    normal: Tensor
    latents: Tensor = torch.empty(0)


def draw_noise(
    q: Conditionals, n: int, M: int, like: Tensor, generator: torch.Generator, columns: int = 1
) -> DrawNoise:
    """Randomness of one estimate of the objective; `columns`: B of them are redrawn together (`block_objective`)."""
    if columns > 1:
        normals = normal((n, M, min(columns, q.S), q.fresh_width), like, generator)
        return DrawNoise(uniform((n, q.S), like, generator), normals)
    M = min(M, q.S)
    return DrawNoise(_order(q, n, M, like, generator), normal((n, M, q.fresh_width), like, generator))


def sweep_noise(
    q: Conditionals, R: int, G: int, accept: str, like: Tensor, generator: torch.Generator, columns: int = 1
) -> SweepNoise:
    """Randomness of one sweep of G steps; `columns`: B of them are redrawn together at each."""
    G = min(G, q.S)
    width = q.noise_width if accept == "metropolis" else q.fresh_width
    log_uniform = uniform((R, G), like, generator).log()
    if columns > 1:
        order = uniform((R, q.S), like, generator)
        return SweepNoise(order, normal((R, G, min(columns, q.S), width), like, generator), log_uniform)
    return SweepNoise(_order(q, R, G, like, generator), normal((R, G, width), like, generator), log_uniform)


def _order(q: Conditionals, R: int, steps: int, like: Tensor, generator: torch.Generator) -> Tensor:
    return uniform((R, steps if steps <= RANKED else q.S), like, generator)


def _scan(q: Conditionals, missing: Tensor, K: int, order: Tensor, steps: int) -> Scan:
    """Which blocks are redrawn; missing [R, D], K chains of a row next to each other."""
    if steps <= RANKED:
        return holes_scan(q.blocks(missing[::K]), K, order)
    return random_scan(q.blocks(missing), order, steps)


def vgi_objective(
    log_p: LogDensity,
    q: OfColumns,
    x: Tensor,
    missing: Tensor,
    weight: Tensor,
    K: int,
    noise: DrawNoise,
) -> Tensor:
    """Weighted sum of the estimates of J_VGI (Algorithm 3, eq. 9): scalar, nats.

    x, missing [R, D]; weight [R]. The mean over M missing blocks of log p(x with the block redrawn) - log q; a fully
    observed row contributes log p(x), once. The first n rows, those that `noise` is for, have holes, K chains next to
    each other. Blocks are drawn without replacement, so a row with fewer than M holes averages over all of them.
    """
    n, M = noise.normal.shape[:2]
    if n == 0:
        return (weight * log_p(x, missing)).sum()
    if noise.normal.ndim == 4:
        return _block_objective(log_p, q, x, missing, weight, noise)
    scan = _scan(q, missing[:n], K, noise.order, M)
    draw = q.draw(x[:n], missing[:n], scan.j, noise.normal)
    masks = missing[:n, None].expand(-1, M, -1).reshape(n * M, -1)
    log_p_rows = log_p(joined(draw.x.flatten(0, 1), x[n:]), joined(masks, missing[n:]))
    terms = torch.where(scan.active, log_p_rows[: n * M].view(n, M) - draw.log_q, 0.0)
    share = weight[:n] / scan.active.sum(1)
    return (share * terms.sum(1)).sum() + (weight[n:] * log_p_rows[n * M :]).sum()


def _block_objective(
    log_p: LogDensity, q: OfColumns, x: Tensor, missing: Tensor, weight: Tensor, noise: DrawNoise
) -> Tensor:
    """The same with M blocks of B columns that are redrawn together: log p(x with the block redrawn) - sum_j log q_j.

    One density serves B conditionals, where eq. 9 takes one each: in many columns that is what phi is learnt from. The
    q_j that it is best for know of the block's other columns only what the rest of the row says (a mean field within
    the block, paper section 3.4): close to p's own conditionals while B is small beside the number of columns.
    """
    assert isinstance(q, Univariate), "see scans.block_columns"
    n, M, B = noise.normal.shape[:3]
    scan = block_scan(q.blocks(missing[:n]), noise.order, M, B)
    draws = [q.draw_together(x[:n], scan.j[:, m], scan.active[:, m], noise.normal[:, m]) for m in range(M)]
    masks = missing[:n].repeat(M, 1)
    log_p_rows = log_p(joined(torch.cat([draw.x for draw in draws]), x[n:]), joined(masks, missing[n:]))
    used = scan.active.any(2)  # a row with few holes has fewer blocks
    terms = torch.where(used, log_p_rows[: n * M].view(M, n).t() - torch.stack([d.log_q for d in draws], 1), 0.0)
    return (weight[:n] / used.sum(1) * terms.sum(1)).sum() + (weight[n:] * log_p_rows[n * M :]).sum()


def joined(first: Tensor, second: Tensor) -> Tensor:
    """Both, one below the other; no copy where the second is empty."""
    return torch.cat([first, second]) if len(second) else first


def warm_up_loss(
    q: OfColumns, x: Tensor, missing: Tensor, weight: Tensor, M: int, generator: torch.Generator
) -> Tensor:
    """Minus the mean log q(x_j | rest) of M observed blocks per row (Algorithm 2): scalar, nats.

    The block is hidden from its own input in both kernels. Missing inputs hold imputations.
    """
    scan = random_scan(q.blocks(~missing), uniform((x.shape[0], q.S), x, generator), M)
    active = scan.active.to(x.dtype)
    log_q = torch.where(scan.active, q.log_prob(x, ~missing, scan.j), 0.0)
    return -(weight * log_q.sum(1) / active.sum(1).clamp(min=1.0)).sum()


@torch.no_grad()
def update_imputations(
    log_p: LogDensity,
    q: Conditionals,
    x: Tensor,
    missing: Tensor,
    K: int,
    noise: SweepNoise,
    *,
    accept: str,
    scan: str,
    inside: Tensor | None = None,
) -> Sweep:
    """G updates of each row's missing blocks (Algorithm 5), with or without a Metropolis correction.

    x, missing [R, D]: K chains of a row next to each other
    inside      [2, D] box: updates that leave it are rejected (Algorithm 6, line 7)
    """
    if noise.normal.ndim == 4:
        return _together(log_p, q, x, missing, noise, accept, inside)
    order = _scan(q, missing, K, noise.order, noise.normal.shape[1])
    if accept == "gibbs":
        swept = gibbs_sweep(q, x, missing, order, noise, inside)
    elif scan == "path" and inside is None:
        swept = metropolis_path(log_p, q, x, missing, order, noise)
    else:
        swept = metropolis_sweep(log_p, q, x, missing, order, noise, inside)
    return _counted(q, swept, order.j, order.active)


def _together(
    log_p: LogDensity,
    q: Conditionals,
    x: Tensor,
    missing: Tensor,
    noise: SweepNoise,
    accept: str,
    inside: Tensor | None,
) -> Sweep:
    """The sweeps of `chains/blocks.py`."""
    assert isinstance(q, Univariate), "see scans.moves_of"
    G, B = noise.normal.shape[1:3]
    order = block_scan(q.blocks(missing), noise.order, G, B)
    if accept == "gibbs":
        swept = gibbs_blocks(q, x, missing, order, noise, inside)
    else:
        wide = WIDE_SHARE / B  # B widened columns would be refused: the share is that of a step
        swept = metropolis_blocks(log_p, q, x, missing, order, noise, wide, inside)
    return _counted(q, swept, order.j, order.active)


def _counted(q: Conditionals, swept: Swept, j: Tensor, active: Tensor) -> Sweep:
    """The rows, and how often each block of columns was tried and kept."""
    zeros = swept.x.new_zeros(q.S)
    tried = zeros.scatter_add(0, j.reshape(-1), active.reshape(-1).to(zeros))
    accepted = zeros.scatter_add(0, j.reshape(-1), swept.accepted.reshape(-1).to(zeros))
    return Sweep(swept.x, tried, accepted, swept.accepted)


def uniform(shape: tuple[int, ...], like: Tensor, generator: torch.Generator) -> Tensor:
    """Uniform on (0, 1) in the precision and on the device of `like`, never 0."""
    u = torch.rand(shape, generator=generator, dtype=like.dtype, device=like.device)
    return u.clamp_(min=torch.finfo(like.dtype).tiny)


def normal(shape: tuple[int, ...], like: Tensor, generator: torch.Generator) -> Tensor:
    """Standard normal noise in the precision and on the device of `like`."""
    return torch.randn(shape, generator=generator, dtype=like.dtype, device=like.device)
