"""Projected latent Markov chain Monte Carlo (PL-MCMC; Cannella, Soltani and Tarokh 2021) on the missing cells of rows
under a flow, an invertible map x -> u to a standard normal: as pure functions, all randomness is passed in.

A chain moves in the base space, where the flow's density is round. Every u is a whole row y of the data space, whose
missing cells are the imputation and whose observed cells are auxiliary: they are held near the row's own by a normal of
standard deviation s. With x' the row y projected onto the observed cells (y where missing, x where observed), the
chain's target is

    pi(u) = p(x') · N(y_obs; x_obs, s² I) · |det dy/du|.

As a density of y this is p(x_mis, x_obs) N(y_obs; x_obs, s² I): the imputation has the law p(x_mis | x_obs) exactly,
whatever s is, and is independent of the auxiliary cells. What s decides is how fast the chain moves: a small one makes
nearly all of the base space forbidden.

The proposal is a mixture: with probability r a fresh u' ~ N(0, a² I), else a step u' ~ N(u, b² I). Its density is
evaluated as the mixture that it is, there and back.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from vgi_cli.chains.moves import normal

HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


class Map(Protocol):
    """What the kernel needs of a flow (see Bijective in models/base.py)."""

    def to_base(self, x: Tensor) -> tuple[Tensor, Tensor]: ...
    def from_base(self, u: Tensor) -> Tensor: ...


class IncompleteRows(NamedTuple):
    """What stays as it is: x [R, D], of which the observed cells count; missing [R, D]; the range [2, D] that
    imputations may not leave; None: they may be anything."""

    x: Tensor
    missing: Tensor
    box: Tensor | None = None


class Kernel(NamedTuple):
    """The proposal and the target's auxiliary law.

    resample      r, probability of a fresh u'
    resample_std  a
    perturb_std   b; [R]: one for each chain
    auxiliary     s, standard deviation of the auxiliary cells around the observed ones
    """

    resample: float
    resample_std: float
    perturb_std: float | Tensor
    auxiliary: float


class ProjectedNoise(NamedTuple):
    """Randomness of one step: normal [R, D], choice [R] uniform, log_uniform [R] the log of a uniform."""

    normal: Tensor
    choice: Tensor
    log_uniform: Tensor


class Latents(NamedTuple):
    """States of R chains: u [R, D], the row y [R, D] of the data space, log pi(u) [R] up to a constant."""

    u: Tensor
    y: Tensor
    log_target: Tensor


def at_base(flow: Map, rows: IncompleteRows, kernel: Kernel, u: Tensor) -> Latents:
    """The states at u [R, D]. Where a density is no number, or an imputation outside the range, pi is 0.

    Costs one inverse of the flow, and one pass over 2R rows.
    """
    R = len(u)
    y = flow.from_base(u)
    both, log_det = flow.to_base(torch.cat([projected(rows, y), y]))
    log_p = normal_log_prob(both[:R], 1.0) + log_det[:R]
    distance = torch.where(rows.missing, 0.0, (y - rows.x) / kernel.auxiliary).square().sum(1)
    log_target = (log_p - 0.5 * distance - log_det[R:]).nan_to_num(nan=-torch.inf, posinf=-torch.inf)
    if rows.box is not None:
        inside = (((y >= rows.box[0]) & (y <= rows.box[1])) | ~rows.missing).all(1)
        log_target = torch.where(inside, log_target, -torch.inf)
    return Latents(u, y, log_target)


def step(
    flow: Map, rows: IncompleteRows, kernel: Kernel, state: Latents, noise: ProjectedNoise
) -> tuple[Latents, Tensor]:
    """One Metropolis-Hastings step of every chain: the states, and which chains accepted [R]. A chain whose pi is 0
    takes the first proposal where it is not."""
    fresh = (noise.choice < kernel.resample)[:, None]
    u = torch.where(fresh, kernel.resample_std * noise.normal, state.u + _column(kernel.perturb_std) * noise.normal)
    new = at_base(flow, rows, kernel, u)
    back, there = log_proposal(kernel, u, state.u), log_proposal(kernel, state.u, u)
    accepted = noise.log_uniform < new.log_target - state.log_target + back - there  # False where it is NaN
    u, y = (torch.where(accepted[:, None], a, b) for a, b in zip(new[:2], state[:2], strict=True))
    return Latents(u, y, torch.where(accepted, new.log_target, state.log_target)), accepted


def log_proposal(kernel: Kernel, start: Tensor, end: Tensor) -> Tensor:
    """log density [R] of proposing `end` [R, D] from `start`."""
    terms = []
    if kernel.resample > 0:
        terms.append(normal_log_prob(end, kernel.resample_std) + math.log(kernel.resample))
    if kernel.resample < 1:
        terms.append(normal_log_prob(end - start, kernel.perturb_std) + math.log(1 - kernel.resample))
    return torch.stack(terms).logsumexp(0)


def normal_log_prob(value: Tensor, std: float | Tensor) -> Tensor:
    """log N(value; 0, std² I) [R] of value [R, D]; std a number, or [R]."""
    D = value.shape[1]
    log_std = math.log(std) if isinstance(std, float | int) else std.log()
    return -0.5 * (value / _column(std)).square().sum(1) - D * (log_std + HALF_LOG_2PI)


def projected(rows: IncompleteRows, y: Tensor) -> Tensor:
    """[R, D]: y where a cell is missing, the row's own value where it is observed."""
    return torch.where(rows.missing, y, rows.x)


def strain(rows: IncompleteRows, kernel: Kernel, y: Tensor) -> Tensor:
    """[R] mean over a row's observed cells of ((y - x) / s)²: 1 on average once a chain has reached its target, far
    above 1 while it is still on its way to the observed cells. 1 where a row has none."""
    observed = ~rows.missing
    squares = torch.where(observed, (y - rows.x) / kernel.auxiliary, 0.0).square().sum(1)
    count = observed.sum(1)
    return torch.where(count > 0, squares / count.clamp(min=1), 1.0)


def draw_noise(like: Tensor, generator: torch.Generator) -> ProjectedNoise:
    """Randomness of one step for chains `like` [R, D]."""
    normals = normal(like.shape, like, generator)
    uniform = torch.rand(2, len(like), generator=generator, dtype=like.dtype, device=like.device)
    return ProjectedNoise(normals, uniform[0], uniform[1].log())


def _column(value: float | Tensor) -> float | Tensor:
    return value[:, None] if isinstance(value, Tensor) else value
