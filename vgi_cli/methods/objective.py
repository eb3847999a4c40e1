"""The VGI objective and the imputation step on one batch (paper, Algorithms 2, 3 and 5)."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from vgi_cli.chains.kernels import gibbs_step, metropolis_path, metropolis_step, random_scan, stays_inside
from vgi_cli.conditionals.base import Conditionals
from vgi_cli.notation import LogDensity


class Sweep(NamedTuple):
    """After G steps: rows x [R, D]; steps tried and accepted per column [D]."""

    x: Tensor
    tried: Tensor
    accepted: Tensor


def vgi_objective(
    log_p: LogDensity,
    q: Conditionals,
    x: Tensor,
    missing: Tensor,
    weight: Tensor,
    incomplete: int,
    M: int,
    generator: torch.Generator,
) -> Tensor:
    """Weighted sum of the estimates of J_VGI (Algorithm 3, eq. 9): scalar, nats.

    x, missing [R, D]; weight [R]. The mean over M missing blocks of log p(x with the block redrawn) - log q; a fully
    observed row contributes log p(x), once. The first `incomplete` rows are those with holes. Blocks are drawn
    without replacement, so a row with fewer than M holes averages over all of them.
    """
    n = incomplete
    if n == 0:
        return (weight * log_p(x, missing)).sum()
    scan = random_scan(q.blocks(missing[:n]), uniform((n, q.S), x, generator), M)
    noise = normal((*scan.j.shape, q.noise_width), x, generator)
    draw = q.draw(x[:n], scan.j, noise)
    m = scan.j.shape[1]
    active = scan.active.to(x.dtype)
    rows = torch.where(scan.active[..., None], draw.x, x[:n, None]).reshape(n * m, -1)
    masks = missing[:n, None].expand(-1, m, -1).reshape(n * m, -1)
    log_p_rows = log_p(torch.cat([rows, x[n:]]), torch.cat([masks, missing[n:]]))
    share = weight[:n, None] * active / active.sum(1, keepdim=True)
    return (share * (log_p_rows[: n * m].view(n, m) - draw.log_q)).sum() + (weight[n:] * log_p_rows[n * m :]).sum()


def warm_up_loss(
    q: Conditionals, x: Tensor, missing: Tensor, weight: Tensor, M: int, generator: torch.Generator
) -> Tensor:
    """Minus the mean log q(x_j | rest) of M observed blocks per row (Algorithm 2): scalar, nats.

    The block is hidden from its own input in both kernels. Missing inputs hold imputations.
    """
    scan = random_scan(q.blocks(~missing), uniform((x.shape[0], q.S), x, generator), M)
    active = scan.active.to(x.dtype)
    log_q = torch.where(scan.active, q.log_prob(x, scan.j), 0.0)
    return -(weight * log_q.sum(1) / active.sum(1).clamp(min=1.0)).sum()


@torch.no_grad()
def update_imputations(
    log_p: LogDensity,
    q: Conditionals,
    x: Tensor,
    missing: Tensor,
    G: int,
    generator: torch.Generator,
    *,
    accept: str,
    scan: str,
    inside: Tensor | None = None,
) -> Sweep:
    """G updates of each row's missing blocks (Algorithm 5), with or without a Metropolis correction.

    inside  [2, D] box: updates that leave it are rejected (Algorithm 6, line 7)
    """
    R, D = x.shape
    order = random_scan(q.blocks(missing), uniform((R, q.S), x, generator), G)
    noise = normal((R, order.j.shape[1], q.noise_width), x, generator)
    log_uniform = uniform((R, order.j.shape[1]), x, generator).log()
    tried, accepted = x.new_zeros(D), x.new_zeros(D)
    if accept == "metropolis" and scan == "path" and inside is None:
        moved = metropolis_path(log_p, q, x, missing, order, noise, log_uniform[:, 0])
        flat, active = order.j.reshape(-1), order.active.to(x.dtype)
        tried.scatter_add_(0, flat, active.reshape(-1))
        accepted.scatter_add_(0, flat, (active * moved.accepted[:, None]).reshape(-1))
        return Sweep(moved.x, tried, accepted)
    log_p_x = log_p(x, missing) if accept == "metropolis" else x.new_zeros(R)
    for g in range(order.j.shape[1]):
        j, active = order.j[:, g], order.active[:, g]
        if accept == "metropolis":
            moved = metropolis_step(log_p, q, (x, log_p_x), missing, j, active, noise[:, g], log_uniform[:, g], inside)
            x, log_p_x, kept = moved
        else:
            new = gibbs_step(q, x, j, active, noise[:, g])
            kept = active
            if inside is not None:
                kept = kept & stays_inside(new, x, inside)
            x = torch.where(kept[:, None], new, x)
        tried.scatter_add_(0, j, active.to(x.dtype))
        accepted.scatter_add_(0, j, kept.to(x.dtype))
    return Sweep(x, tried, accepted)


def uniform(shape: tuple[int, ...], like: Tensor, generator: torch.Generator) -> Tensor:
    """Uniform on (0, 1) in the precision and on the device of `like`, never 0."""
    u = torch.rand(shape, generator=generator, dtype=like.dtype, device=like.device)
    return u.clamp_(min=torch.finfo(like.dtype).tiny)


def normal(shape: tuple[int, ...], like: Tensor, generator: torch.Generator) -> Tensor:
    """Standard normal noise in the precision and on the device of `like`."""
    return torch.randn(shape, generator=generator, dtype=like.dtype, device=like.device)
