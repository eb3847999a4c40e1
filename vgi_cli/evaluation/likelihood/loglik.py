"""What an estimate of log p(x_obs) is made of, whichever way it was made."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, NamedTuple, TypeAlias

import torch
from torch import Tensor

Progress: TypeAlias = Callable[[float], None]
"""Told the share of the work that is done."""


def silent(done: float) -> None:
    """Where nobody watches."""


class Bracket(NamedTuple):
    """Mean lower and upper value of log p(x_obs) over simulated rows, and the standard error of their difference."""

    lower: float
    upper: float
    gap_se: float
    rows: int


class Work(NamedTuple):
    """What an annealed estimate spent on each of R rows.

    evaluations  [R] evaluations of the density in the estimate itself (its pilots come on top)
    limited      [R] rows that were given all that the limit allows, while their pilots asked for more
    """

    evaluations: Tensor
    limited: Tensor


class LogLik(NamedTuple):
    """log p(x_obs) of R rows, nats, encoded space.

    values       [R] float64; 0 for a fully missing row
    estimator    `exact`; `annealed` when at least one row was estimated so; `iwae` for a model with latents
    ess          [R] effective sample size out of `particles`, which it is where nothing was estimated; None when exact
    half_budget  [R] the mean of the two values that half of the particles (of several dequantisation draws: half of
                 these) each give; None when exact and not of several draws
    bracket      lower and upper value on rows simulated from the model under the table's masks; None without
    particles    per row (`iwae`: draws of the latents); 0 when exact
    warning      why the values are not to be trusted; None when nothing speaks against them
    work         of `annealed`; None otherwise
    variance     [R] squared standard error of the values, from how much several dequantisation draws differ; None of a
                 single one: then `ess` says what the particles add
    """

    values: Tensor
    estimator: Literal["exact", "annealed", "iwae"]
    ess: Tensor | None = None
    half_budget: Tensor | None = None
    bracket: Bracket | None = None
    particles: int = 0
    warning: str | None = None
    work: Work | None = None
    variance: Tensor | None = None


def variance_of_log_mean(values: Tensor) -> Tensor:
    """Squared standard error of `log_mean` of independent log weights [S, R], S at least 2: [R]. By the jackknife
    (Tukey 1958), since the squared relative error of the mean of S weights, which it is of even ones, says a third of
    it where their logarithms have a standard deviation of 2. Infinite where fewer than two weights are more than 0."""
    S = len(values)
    every = torch.arange(S, device=values.device)
    without = torch.stack([log_mean(values[every != one]) for one in range(S)])
    spread = (without - without.mean(0)).square().sum(0) * (S - 1) / S
    return spread.nan_to_num(nan=torch.inf)


def log_mean(log_weights: Tensor) -> Tensor:
    """Logarithm of the mean over the first dimension of weights."""
    return log_weights.logsumexp(0) - math.log(len(log_weights))


def effective(log_weights: Tensor) -> Tensor:
    """Effective sample size (sum w)² / sum w² of log weights [P, R]: [R]; 0 where every weight is 0."""
    return (2 * log_weights.logsumexp(0) - (2 * log_weights).logsumexp(0)).exp().nan_to_num(nan=0.0)


def half_of_draws(values: Tensor) -> Tensor:
    """Mean of the two values that half of S dequantisation draws each give: [S, R] -> [R]."""
    return torch.stack([log_mean(part) for part in values.chunk(2)]).mean(0)


def with_draws(warning: str | None, draws: int) -> str | None:
    """A warning about an estimate from so many dequantisation draws."""
    if warning is None or draws == 1:
        return warning
    return f"{warning} (with {draws} dequantisation draws of the rounded columns)"
