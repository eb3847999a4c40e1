"""Markov kernels on the missing cells, as pure functions: all randomness is passed in.

`metropolis_step` uses q_j as proposal on an unnormalised log density and leaves p(x_mis | x_obs) invariant, whatever q
is. Training's sweeps are in `sweeps.py`.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from vgi_cli.notation import LogDensity

FEW_BLOCKS = 16
"""Up to this number of blocks, finding a hole by its rank is quicker by comparing with all of them."""


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
    def propose(self, x: Tensor, missing: Tensor, j: Tensor, noise: Tensor) -> ProposalLike: ...
    def redraw(self, x: Tensor, missing: Tensor, j: Tensor, noise: Tensor) -> Tensor: ...


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


def metropolis_step(
    log_p: LogDensity,
    q: Proposer,
    state: tuple[Tensor, Tensor],
    missing: Tensor,
    j: Tensor,
    active: Tensor,
    noise: Tensor,
    log_uniform: Tensor,
) -> Moved:
    """One Metropolis-within-Gibbs step: accept with min(1, p(x')/p(x) · q_j(x_j | x')/q_j(x'_j | x)).

    state        x [R, D] and log p(x) [R] at the same theta
    log_uniform  [R] log of uniform (0, 1)
    """
    x, log_p_x = state
    proposal = q.propose(x, missing, j, noise)
    log_p_new = log_p(proposal.x, missing)
    ratio = log_p_new - log_p_x + proposal.log_reverse - proposal.log_forward
    accepted = active & (log_uniform < ratio)  # False where the ratio is NaN
    return Moved(torch.where(accepted[:, None], proposal.x, x), torch.where(accepted, log_p_new, log_p_x), accepted)
