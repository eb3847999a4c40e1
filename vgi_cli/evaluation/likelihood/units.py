"""Log densities in the units of the data, summed up over rows.

The models see encoded rows. The density of the observed cells in data units is the encoded one times the volume
|det d encoded / d data| over the *observed* cells. A rounded column enters through its dequantised density: the
average, over dequantisation draws, of density × resolution; the logarithm of that average is biased low, so the number
of draws is part of the report.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from vgi_cli.evaluation.likelihood import importance
from vgi_cli.evaluation.likelihood.estimate import (
    Cells,
    Proposals,
    annealed,
    is_annealed,
    judged,
    observed_log_prob,
    shared_out,
)
from vgi_cli.evaluation.likelihood.ladder import Budget
from vgi_cli.evaluation.likelihood.loglik import (
    Bracket,
    LogLik,
    Progress,
    Work,
    half_of_draws,
    log_mean,
    silent,
    variance_of_log_mean,
    with_draws,
)
from vgi_cli.maths.noise import mix64
from vgi_cli.models.base import Model


class Encoded(NamedTuple):
    """One dequantisation draw of the rows.

    x           [R, D] encoded rows
    log_volume  [R] log|det d encoded / d data| over the observed cells of each row (and log resolution of rounded ones)
    """

    x: Tensor
    log_volume: Tensor


def data_log_prob(
    model: Model,
    proposals: Proposals,
    draws: Sequence[Encoded],
    missing: Tensor,
    *,
    budget: Budget | None = None,
    seed: int = 0,
    progress: Progress = silent,
    rows: Tensor | None = None,
) -> LogLik:
    """log p(observed cells), nats, data units: the log mean over dequantisation draws of the density in data units.

    `proposals`, `rows`: as in `observed_log_prob` (with PlacesOfCells `log_volume` is that of the other cells). With
    several draws the particles (or draws of the latents) are shared out among them (at least MIN_PARTICLES each): the
    average over both is what is unbiased.
    """
    budget = budget or Budget()
    volumes = torch.stack([draw.log_volume.double() for draw in draws])
    if is_annealed(model):
        keys = mix64(torch.arange(len(missing), device=missing.device)) if rows is None else rows
        cells = Cells(torch.stack([draw.x for draw in draws]), volumes, missing, keys)
        return annealed(model, proposals, cells, budget, seed, progress)
    budget = shared_out(budget, len(draws))
    parts = [
        observed_log_prob(
            model,
            proposals,
            draw.x,
            missing,
            budget=budget,
            seed=seed + i,
            rows=rows,
            progress=_share(progress, i, len(draws)),
        )
        for i, draw in enumerate(draws)
    ]
    return _pooled(parts, volumes, missing)


def joined(parts: Sequence[LogLik], missing: Tensor, draws: int, bracket: Bracket | None) -> LogLik:
    """One estimate of those of pieces of the rows, judged as a whole; missing [R, D] of all rows, `draws`: of
    dequantisation."""
    values = torch.cat([part.values for part in parts])
    whole = next((part for part in parts if part.ess is not None), parts[0])._replace(values=values, bracket=bracket)
    halves = [part.half_budget for part in parts]
    half = torch.cat([own if own is not None else part.values for own, part in zip(halves, parts, strict=True)])
    variances = [part.variance for part in parts if part.variance is not None]
    whole = whole._replace(variance=torch.cat(variances) if len(variances) == len(parts) else None)
    if whole.ess is None:
        return whole._replace(half_budget=None if all(own is None for own in halves) else half)
    sizes = [len(part.values) for part in parts]
    full = torch.full_like(values, whole.particles)
    ess = [own if part.ess is None else part.ess for part, own in zip(parts, full.split(sizes), strict=True)]
    whole = whole._replace(ess=torch.cat(ess), half_budget=half)
    if whole.work is not None:
        none = Work(full.long().fill_(draws), torch.zeros_like(values, dtype=torch.bool))
        split = (Work(*both) for both in zip(none.evaluations.split(sizes), none.limited.split(sizes), strict=True))
        works = [own if part.work is None else part.work for part, own in zip(parts, split, strict=True)]
        whole = whole._replace(work=Work(*(torch.cat(field) for field in zip(*works, strict=True))))
    return _judged(whole, missing, draws)


def _judged(whole: LogLik, missing: Tensor, draws: int) -> LogLik:
    """The same with the warning that it deserves."""
    if whole.estimator != "iwae":
        return judged(whole, missing, draws)
    assert whole.ess is not None and whole.half_budget is not None
    seen = ~missing.all(1)
    warning = importance.distrust(whole.ess[seen], (whole.values - whole.half_budget)[seen], whole.particles)
    return whole._replace(warning=with_draws(warning, draws))


def _share(progress: Progress, number: int, count: int) -> Progress:
    """That of one of several equal parts."""
    return lambda done: progress((number + done) / count)


def _pooled(parts: Sequence[LogLik], volumes: Tensor, missing: Tensor) -> LogLik:
    """One estimate of those of each dequantisation draw; `volumes` [draws, R]. Judged as a whole, not draw by draw."""
    values = torch.stack([part.values for part in parts]) + volumes
    first = parts[0]
    whole = first._replace(values=log_mean(values), particles=first.particles * len(parts))
    if len(parts) == 1:
        return whole if first.half_budget is None else whole._replace(half_budget=first.half_budget + volumes[0])
    whole = whole._replace(variance=variance_of_log_mean(values))
    if first.ess is None or first.half_budget is None:
        return whole
    # With mean weight m and n effective of P weights, their squares sum up to (m P)² / n.
    squares = 2 * values - torch.stack([part.ess for part in parts if part.ess is not None]).log()
    squares = squares.masked_fill(values == -torch.inf, -torch.inf)
    pooled = (2 * values.logsumexp(0) - squares.logsumexp(0)).exp().nan_to_num(nan=0.0)
    return _judged(whole._replace(ess=pooled, half_budget=half_of_draws(values)), missing, len(parts))


class Summary(NamedTuple):
    """Over rows with at least one observed cell.

    rows          their number
    mean, se      nats a row, data units; se is None for one row, which does not tell it
    standardised  the same mean for columns divided by their standard deviation: comparable between tables
    per_cell      mean nats per observed cell, data units
    """

    rows: int
    mean: float
    se: float | None
    standardised: float
    per_cell: float


def summarise(log_prob: Tensor, missing: Tensor, log_scale: Tensor, weight: Tensor | None = None) -> Summary | None:
    """Summary of log p(observed cells) [R] in data units; None where no row (that counts) has an observed cell.

    log_scale [D] or [R, D]: log standard deviation of each column, data units (less the log resolution of a rounded
    one, whose terms are probabilities). Dividing a column by its standard deviation multiplies the density by that.

    weight [R]: what rows count in the means, whose standard error is then that of a ratio of sums; None: alike.
    """
    seen = ~missing
    keep = seen.any(1) if weight is None else seen.any(1) & (weight > 0)
    if not bool(keep.any()):
        return None
    values = log_prob[keep].double()
    shift = (seen.double() * log_scale.double())[keep].sum(1)
    n = len(values)
    if weight is not None:
        own = weight[keep].double()
        own = own / own.sum()
        mean = float((own * values).sum())
        spread = (own * (values - mean)).square().sum() * n / max(n - 1, 1)
        observed = float((own * seen[keep].sum(1)).sum())
        error = float(spread.sqrt()) if n > 1 else None
        return Summary(n, mean, error, float((own * (values + shift)).sum()), mean / observed)
    se = float(values.std() / math.sqrt(n)) if n > 1 else None
    cells = int(seen[keep].sum())
    return Summary(n, float(values.mean()), se, float((values + shift).mean()), float(values.sum()) / cells)
