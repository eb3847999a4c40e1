"""Observed-data log-likelihood: log p(x_obs) of each row, in closed form where the model has one, by importance
sampling of the latents where it has those (`importance.py`), else annealed.

The annealed estimate of p(x_obs) is unbiased, so its logarithm is low on average, in every row: more rows do not cure
that. Hence effective sample sizes, the value at half the budget, and a bracket on rows simulated from the model, where
an exact draw of p(x_mis | x_obs) is known and gives an upper value too (Grosse, Ghahramani and Adams 2015).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias, cast

import torch
from torch import Tensor

from vgi_cli.conditionals.base import Conditionals
from vgi_cli.data import Rounding
from vgi_cli.errors import UsageError
from vgi_cli.evaluation.likelihood.annealing import Annealer
from vgi_cli.evaluation.likelihood.importance import EncoderProposal, better_proposal, importance_weighted
from vgi_cli.evaluation.likelihood.ladder import Budget, Effort, climb
from vgi_cli.evaluation.likelihood.loglik import (
    Bracket,
    LogLik,
    Progress,
    Work,
    effective,
    half_of_draws,
    log_mean,
    silent,
    variance_of_log_mean,
    with_draws,
)
from vgi_cli.evaluation.likelihood.univariate import MixtureConditionals
from vgi_cli.maths.joint import fit_joint
from vgi_cli.maths.noise import KeyedNoise, mix64
from vgi_cli.models.base import Latent, Marginal, Model
from vgi_cli.models.gaussian.family import GaussianFamily
from vgi_cli.models.gaussian.rounded import log_cells
from vgi_cli.samplers.base import frozen

MIN_PARTICLES = 16
"""Least number of particles for one of several dequantisation draws."""
LOW_ESS, LOW_SHARE = 0.1, 0.05
"""Warn when more than this share of rows has an effective sample size below LOW_ESS × particles ..."""
HALF_GAP = 0.02
"""... or the value at half the budget lies this many nats a row below the full value, ..."""
BRACKET_GAP = 0.1
"""... or lower and upper value on simulated rows are this many nats a row apart, beyond three standard errors."""


class PlacesOfCells(NamedTuple):
    """Of a mixture of Gaussians: rounded cells count by their probability, their places drawn one after the other."""

    rounding: Rounding


def places_of(model: Model, rounding: Rounding | None) -> PlacesOfCells | None:
    """How the rounded cells of a table count under a model; None: as they are spread, or there are none."""
    if rounding is None or not isinstance(model, GaussianFamily):
        return None
    return PlacesOfCells(rounding)


Proposals: TypeAlias = Conditionals | EncoderProposal | Annealer | PlacesOfCells | None
"""What an estimate draws with: single-cell conditionals, an encoder, or what `prepared` made of them."""


class Cells(NamedTuple):
    """Rows whose observed cells are known in S dequantisation draws (one where nothing is rounded).

    x           [S, R, D] encoded; absent cells hold anything finite
    log_volume  [S, R] what turns log densities into those of the data, nats
    missing     [R, D] holes
    keys        [R] int64 key the randomness
    """

    x: Tensor
    log_volume: Tensor
    missing: Tensor
    keys: Tensor

    @classmethod
    def plain(cls, x: Tensor, missing: Tensor, keys: Tensor) -> Cells:
        """Of rows x [R, D] as they are."""
        return cls(x[None], torch.zeros(1, len(x), dtype=torch.float64, device=x.device), missing, keys)

    @property
    def S(self) -> int:
        """Number of dequantisation draws."""
        return len(self.x)

    def at(self, index: Tensor) -> Cells:
        """Some of the rows."""
        return Cells(self.x[:, index], self.log_volume[:, index], self.missing[index], self.keys[index])

    def noise(self, seed: int, purpose: str, particles: int) -> KeyedNoise:
        """Randomness for the particles of each draw of each row: S · R rows."""
        keys = mix64(self.keys) + torch.arange(self.S, device=self.keys.device)[:, None]
        return KeyedNoise(seed, _numbered(self.x[0]), mix64(keys).flatten(), torch.arange(particles), purpose)


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

    Exact for a Marginal model, with PlacesOfCells but for the probabilities of rounded cells, which one draw of their
    places estimates. For a Latent model the importance-weighted bound, with draws of z from `proposals` where
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
            return importance_weighted(model, proposal, x, missing, noise, budget.on(x).batch, progress)
    if not isinstance(model, Marginal):
        return annealed(model, proposals, Cells.plain(x, missing, rows), budget, seed, progress)
    if isinstance(proposals, PlacesOfCells):
        noise = KeyedNoise(seed, _numbered(x), rows, torch.tensor([0], device=x.device), "rounded cells")
        with frozen(model):
            return LogLik(log_cells(cast(GaussianFamily, model), x, missing, proposals.rounding, noise), "exact")
    with frozen(model):
        parts = [model.marginal_log_prob(a, m) for a, m in zip(x.split(4096), missing.split(4096), strict=True)]
        return LogLik(torch.cat(parts).double(), "exact")


def _numbered(x: Tensor) -> tuple[str, ...]:
    """Names of the columns of x, for the randomness."""
    return tuple(str(c) for c in range(x.shape[1]))


def is_annealed(model: Model) -> bool:
    """Whether rows with holes are estimated by annealing."""
    return not isinstance(model, Latent | Marginal)


def annealed(
    model: Model, proposals: Proposals, cells: Cells, budget: Budget, seed: int, progress: Progress = silent
) -> LogLik:
    """log p(x_obs) of rows in S dequantisation draws: the log mean over these. Exact where nothing is missing, annealed
    importance sampling elsewhere, with as much work as the pilots of a row ask for (`ladder`); with several draws the
    particles are shared out among them (`shared_out`): it is the average over both that is unbiased.

    Raises UsageError when log p is only a bound.
    """
    if not model.exact:
        raise UsageError(
            "log p(observed cells) needs an exact log density, this model has a lower bound only",
            "evaluate this model by its own estimator",
        )
    assert not isinstance(proposals, EncoderProposal | PlacesOfCells)
    S, R, D = cells.x.shape
    budget = budget.on(cells.x)
    holes = cells.missing.sum(1)
    values = torch.zeros(S, R, dtype=torch.float64, device=cells.x.device)
    with frozen(model, proposals.q if isinstance(proposals, Annealer) else proposals):
        for index in (holes == 0).nonzero()[:, 0].split(max(1, budget.batch // S)):
            values[:, index] = model.log_prob(cells.x[:, index].flatten(0, 1)).double().view(S, -1)
        values += cells.log_volume
        todo = ((holes > 0) & (holes < D)).nonzero()[:, 0]
        if len(todo) == 0:
            exact = LogLik(log_mean(values), "exact")
            if S == 1:
                return exact
            return exact._replace(half_budget=half_of_draws(values), variance=variance_of_log_mean(values))
        generator = torch.Generator(cells.x.device).manual_seed(seed)
        annealer = proposals
        if not isinstance(annealer, Annealer):
            annealer = make_annealer(model, annealer, cells.x[0], budget, generator)
        shared = shared_out(budget, S)
        weights, effort = _estimate(annealer, cells.at(todo), "loglik", shared, seed, progress)
        bracket = None
        if budget.simulated > 0:
            some, whole = cells.at(todo), pooled(budget, S)
            bracket = _bracket(lambda n: model.sample(n, generator).to(cells.x), annealer, some, whole, seed, silent)
    P = shared.particles
    values[:, todo] = log_mean(weights)
    mean = log_mean(values)
    ess = torch.full_like(mean, P * S)
    ess[todo] = effective(weights.flatten(0, 1))
    variance = None
    if S > 1:  # the particles of a draw share its places: only the draws are independent
        half, variance = half_of_draws(values), variance_of_log_mean(values)
    else:
        half = mean.clone()
        half[todo] = torch.stack([log_mean(part[:, 0]) for part in weights[: P // 2 * 2].chunk(2)]).mean(0)
    work = Work(torch.full_like(holes, S), torch.zeros_like(holes, dtype=torch.bool))
    work.evaluations[todo], work.limited[todo] = P * S * effort.cost, effort.limited
    return judged(LogLik(mean, "annealed", ess, half, bracket, P * S, None, work, variance), cells.missing, S)


def judged(found: LogLik, missing: Tensor, draws: int) -> LogLik:
    """An annealed estimate of rows with holes missing [R, D], from so many dequantisation draws, with the warning that
    it deserves."""
    assert found.ess is not None and found.half_budget is not None
    holes = missing.sum(1)
    rows = (holes > 0) & (holes < missing.shape[1])
    warning = distrust(found.ess[rows] / found.particles, (found.values - found.half_budget)[rows], found.bracket)
    return found._replace(warning=with_draws(warning, draws))


def shared_out(budget: Budget, draws: int) -> Budget:
    """What each of several dequantisation draws may spend; the pilots are shared out by the ladder."""
    if draws == 1:
        return budget
    return budget._replace(
        particles=max(MIN_PARTICLES, budget.particles // draws),
        latents=max(MIN_PARTICLES, -(-budget.latents // draws)),
    )


def pooled(budget: Budget, draws: int) -> Budget:
    """What several dequantisation draws spend together, for a row that is known in one."""
    return budget._replace(particles=draws * shared_out(budget, draws).particles)


def prepared(
    model: Model,
    proposals: Conditionals | EncoderProposal | None,
    like: Tensor,
    budget: Budget,
    seed: int,
    capture: Callable[[Any], Any] | None = None,
) -> Annealer | None:
    """What the estimates of all rows have in common; None where nothing is annealed. `capture`: see Annealer."""
    if not is_annealed(model) or isinstance(proposals, EncoderProposal) or not model.exact:
        return None
    with frozen(model, proposals):
        generator = torch.Generator(like.device).manual_seed(seed)
        return make_annealer(model, proposals, like, budget, generator, capture)


def simulated_bracket(
    model: Model, annealer: Annealer, cells: Cells, budget: Budget, seed: int, progress: Progress = silent
) -> Bracket | None:
    """Lower and upper value on rows simulated from the model, with the holes and keys of incomplete ones among these
    rows; None where no row has both a hole and an observed cell."""
    holes = cells.missing.sum(1)
    todo = ((holes > 0) & (holes < cells.missing.shape[1])).nonzero()[:, 0]
    if len(todo) == 0 or budget.simulated == 0:
        return None
    generator = torch.Generator(cells.x.device).manual_seed(seed + 1)
    some, whole = cells.at(todo), pooled(budget.on(cells.x), cells.S)
    with frozen(model):
        return _bracket(lambda n: model.sample(n, generator).to(cells.x), annealer, some, whole, seed, progress)


def make_annealer(
    model: Model,
    conditionals: Conditionals | None,
    like: Tensor,
    budget: Budget,
    generator: torch.Generator,
    capture: Callable[[Any], Any] | None = None,
) -> Annealer:
    """An Annealer for a model, its mixture fitted to the model's samples, in the precision of `like`."""
    samples = torch.cat([model.sample(min(4096, budget.samples), generator) for _ in range(-(-budget.samples // 4096))])
    samples = samples[torch.isfinite(samples).all(1)]
    cut = len(samples) * 4 // 5
    own = torch.Generator().manual_seed(0)
    mixture = fit_joint(samples[:cut], samples[cut:], own, model.level_counts).to(like)
    q = MixtureConditionals(mixture) if conditionals is None else conditionals
    return Annealer(model.log_prob, mixture, q, capture)


def _estimate(
    annealer: Annealer, cells: Cells, purpose: str, budget: Budget, seed: int, progress: Progress
) -> tuple[Tensor, Effort]:
    """Log weights [P, S, R], log volumes included, and the effort of each row; every row has a hole and an observed
    cell. `budget`: of each draw, but for the pilots."""
    S, R = cells.x.shape[:2]
    P = budget.particles
    noise = cells.noise(seed, purpose, P)
    pilots = noise.at("pilot")
    every = torch.arange(S * R, device=cells.x.device).view(S, R)

    def weights(index: Tensor, noise: KeyedNoise, T: int, n: int) -> Tensor:
        some = cells.at(index)
        g = annealer.conditional(some.x.flatten(0, 1), some.missing.repeat(S, 1))
        draws = replace(noise.select(rows=every[:, index].flatten()), draws=torch.arange(n))
        return annealer.forward(g, draws, T).view(n, S, -1) + some.log_volume

    def pilot(index: Tensor, T: int, n: int) -> Tensor:
        progress(0.0)
        return weights(index, pilots.at(T), T, n)

    effort = climb(pilot, cells.missing, S, budget)
    out = torch.zeros(P, S, R, dtype=torch.float64, device=cells.x.device)
    whole, done = int(effort.cost.sum()), 0
    for T, B, same in effort.groups():
        for index in same.split(max(1, budget.batch // (P * B * S))):
            progress(done / whole)
            done += T * B * len(index)
            out[:, :, index] = log_mean(weights(index, noise, T, P * B).view(B, P, S, -1))
    return out, effort


def _bracket(
    draw: Callable[[int], Tensor], annealer: Annealer, cells: Cells, budget: Budget, seed: int, progress: Progress
) -> Bracket:
    """The bracket on rows that `draw` simulates from the model, with the holes and keys of some of these rows.

    Lower: the estimator itself. Upper: the same with one of its particles replaced by the reverse path from the
    hidden cells, an exact draw of p(x_mis | x_obs): E log of that mean is at least log p(x_obs)."""
    device, R = cells.x.device, len(cells.missing)
    pick = (torch.arange(budget.simulated, device=device) * R // budget.simulated).unique()
    some = Cells.plain(draw(len(pick)), cells.missing[pick], cells.keys[pick])
    x = some.x[0]
    weights, effort = _estimate(annealer, some, "loglik/simulated", budget, seed, lambda done: progress(0.9 * done))
    back = torch.zeros(len(x), dtype=torch.float64, device=device)
    again = some.noise(seed, "loglik/simulated/reverse", 1)
    for T, B, same in effort.groups():
        for index in same.split(max(1, budget.batch // B)):
            progress(0.9)
            g = annealer.conditional(x[index], some.missing[index])
            paths = [annealer.reverse(g, x[index], again.select(rows=index), T)[None]]
            if B > 1:
                others = replace(again.at("others"), draws=torch.arange(B - 1))
                paths.append(annealer.forward(g, others.select(rows=index), T))
            back[index] = log_mean(torch.cat(paths))
    lower = log_mean(weights[:, 0])
    upper = log_mean(torch.cat([back[None], weights[1:, 0]]))
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
