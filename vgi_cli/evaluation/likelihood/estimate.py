"""Observed-data log-likelihood: log p(x_obs) of each row, in closed form where the model has one, by importance
sampling of the latents where it has those (`importance.py`), else annealed.

The annealed estimate of p(x_obs) is unbiased, so its logarithm is low on average, in every row: more rows do not cure
that. Hence effective sample sizes, the value at half the budget, and a bracket on rows simulated from the model, where
an exact draw of p(x_mis | x_obs) is known and gives an upper value too (Grosse, Ghahramani and Adams 2015).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

from vgi_cli.conditionals.base import Conditionals
from vgi_cli.errors import UsageError
from vgi_cli.evaluation.likelihood.annealing import Annealer
from vgi_cli.evaluation.likelihood.importance import EncoderProposal, better_proposal, importance_weighted
from vgi_cli.evaluation.likelihood.loglik import Bracket, LogLik, Progress, effective, log_mean, silent
from vgi_cli.evaluation.likelihood.univariate import MixtureConditionals
from vgi_cli.maths.joint import fit_joint
from vgi_cli.maths.noise import KeyedNoise, mix64
from vgi_cli.models.base import Latent, Marginal, Model
from vgi_cli.samplers.base import frozen

FLAT, UNEVEN = 0.05, 0.7
"""Variance of log weights up to which single draws, and bundles of draws, are enough (see `effort`)."""
LOW_ESS, LOW_SHARE = 0.1, 0.05
"""Warn when more than this share of rows has an effective sample size below LOW_ESS × particles ..."""
HALF_GAP = 0.02
"""... or the value at half the budget lies this many nats a row below the full value, ..."""
BRACKET_GAP = 0.1
"""... or lower and upper value on simulated rows are this many nats a row apart, beyond three standard errors."""


Proposals: TypeAlias = Conditionals | EncoderProposal | Annealer | None
"""What an estimate draws with: single-cell conditionals, an encoder, or what `prepared` made of them."""


class Budget(NamedTuple):
    """What an annealed estimate may spend.

    particles   weighted particles a row: each the end of a path, or the mean weight of `bundle` draws without a path
    pilot       further particles a row that only find out how long its path must be; their weights are not used
    bundle      draws in one particle of a row that needs no path but whose pilot weights vary
    moves       longest path
    per_hole    moves per hole and nat² of the variance of the pilot's log weights
    samples     samples of the model to which the joint mixture is fitted
    simulated   rows simulated from the model for the bracket; 0: no bracket
    bracketed   particles of each of them; None: `particles`
    batch       density evaluations in one call
    latents     draws of the latents a row, for a model that has them
    """

    particles: int = 64
    pilot: int = 16
    bundle: int = 8
    moves: int = 256
    per_hole: float = 2.0
    samples: int = 10_000
    simulated: int = 100
    bracketed: int | None = None
    batch: int = 16_384
    latents: int = 3000


def observed_log_prob(
    model: Model,
    proposals: Proposals,
    x: Tensor,
    missing: Tensor,
    *,
    budget: Budget | None = None,
    seed: int = 0,
    rows: Tensor | None = None,
    progress: Progress = silent,
) -> LogLik:
    """log p(x_obs) of rows x [R, D] (encoded; absent cells hold anything finite) with holes missing [R, D].

    Exact for a Marginal model. For a Latent model the importance-weighted bound, with draws of z from `proposals` where
    they are an EncoderProposal, else from the model's own encoder. Otherwise exact on complete rows, and annealed
    importance sampling on the others, with single-cell `proposals`, or those of the fitted mixture without any; where
    rows come in pieces, `prepared` makes of them what all pieces have in common. `rows` [R] int64 keys the randomness
    (default: row numbers), so that the same rows meet the same numbers under two models; `progress` is told how much of
    an estimate is done, and what it raises ends it. Raises UsageError when log p is only a bound and no estimator is
    known for it.
    """
    budget = budget or Budget()
    if len(x) == 0:
        return LogLik(x.new_zeros(0, dtype=torch.float64), "exact")
    rows = mix64(torch.arange(len(x), device=x.device)) if rows is None else rows
    if isinstance(model, Latent):
        proposal = proposals if isinstance(proposals, EncoderProposal) else better_proposal(model, x, missing, seed)
        with frozen(model):
            noise = KeyedNoise(seed, _numbered(x), rows, torch.arange(budget.latents), "iwae")
            return importance_weighted(model, proposal, x, missing, noise, budget.batch, progress)
    if not model.exact:
        raise UsageError(
            "log p(observed cells) needs an exact log density, this model has a lower bound only",
            "evaluate this model by its own estimator",
        )
    assert not isinstance(proposals, EncoderProposal)
    with frozen(model, proposals.q if isinstance(proposals, Annealer) else proposals):
        if isinstance(model, Marginal):
            parts = [model.marginal_log_prob(a, m) for a, m in zip(x.split(4096), missing.split(4096), strict=True)]
            return LogLik(torch.cat(parts).double(), "exact")
        return _black_box(model, proposals, x, missing, budget, seed, rows, progress)


def _numbered(x: Tensor) -> tuple[str, ...]:
    """Names of the columns of x, for the randomness."""
    return tuple(str(c) for c in range(x.shape[1]))


def _black_box(
    model: Model,
    proposals: Conditionals | Annealer | None,
    x: Tensor,
    missing: Tensor,
    budget: Budget,
    seed: int,
    rows: Tensor,
    progress: Progress,
) -> LogLik:
    device = x.device
    holes = missing.sum(1)
    values = torch.zeros(len(x), dtype=torch.float64, device=device)
    complete = (holes == 0).nonzero()[:, 0]
    for index in complete.split(budget.batch):
        values[index] = model.log_prob(x[index]).double()
    todo = ((holes > 0) & (holes < x.shape[1])).nonzero()[:, 0]
    if len(todo) == 0:
        return LogLik(values, "exact")
    generator = torch.Generator(device).manual_seed(seed)
    annealer = proposals
    if not isinstance(annealer, Annealer):
        annealer = make_annealer(model, annealer, x, budget, generator)
    noise = KeyedNoise(seed, _numbered(x), rows[todo], torch.arange(budget.particles), "loglik")
    weights, _ = _estimate(annealer, x[todo], missing[todo], noise, budget, progress)
    P = budget.particles
    ess, half = torch.full_like(values, P), values.clone()
    values[todo] = log_mean(weights)
    half[todo] = 0.5 * (log_mean(weights[: P // 2]) + log_mean(weights[P // 2 : 2 * (P // 2)]))
    ess[todo] = effective(weights)
    bracket = None
    if budget.simulated > 0:
        bracket = _bracket(
            lambda n: model.sample(n, generator).to(x), annealer, missing[todo], rows[todo], budget, seed, silent
        )
    warning = distrust(ess[todo] / P, (values - half)[todo], bracket)
    return LogLik(values, "annealed", ess, half, bracket, P, warning)


def prepared(
    model: Model, proposals: Conditionals | EncoderProposal | None, like: Tensor, budget: Budget, seed: int
) -> Annealer | None:
    """What the estimates of all rows have in common; None where nothing is annealed."""
    if isinstance(model, Latent | Marginal) or isinstance(proposals, EncoderProposal) or not model.exact:
        return None
    with frozen(model, proposals if isinstance(proposals, torch.nn.Module) else None):
        return make_annealer(model, proposals, like, budget, torch.Generator(like.device).manual_seed(seed))


def simulated_bracket(
    model: Model,
    annealer: Annealer,
    like: Tensor,
    missing: Tensor,
    rows: Tensor,
    budget: Budget,
    seed: int,
    progress: Progress = silent,
) -> Bracket | None:
    """Lower and upper value on rows simulated from the model, with holes as in incomplete rows missing [R, D], keyed by
    rows [R]; None where no row has both a hole and an observed cell."""
    holes = missing.sum(1)
    todo = ((holes > 0) & (holes < missing.shape[1])).nonzero()[:, 0]
    if len(todo) == 0 or budget.simulated == 0:
        return None
    generator = torch.Generator(like.device).manual_seed(seed + 1)
    with frozen(model):
        return _bracket(
            lambda n: model.sample(n, generator).to(like), annealer, missing[todo], rows[todo], budget, seed, progress
        )


def make_annealer(
    model: Model, conditionals: Conditionals | None, like: Tensor, budget: Budget, generator: torch.Generator
) -> Annealer:
    """An Annealer for a model, its mixture fitted to the model's samples, in the precision of `like`."""
    samples = torch.cat([model.sample(min(4096, budget.samples), generator) for _ in range(-(-budget.samples // 4096))])
    samples = samples[torch.isfinite(samples).all(1)]
    cut = len(samples) * 4 // 5
    own = torch.Generator().manual_seed(0)
    mixture = fit_joint(samples[:cut], samples[cut:], own, model.level_counts).to(like)
    return Annealer(model.log_prob, mixture, MixtureConditionals(mixture) if conditionals is None else conditionals)


def _estimate(
    annealer: Annealer, x: Tensor, missing: Tensor, noise: KeyedNoise, budget: Budget, progress: Progress
) -> tuple[Tensor, Tensor]:
    """Log weights [P, R] and the effort of each row [R, 2]; every row has a hole and an observed cell."""
    P, R = len(noise.draws), len(x)
    efforts = torch.zeros(R, 2, dtype=torch.int64, device=x.device)
    pilot = replace(noise.at("pilot"), draws=torch.arange(budget.pilot))
    for index in torch.arange(R, device=x.device).split(max(1, budget.batch // budget.pilot)):
        progress(0.0)
        g = annealer.conditional(x[index], missing[index])
        weights = annealer.forward(g, pilot.select(rows=index), 1)
        efforts[index] = effort(weights, missing[index].sum(1), budget)
    weights = torch.zeros(P, R, dtype=torch.float64, device=x.device)
    whole, done = int(efforts.prod(1).sum()), 0
    for T, B, index in _groups(efforts, P, budget):
        progress(done / whole)
        done += T * B * len(index)
        g = annealer.conditional(x[index], missing[index])
        draws = replace(noise.select(rows=index), draws=torch.arange(P * B))
        weights[:, index] = log_mean(annealer.forward(g, draws, T).view(B, P, -1))
    return weights, efforts


def effort(log_weights: Tensor, holes: Tensor, budget: Budget) -> Tensor:
    """(T, B) [R, 2] of each row from a pilot's log weights [P0, R]: path length and draws in a particle.

    With v their variance: (1, 1) where v <= FLAT; (1, bundle) where v <= UNEVEN, which is cheaper than a path; else
    (T, 1), T the power of two from 8 to `moves` that is at least per_hole · holes · v.
    """
    v = log_weights.clamp(min=-1e6).var(0)
    length = 2.0 ** (budget.per_hole * holes * v).clamp(min=8, max=budget.moves).log2().ceil()
    T = torch.where(v <= UNEVEN, 1.0, length)
    B = torch.where((v > FLAT) & (v <= UNEVEN), budget.bundle, 1)
    return torch.stack([T.long(), B.long()], 1)


def _groups(efforts: Tensor, P: int, budget: Budget) -> Iterator[tuple[int, int, Tensor]]:
    """Rows of equal effort: (T, B, index)."""
    for T, B in efforts.unique(dim=0).tolist():
        same = (efforts == torch.tensor([T, B], device=efforts.device)).all(1)
        for index in same.nonzero()[:, 0].split(max(1, budget.batch // (P * B))):
            yield T, B, index


def _bracket(
    draw: Callable[[int], Tensor],
    annealer: Annealer,
    missing: Tensor,
    rows: Tensor,
    budget: Budget,
    seed: int,
    progress: Progress,
) -> Bracket:
    """The bracket on rows that `draw` simulates from the model, with the holes of some of these rows [R, D].

    Lower: the estimator itself. Upper: the same with one of its particles replaced by the reverse path from the
    hidden cells, an exact draw of p(x_mis | x_obs): E log of that mean is at least log p(x_obs)."""
    pick = (torch.arange(budget.simulated, device=missing.device) * len(missing) // budget.simulated).unique()
    x, missing = draw(len(pick)), missing[pick]
    draws = torch.arange(budget.bracketed or budget.particles)
    columns = tuple(str(c) for c in range(x.shape[1]))
    noise = KeyedNoise(seed, columns, rows[pick], draws, "loglik/simulated")
    weights, efforts = _estimate(annealer, x, missing, noise, budget, lambda done: progress(0.9 * done))
    back = torch.zeros(len(x), dtype=torch.float64, device=x.device)
    again = noise.at("reverse")
    for T, B, index in _groups(efforts, len(noise.draws), budget):
        progress(0.9)
        g = annealer.conditional(x[index], missing[index])
        path = annealer.reverse(g, x[index], replace(again, draws=torch.arange(1)).select(rows=index), T)
        others = annealer.forward(g, replace(again, draws=torch.arange(B - 1)).select(rows=index), 1)
        back[index] = log_mean(torch.cat([path[None], others]))
    lower = log_mean(weights)
    upper = log_mean(torch.cat([back[None], weights[1:]]))
    gap = upper - lower
    se = float(gap.std() / math.sqrt(len(gap))) if len(gap) > 1 else math.inf
    return Bracket(float(lower.mean()), float(upper.mean()), se, len(x))


def distrust(ess: Tensor, gap: Tensor, bracket: Bracket | None) -> str | None:
    """The stated rule of when an annealed estimate is not to be trusted; `ess` [R] as shares of the particles, `gap`
    [R] between the values and those at half the budget."""
    reasons = []
    low = float((ess < LOW_ESS).double().mean())
    if low > LOW_SHARE:
        reasons.append(
            f"{low:.0%} of the incomplete rows have an effective sample size below {LOW_ESS:.0%} of the particles"
        )
    half = float(gap.mean())
    if not half <= HALF_GAP:
        reasons.append(f"the value at half the budget is {half:.3f} nats a row lower")
    if bracket is not None:
        width = bracket.upper - bracket.lower
        if not width - 3 * bracket.gap_se <= BRACKET_GAP:
            reasons.append(f"lower and upper value on simulated rows are {width:.3f} nats a row apart")
    if not reasons:
        return None
    return "this log-likelihood is an estimate that is likely too low, do not rely on it: " + "; ".join(reasons)
