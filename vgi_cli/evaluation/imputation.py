"""How good are imputations? Draws of hidden cells against their true values, in data units."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

COVERAGE_DRAWS = 19
"""[min, max] of 19 draws covers 18/20 = 90 % when truth and draws are exchangeable."""
DIRECTIONS = 100


class ColumnScores(NamedTuple):
    """One column, data units, over its hidden cells with a known truth.

    cells       their number
    crps        fair ensemble CRPS (the absolute error for one draw)
    rmse, mae   of the mean of the draws
    coverage90  share of truths within [min, max] of 19 draws, ties by `coverage`; None with fewer
    sd          standard deviation that the overall scores divide by
    """

    cells: int
    crps: float
    rmse: float
    mae: float
    coverage90: float | None
    sd: float


class ImputationScores(NamedTuple):
    """Means over columns of the column scores, each divided by the column's standard deviation (coverage: as it is).

    sliced_wasserstein compares whole completed rows with true rows, columns divided by their standard deviations; None
    where fewer than two rows are known completely.
    """

    columns: dict[str, ColumnScores]
    crps: float
    rmse: float
    mae: float
    coverage90: float | None
    sliced_wasserstein: float | None


def fair_crps(draws: Tensor, truth: Tensor) -> Tensor:
    """Fair CRPS of an ensemble (Ferro 2014), unbiased for the CRPS of the distribution drawn from.

    draws [n, ..], truth [..] -> [..]: mean |x_i - y| - sum_{i<j} |x_i - x_j| / (n (n - 1)); |x - y| for n = 1.
    """
    n = draws.shape[0]
    error = (draws - truth).abs().mean(0)
    if n == 1:
        return error
    rank = 2.0 * torch.arange(n, dtype=draws.dtype, device=draws.device) + 1 - n
    pairs: Tensor = torch.tensordot(
        rank, draws.sort(0).values, 1
    )  # sum over pairs of |x_i - x_j|, from order statistics
    return error - pairs / (n * (n - 1))


def coverage(draws: Tensor, truth: Tensor) -> float | None:
    """Share of truths [C] between the least and the greatest of the first 19 of draws [n, C]; None for fewer draws.

    A truth that equals the least of the draws, with a draws equal to it, counts a / (a + 1), and alike at the top: the
    chance that breaking ties at random does not make it the outermost of the 20. So a calibrated method covers 90 % of
    the cells of a column of integers as well; ties that count as covered would show more.
    """
    if draws.shape[0] < COVERAGE_DRAWS:
        return None
    used = draws[:COVERAGE_DRAWS]
    low, high = used.amin(0), used.amax(0)
    outermost = 1 / (1 + (used == truth).sum(0).double())
    covered = ((low <= truth) & (truth <= high)).double()
    return float((covered - outermost * (truth == low) - outermost * (truth == high)).mean())


def sliced_wasserstein(first: Tensor, second: Tensor, generator: torch.Generator) -> float:
    """Mean over random directions of the 1-Wasserstein distance between projections of two samples [n, D] each."""
    directions = torch.randn(first.shape[1], DIRECTIONS, generator=generator, dtype=first.dtype)
    directions = (directions / directions.norm(dim=0)).to(first.device)
    return float(((first @ directions).sort(0).values - (second @ directions).sort(0).values).abs().mean())


def score_imputations(
    draws: Tensor, truth: Tensor, hidden: Tensor, columns: Sequence[str], sd: Tensor
) -> ImputationScores | None:
    """Scores of draws [n, R, D] of the cells hidden [R, D] against truth [R, D] (NaN where unknown); data units.

    sd [D] standard deviation of each column (a column with 0 is not divided). None when no hidden cell has a truth.
    Raises ValueError when a draw of a hidden cell is not finite.
    """
    draws, truth, sd = draws.double(), truth.double(), sd.double()
    sd = torch.where(sd > 0, sd, 1.0)
    known = hidden & torch.isfinite(truth)
    if not bool(known.any()):
        return None
    if not bool(torch.isfinite(draws[:, known]).all()):
        raise ValueError("a draw of a hidden cell is not finite")
    scores = {
        name: _column(draws[:, known[:, c], c], truth[known[:, c], c], float(sd[c]))
        for c, name in enumerate(columns)
        if bool(known[:, c].any())
    }
    covered = [s.coverage90 for s in scores.values() if s.coverage90 is not None]
    rows = torch.isfinite(truth).all(1) & torch.isfinite(draws).all(2).all(0)
    distance = None
    if int(rows.sum()) > 1:
        generator = torch.Generator().manual_seed(0)
        pairs = [sliced_wasserstein(d[rows] / sd, truth[rows] / sd, generator) for d in draws]
        distance = _mean(pairs)
    return ImputationScores(
        scores,
        _mean([s.crps / s.sd for s in scores.values()]),
        _mean([s.rmse / s.sd for s in scores.values()]),
        _mean([s.mae / s.sd for s in scores.values()]),
        _mean(covered) if covered else None,
        distance,
    )


def _column(draws: Tensor, truth: Tensor, sd: float) -> ColumnScores:
    error = draws.mean(0) - truth
    return ColumnScores(
        len(truth),
        float(fair_crps(draws, truth).mean()),
        math.sqrt(float(error.square().mean())),
        float(error.abs().mean()),
        coverage(draws, truth),
        sd,
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
