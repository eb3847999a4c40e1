"""G updates of the missing blocks of each row, in one sweep: what training does with its chains (Algorithm 5).

The rows are changed in place, one block at a time, and the conditionals keep what they have computed of them. All
randomness is passed in. Without a correction the chain targets whatever q defines (the paper's pseudo-Gibbs); with one
it leaves p(x_mis | x_obs) invariant, whatever q is.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from vgi_cli.chains.kernels import Scan
from vgi_cli.conditionals.base import Conditionals
from vgi_cli.notation import LogDensity


class SweepNoise(NamedTuple):
    """Randomness of a sweep.

    order        [R, G] uniform: which blocks (`holes_scan`); [R, S] where they are chosen by `random_scan`
    normal       [R, G, width] standard normal, as wide as proposals or fresh draws need
    log_uniform  [R, G] log of a uniform: acceptance
    latents      [R, G, L] standard normal: for latents that are drawn with each proposal; empty where there are none
    """

    order: Tensor
    normal: Tensor
    log_uniform: Tensor
    latents: Tensor = torch.empty(0)


class Swept(NamedTuple):
    """After G steps: rows x [R, D]; which steps were kept [R, G]."""

    x: Tensor
    accepted: Tensor


def gibbs_sweep(
    q: Conditionals, x: Tensor, missing: Tensor, scan: Scan, noise: SweepNoise, box: Tensor | None = None
) -> Swept:
    """Every draw of q_j is kept (unless it leaves the box [2, D]): the paper's rule."""
    rows = q.see(x.clone(), missing)
    kept = []
    for g in range(scan.j.shape[1]):
        j, active = scan.j[:, g], scan.active[:, g]
        value = q.fresh(q.params(rows, j[:, None])[:, 0], noise.normal[:, g])
        kept.append(active if box is None else active & q.inside(rows, j, value, box))
        q.set_(rows, j, _where(kept[-1], value, q.at(rows, j)))
    return Swept(rows.x, torch.stack(kept, 1))


def metropolis_sweep(
    log_p: LogDensity,
    q: Conditionals,
    x: Tensor,
    missing: Tensor,
    scan: Scan,
    noise: SweepNoise,
    box: Tensor | None = None,
) -> Swept:
    """Each draw is kept with probability min(1, p(x')/p(x) · q_j(x_j | x')/q_j(x'_j | x)): G + 1 densities."""
    rows = q.see(x.clone(), missing)
    log_p_x = log_p(rows.x, missing)
    kept = []
    for g in range(scan.j.shape[1]):
        j, index = scan.j[:, g], scan.j[:, g, None]
        old = q.at(rows, j)
        params = q.params(rows, index)[:, 0]
        value, forward = q.proposed(params, noise.normal[:, g])
        q.set_(rows, j, value)
        log_p_new = log_p(rows.x, missing)
        reverse = q.log_proposal(q.params(rows, index)[:, 0] if q.extended else params, old)
        accepted = scan.active[:, g] & (noise.log_uniform[:, g] < log_p_new - log_p_x + reverse - forward)
        if box is not None:
            accepted = accepted & q.inside(rows, j, value, box)
        kept.append(accepted)  # False where the ratio is NaN
        log_p_x = torch.where(accepted, log_p_new, log_p_x)
        q.set_(rows, j, _where(accepted, value, old))
    return Swept(rows.x, torch.stack(kept, 1))


def metropolis_path(
    log_p: LogDensity, q: Conditionals, x: Tensor, missing: Tensor, scan: Scan, noise: SweepNoise
) -> Swept:
    """G draws kept or rejected together, with one evaluation of 2R densities.

    Ratio: p(x^G)/p(x^0) · prod_g q_{j_g}(x^{g-1}_{j_g} | x^g) / q_{j_g}(x^g_{j_g} | x^{g-1}). The blocks must be chosen
    without a look at the values, by a law that is symmetric under reversal.
    """
    G = scan.j.shape[1]
    rows = q.see(x.clone(), missing)
    log_ratio = x.new_zeros(x.shape[0])
    params = q.params(rows, scan.j[:, :1])[:, 0]
    for g in range(G):
        j, active = scan.j[:, g], scan.active[:, g]
        old = q.at(rows, j)
        value, forward = q.proposed(params, noise.normal[:, g])
        q.set_(rows, j, _where(active, value, old))
        if q.extended:  # the way back and the next step look at the same rows
            both = q.params(rows, scan.j[:, g : g + 2])
            back, params = both[:, 0], both[:, -1]
        else:  # own values are hidden: the way back has the parameters of the way there
            back, params = params, q.params(rows, scan.j[:, g + 1 : g + 2])[:, 0] if g + 1 < G else params
        log_ratio = log_ratio + torch.where(active, q.log_proposal(back, old) - forward, 0.0)
    log_p_x, log_p_new = log_p(torch.cat([x, rows.x]), torch.cat([missing, missing])).chunk(2)
    accepted = noise.log_uniform[:, 0] < log_p_new - log_p_x + log_ratio  # False where it is NaN
    return Swept(torch.where(accepted[:, None], rows.x, x), scan.active & accepted[:, None])


def _where(condition: Tensor, value: Tensor, old: Tensor) -> Tensor:
    """Row by row: condition [R], value and old [R] or [R, W]."""
    return torch.where(condition if value.ndim == 1 else condition[:, None], value, old)
