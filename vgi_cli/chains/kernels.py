"""Markov kernels on the missing cells, as pure functions: all randomness is passed in.

`gibbs_step` is the paper's pseudo-Gibbs update (Algorithm 5): every draw of q_j is kept, and the chain targets
whatever q defines. `metropolis_step` and `metropolis_path` use q_j as proposal on an unnormalised log density and
leave p(x_mis | x_obs) invariant, whatever q is.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from vgi_cli.notation import LogDensity


class ProposalLike(Protocol):
    """x' [R, D] and the log densities [R] of going there and back."""

    @property
    def x(self) -> Tensor: ...
    @property
    def log_forward(self) -> Tensor: ...
    @property
    def log_reverse(self) -> Tensor: ...


class Proposer(Protocol):
    """What a kernel needs of the conditionals (see conditionals/base.py)."""

    noise_width: int

    def blocks(self, missing: Tensor) -> Tensor: ...
    def propose(self, x: Tensor, j: Tensor, noise: Tensor) -> ProposalLike: ...
    def redraw(self, x: Tensor, j: Tensor, noise: Tensor) -> Tensor: ...


class Scan(NamedTuple):
    """Which block each of R rows redraws at each of G steps.

    j       [R, G] block indices
    active  [R, G] False where the row has fewer than g + 1 holes: the step does nothing
    """

    j: Tensor
    active: Tensor


class Moved(NamedTuple):
    """State after a step: x [R, D], its log density [R], and which rows accepted [R]."""

    x: Tensor
    log_p: Tensor
    accepted: Tensor


def random_scan(allowed: Tensor, uniform: Tensor, G: int) -> Scan:
    """Blocks in random order without replacement, cut at the row's number of holes.

    allowed [R, S] blocks that may be redrawn; uniform [R, S] on (0, 1). The law is symmetric under reversal and does
    not look at cell values, which the path kernel needs.
    """
    top = torch.where(allowed, uniform, -1.0).topk(min(G, allowed.shape[1]), 1)
    return Scan(top.indices, top.values >= 0)


def stays_inside(new: Tensor, x: Tensor, box: Tensor) -> Tensor:
    """[R] whether all that a step from x to new [R, D] changed lies in the box [2, D]: what lay outside before, a start
    without a better value, must not keep the other cells from moving."""
    return ((new >= box[0]) & (new <= box[1]) | (new == x)).all(1)


def gibbs_step(q: Proposer, x: Tensor, j: Tensor, active: Tensor, noise: Tensor) -> Tensor:
    """[R, D] after redrawing block j [R] from q where active [R]; noise [R, noise_width] standard normal."""
    return torch.where(active[:, None], q.redraw(x, j, noise), x)


def metropolis_step(
    log_p: LogDensity,
    q: Proposer,
    state: tuple[Tensor, Tensor],
    missing: Tensor,
    j: Tensor,
    active: Tensor,
    noise: Tensor,
    log_uniform: Tensor,
    inside: Tensor | None = None,
) -> Moved:
    """One Metropolis-within-Gibbs step: accept with min(1, p(x')/p(x) · q_j(x_j | x')/q_j(x'_j | x)).

    state        x [R, D] and log p(x) [R] at the same theta
    inside       optional box (low, high) stacked [2, D]: proposals outside are rejected (see `stays_inside`)
    log_uniform  [R] log of uniform (0, 1)
    """
    x, log_p_x = state
    proposal = q.propose(x, j, noise)
    log_p_new = log_p(proposal.x, missing)
    ratio = log_p_new - log_p_x + proposal.log_reverse - proposal.log_forward
    accepted = active & (log_uniform < ratio)  # False where the ratio is NaN
    if inside is not None:
        accepted = accepted & stays_inside(proposal.x, x, inside)
    return Moved(torch.where(accepted[:, None], proposal.x, x), torch.where(accepted, log_p_new, log_p_x), accepted)


def metropolis_path(
    log_p: LogDensity,
    q: Proposer,
    x: Tensor,
    missing: Tensor,
    scan: Scan,
    noise: Tensor,
    log_uniform: Tensor,
) -> Moved:
    """G proposals accepted or rejected together, with one density evaluation of 2R rows.

    Ratio: p(x^G)/p(x^0) · prod_g q_{j_g}(x^{g-1}_{j_g} | x^g) / q_{j_g}(x^g_{j_g} | x^{g-1}). noise
    [R, G, noise_width]; log_uniform [R].
    """
    new, log_ratio = x, x.new_zeros(x.shape[0])
    for g in range(scan.j.shape[1]):
        active = scan.active[:, g]
        proposal = q.propose(new, scan.j[:, g], noise[:, g])
        log_ratio = log_ratio + torch.where(active, proposal.log_reverse - proposal.log_forward, 0.0)
        new = torch.where(active[:, None], proposal.x, new)
    both = log_p(torch.cat([x, new]), torch.cat([missing, missing]))
    log_p_x, log_p_new = both.chunk(2)
    accepted = log_uniform < log_p_new - log_p_x + log_ratio
    return Moved(torch.where(accepted[:, None], new, x), torch.where(accepted, log_p_new, log_p_x), accepted)
