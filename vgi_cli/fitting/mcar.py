"""Little's test on a table of numbers: its moments by EM, and what the result is worth."""

from __future__ import annotations

import math
from typing import NamedTuple, cast

import torch
from torch import Tensor

from vgi_cli.layout import Layout
from vgi_cli.maths.gaussian import patterns_of
from vgi_cli.maths.mcar import LittleTest, little_test
from vgi_cli.maths.mechanisms import mean_ranks
from vgi_cli.methods.em.steps import settle
from vgi_cli.models.gaussian.family import em_table
from vgi_cli.models.gaussian.full import FullGaussians
from vgi_cli.models.gaussian.gaussians import Penalty
from vgi_cli.models.gaussian.mixture import GaussianMixture, MixtureConfig

STEPS, TOLERANCE = 300, 1e-6
"""EM steps at most; nats in all that the last steps may gain."""
WORK = 2.5e7
"""Multiplications of an EM step beyond which the test is not made: one or two seconds for all steps."""
LEAST = 2.0
"""With fewer rows a pattern, on average, the test is not made: a mean of one row cannot differ much from the mean that
this row itself helped to find."""
FEW = 5
"""A pattern with fewer rows has a mean that is far from normal, unless the rows are."""
SKEWED = 2.0
"""Skewness (third standardised moment) from which on a column is taken by the normal scores of its ranks: a few far
values make the means of patterns differ by more than the chi-squared law of normal rows knows of."""
UNPENALISED = Penalty(floor=0.0, pooling=0.0, common=0.0, mean=0.0, weight=0.0)


class Little(NamedTuple):
    """The test, or why there is none.

    test     None: it was not made
    why_not  in words; None where it was made
    scarce   number of patterns with fewer than FEW rows
    settled  whether the moments have converged
    """

    test: LittleTest | None
    why_not: str | None = None
    scarce: int = 0
    settled: bool = True


class Straight(NamedTuple):
    """Columns of numbers x [N, D], NaN where missing, and the places of those that are taken by normal scores."""

    x: Tensor
    scored: list[int]


def straightened(x: Tensor) -> Straight:
    """Columns of numbers [N, D], NaN where missing, with those far from normal replaced by the normal scores of their
    ranks (van der Waerden), equal values at their mean rank. Cells that are missing completely at random are so in
    whatever their column is measured."""
    delta = x - x.nanmean(0)
    sd = delta.square().nanmean(0).sqrt()
    skewness = (delta / sd).pow(3).nanmean(0)
    scored = [j for j, own in enumerate(skewness.tolist()) if abs(own) > SKEWED]
    if not scored:
        return Straight(x, [])
    out = x.clone()
    for j in scored:
        seen = ~x[:, j].isnan()
        out[seen, j] = torch.special.ndtri((mean_ranks(x[seen, j]) - 0.5) / int(seen.sum()))
    return Straight(out, scored)


def little(x: Tensor, missing: Tensor) -> Little:
    """Little's test on columns of numbers [N, D] in any units, with holes missing [N, D]; NaN where missing or not.

    The moments are those of maximum likelihood under one Gaussian, without a penalty.
    """
    x = torch.where(missing, torch.nan, x.to(torch.float64))
    used = ~missing.all(1)
    x, missing = x[used], missing[used]
    patterns = patterns_of(missing)
    U, D = len(patterns.missing), x.shape[1]
    rows = torch.bincount(patterns.of_row, minlength=U)
    scarce = int((rows < FEW).sum())
    if U < 2:
        return Little(None, "all rows have the same pattern of holes", scarce)
    if int((~patterns.missing).sum()) <= D:
        return Little(None, "no column is observed in two patterns of holes: there are no means to compare", scarce)
    if len(x) <= D:
        return Little(None, f"{len(x)} rows are too few for {D} columns", scarce)
    if len(x) < LEAST * U:
        return Little(None, f"{len(x):,} rows have {U:,} patterns: nearly every row has one of its own", scarce)
    if U * float(D) ** 3 > WORK:
        return Little(None, f"the moments of {U:,} patterns of {D} columns would take too long", scarce)
    fewest = int((~missing).sum(0).min())
    if fewest <= D:
        return Little(None, f"a column has {fewest} values, too few for the moments of {D} columns", scarce)
    sd = torch.tensor([float(column[~column.isnan()].std(correction=0)) for column in x.T], dtype=torch.float64)
    x = (x - x.nanmean(0)) / sd  # the statistic does not depend on units; the arithmetic likes those that are alike
    x = torch.where(missing, 0.0, x)
    model = GaussianMixture.build(MixtureConfig(components=1, covariance="full", outliers=False), Layout.plain(D))
    model = model.double()
    try:
        settled = settle(model, em_table(x, missing), UNPENALISED, steps=STEPS, tolerance=TOLERANCE)
        gaussian = cast(FullGaussians, model.gaussians)
        found = little_test(x, missing, gaussian.means()[0].detach(), gaussian.covariance()[0].detach())
    except torch.linalg.LinAlgError:
        return Little(None, "some columns determine others in the rows that there are", scarce)
    if not math.isfinite(found.statistic):
        return Little(None, "the likelihood of the moments has no maximum in the rows that there are", scarce)
    return Little(found, None, scarce, settled)
