"""The VGI objective on one batch (paper, Algorithm 3).

All randomness is drawn first (`draw_noise`) and handed in, so that what follows is a fixed function of tensors, which
can be captured or compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

from vgi_cli.chains.moves import normal, order_noise, scan_of, uniform
from vgi_cli.chains.scans import Scan
from vgi_cli.conditionals.base import Conditionals
from vgi_cli.errors import UsageError
from vgi_cli.maths.laws import Law, Quadrature
from vgi_cli.notation import LogDensity


class Estimate(NamedTuple):
    """What one estimate of the objective redraws of a row: M times, B columns together (1: one block)."""

    M: int
    B: int = 1


class DrawNoise(NamedTuple):
    """Randomness of an estimate for n rows: uniform `order` chooses what is redrawn, normal [n, M, (B), fresh_width]
    draws it; latents [R, L] standard normal, for models whose latents are drawn too, else empty."""

    order: Tensor
    normal: Tensor
    latents: Tensor


def draw_noise(q: Conditionals, n: int, estimate: Estimate, like: Tensor, generator: torch.Generator) -> DrawNoise:
    """Randomness of one estimate of the objective."""
    M, B = estimate
    nothing = like.new_empty(0)
    if B > 1:
        normals = normal((n, M, B, q.fresh_width), like, generator)
        return DrawNoise(uniform((n, q.S), like, generator), normals, nothing)
    M = min(M, q.S)
    order = order_noise(q, n, M, B, like, generator)
    return DrawNoise(order, normal((n, M, q.fresh_width), like, generator), nothing)


def vgi_objective(
    log_p: LogDensity,
    q: Conditionals,
    x: Tensor,
    missing: Tensor,
    weight: Tensor,
    K: int,
    noise: DrawNoise,
    estimate: Estimate,
) -> Tensor:
    """Weighted sum of the estimates of J_VGI (Algorithm 3, eq. 9): scalar, nats.

    x, missing [R, D]; weight [R]. The mean over M missing blocks of log p(x with the block redrawn) - log q; a fully
    observed row contributes log p(x), once. The first n rows, those that `noise` is for, have holes, K chains next to
    each other. Blocks are drawn without replacement, so a row with fewer than M holes averages over all of them. A
    discrete law is not drawn from but summed over: over all values, where these are at most EXACT_UP_TO levels, else
    over the most probable ones and one draw of the others (`CategoricalLaw.chosen`).
    """
    n = len(noise.normal)
    if n == 0:
        return (weight * log_p(x, missing)).sum()
    if estimate.B > 1:
        return _together(log_p, q, x, missing, weight, noise, estimate)
    scan = scan_of(q, missing[:n], K, noise.order, *estimate)
    law = q.law(x[:n], missing[:n], scan.j)
    points = law.quadrature(noise.normal)
    if points is not None:
        terms, log_p_rest = _quadrature_terms(log_p, q, x, missing, scan, points)
    else:
        value, log_q = _drawn(law, noise.normal)
        rows = q.put(x[:n, None], scan.j, value)  # [n, M, D]
        masks = missing[:n, None].expand(rows.shape).flatten(0, -2)
        log_p_rows = log_p(joined(rows.flatten(0, -2), x[n:]), joined(masks, missing[n:]))
        terms, log_p_rest = log_p_rows[: len(masks)].view(log_q.shape) - log_q, log_p_rows[len(masks) :]
    terms = torch.where(scan.active, terms, 0.0)
    share = weight[:n] / scan.active.sum(1)
    return (share * terms.sum(1)).sum() + (weight[n:] * log_p_rest).sum()


def _quadrature_terms(
    log_p: LogDensity, q: Conditionals, x: Tensor, missing: Tensor, scan: Scan, points: Quadrature
) -> tuple[Tensor, Tensor]:
    """Terms [n, M] of the blocks of a scan, whose laws are known at points, and log p of the complete rows x[n:].

    A continuous law takes one evaluation of the density and a discrete one as many as it has levels. On a CPU only
    those that are used are made; on a GPU, where a step has fixed shapes, as many for each row.
    """
    n, shape = len(scan.j), points.weight.shape  # [P, n, M]
    evaluated = _used_only if x.device.type == "cpu" else _every_point
    rows, masks, spread = evaluated(q, x[:n], missing[:n], scan, points)
    log_p_rows = log_p(joined(rows, x[n:]), joined(masks, missing[n:]))
    return points.mean(spread(log_p_rows[: len(rows)]).view(shape)), log_p_rows[len(rows) :]


Evaluated: TypeAlias = tuple[Tensor, Tensor, Callable[[Tensor], Tensor]]
"""Rows [Q, D] at which a density is wanted, their masks, and what spreads its values [Q] over all P n M points."""


def _every_point(q: Conditionals, x: Tensor, missing: Tensor, scan: Scan, points: Quadrature) -> Evaluated:
    shape = points.weight.shape
    rows = q.put(x[:, None], scan.j.expand(shape), points.value).flatten(0, -2)
    return rows, missing[:, None].expand(*shape, -1).flatten(0, -2), lambda values: values


def _used_only(q: Conditionals, x: Tensor, missing: Tensor, scan: Scan, points: Quadrature) -> Evaluated:
    shape = points.weight.shape
    used = (points.used & scan.active).flatten().nonzero()[:, 0]
    row = used // shape[2] % len(x)
    rows = q.put(x[row], scan.j.expand(shape).flatten()[used], points.value.flatten(0, 2)[used])
    return rows, missing[row], lambda values: values.new_zeros(shape.numel()).index_copy(0, used, values)


def _together(
    log_p: LogDensity,
    q: Conditionals,
    x: Tensor,
    missing: Tensor,
    weight: Tensor,
    noise: DrawNoise,
    estimate: Estimate,
) -> Tensor:
    """The same with M blocks of B columns that are redrawn together: log p(x with the block redrawn) - sum_j log q_j.

    One density serves B conditionals, where eq. 9 takes one each: in many columns that is what phi is learnt from. The
    q_j that it is best for know of the block's other columns only what the rest of the row says (a mean field within
    the block, paper section 3.4): close to p's own conditionals while B is small beside the number of columns.
    """
    n, M = noise.normal.shape[:2]
    scan = scan_of(q, missing[:n], 1, noise.order, *estimate)
    rows, scores = [], []
    for m in range(M):
        j, active = scan.j[:, m], scan.active[:, m]
        law = q.law(x[:n], missing[:n], j)
        if law.quadrature(noise.normal[:, m]) is not None:
            raise UsageError("method.block_columns: discrete conditionals are redrawn one at a time", "leave it out")
        value, log_q = _drawn(law, noise.normal[:, m])
        rows.append(x[:n].scatter(1, j, torch.where(active, value, x[:n].gather(1, j))))
        scores.append(torch.where(active, log_q, 0.0).sum(1))
    masks = missing[:n].repeat(M, 1)
    log_p_rows = log_p(joined(torch.cat(rows), x[n:]), joined(masks, missing[n:]))
    used = scan.active.any(2)  # a row with few holes has fewer blocks
    terms = torch.where(used, log_p_rows[: n * M].view(M, n).t() - torch.stack(scores, 1), 0.0)
    return (weight[:n] / used.sum(1) * terms.sum(1)).sum() + (weight[n:] * log_p_rows[n * M :]).sum()


def _drawn(law: Law, noise: Tensor) -> tuple[Tensor, Tensor]:
    """Draws and log q of them, or minus the entropy where it has a closed form: the same mean without noise (paper,
    section 4.3)."""
    entropy = law.entropy()
    return law.draw_scored(noise) if entropy is None else (law.draw(noise), -entropy)


def joined(first: Tensor, second: Tensor) -> Tensor:
    """Both, one below the other; no copy where the second is empty."""
    return torch.cat([first, second]) if len(second) else first
