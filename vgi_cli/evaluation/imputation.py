"""How good are imputations? Draws of hidden cells against their true values, in data units."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from vgi_cli.columns.base import ModelledColumn, Scores
from vgi_cli.columns.datetime import Moment
from vgi_cli.columns.level_scores import log_scores
from vgi_cli.columns.levelled import Levelled
from vgi_cli.columns.number import Number
from vgi_cli.columns.numerals import Floats
from vgi_cli.errors import FitError

COVERAGE_DRAWS = 19
"""[min, max] of 19 draws covers 18/20 = 90 % when truth and draws are exchangeable."""
DIRECTIONS = 100
WORSE, WORSE_BY, FEWEST_COMPARED = 2.0, 0.02, 10
"""Standard errors, and share of the score, by which fills are said to be worse than draws from their column alone; and
the fewest cells of which that is said."""


SCALED = ("crps", "rmse", "mae")
"""Scores in the units of a column."""


class NumberScores(NamedTuple):
    """Scores of one column of numbers, data units, over its hidden cells with a known truth.

    crps        fair ensemble CRPS (the absolute error for one draw)
    rmse, mae   of the mean of the draws
    coverage90  share of truths within [min, max] of 19 draws, ties by `coverage`; None with fewer
    """

    crps: float
    rmse: float
    mae: float
    coverage90: float | None


class ImputationScores(NamedTuple):
    """Scores of each column, and their means over the columns that have them.

    columns  by name of the column: `cells`, their number; the scores of its kind; `sd`, what the overall ones divide by
             (not of levels, which have no unit)
    overall  by name of a score: the mean over columns, those in the units of a column divided by its `sd` (coverage: as
             it is); None where no column has enough draws
    kinds    the same by kind of column, with their numbers of `columns` and `cells`; empty where all hold numbers,
             or dates and times of one kind
    sliced_wasserstein  compares whole completed rows with true rows: numbers, divided by their standard deviations, and
             for each level of the others 1 where it holds, else 0; None where fewer than two rows are known completely
    """

    columns: dict[str, Scores]
    overall: dict[str, float | None]
    kinds: dict[str, Scores]
    sliced_wasserstein: float | None


def fair_crps(draws: Tensor, truth: Tensor) -> Tensor:
    """Fair CRPS of an ensemble (Ferro 2014), unbiased for the CRPS of the distribution drawn from.

    draws [n, ..], truth [..] -> [..]: mean |x_i - y| - sum_{i<j} |x_i - x_j| / (n (n - 1)); |x - y| for n = 1. Never
    below 0, since |x_i - x_j| <= |x_i - y| + |x_j - y|: less comes of rounding alone. 0 where all draws are the truth.
    """
    n = draws.shape[0]
    error = (draws - truth).abs().mean(0)
    if n == 1:
        return error
    rank = 2.0 * torch.arange(n, dtype=draws.dtype, device=draws.device) + 1 - n
    order = draws.sort(0).values
    pairs: Tensor = torch.tensordot(rank, order, 1)  # sum over pairs of |x_i - x_j|, from order statistics
    pairs = torch.where(order[0] == order[-1], 0.0, pairs)  # exactly, where rounding may leave some
    return (error - pairs / (n * (n - 1))).clamp(min=0.0)


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
    draws: Tensor, truth: Tensor, hidden: Tensor, columns: Sequence[ModelledColumn], sd: Tensor
) -> ImputationScores | None:
    """Scores of draws [n, R, columns] of the cells hidden [R, columns] against truth [R, columns] (NaN where unknown),
    all as codes of their columns.

    sd [columns] standard deviation of each column (a column with 0 is not divided). None when no hidden cell has a
    truth. Raises FitError when a draw of a hidden cell is not finite.
    """
    draws, truth, sd = draws.double(), truth.double(), sd.double()
    sd = torch.where(sd > 0, sd, 1.0)
    known = hidden & torch.isfinite(truth)
    if not bool(known.any()):
        return None
    if not bool(torch.isfinite(draws[:, known]).all()):
        message = "a draw of a hidden cell is not finite"
        raise FitError(message, "the parameters of the run are out of range: fit again")
    scores: dict[str, Scores] = {}
    for c, column in enumerate(columns):
        if bool(known[:, c].any()):
            drawn, true = draws[:, known[:, c], c], truth[known[:, c], c]
            own = column.scores(drawn.numpy(), true.numpy(), number_scores)
            unit = {} if isinstance(column, Levelled) else {"sd": float(sd[c])}
            scores[column.name] = {"cells": len(true), **own, **unit}
    kinds: dict[str, Scores] = {}
    of = {column.name: column.kind for column in columns if column.name in scores}
    moments = any(isinstance(column, Moment) for column in columns) and len(set(of.values())) > 1
    if moments or any(isinstance(column, Levelled) for column in columns):
        for kind in dict.fromkeys(of.values()):
            group = [own for name, own in scores.items() if of[name] == kind]
            cells = sum(int(own["cells"] or 0) for own in group)
            kinds[kind] = {"columns": len(group), "cells": cells, **_means(group)}
    rows = torch.isfinite(truth).all(1) & torch.isfinite(draws).all(2).all(0)
    distance = None
    if any(isinstance(column, Number | Moment | Levelled) for column in columns) and int(rows.sum()) > 1:
        generator = torch.Generator().manual_seed(0)
        spread = (_spread(x[rows], columns, sd) for x in (truth, *draws))
        true = next(spread)
        distance = _mean([sliced_wasserstein(x, true, generator) for x in spread])
    return ImputationScores(scores, _means(list(scores.values())), kinds, distance)


def draws_alone(codes: Sequence[Tensor], cells: Tensor, generator: torch.Generator) -> Tensor:
    """[19, R, columns] draws for the hidden cells [R, columns] from the observed cells of their columns alone (codes
    [N] of each, NaN where missing), NaN elsewhere and where nothing is observed: what no other column was asked for."""
    draws = torch.full((COVERAGE_DRAWS, *cells.shape), torch.nan, dtype=torch.float64)
    for c, own in enumerate(codes):
        observed, where = own[~own.isnan()], cells[:, c]
        if len(observed):
            picked = torch.randint(len(observed), (COVERAGE_DRAWS, int(where.sum())), generator=generator)
            draws[:, where, c] = observed[picked].double()
    return draws


def worse_than_alone(
    draws: Tensor, alone: Tensor, truth: Tensor, hidden: Tensor, columns: Sequence[ModelledColumn]
) -> list[str]:
    """The columns whose draws score worse than draws from the column alone: by WORSE standard errors of the mean
    difference of their cells, and by the share WORSE_BY, of so many cells at least as are FEWEST_COMPARED.

    draws, alone [n, R, columns] (alone: NaN where nothing is known), truth [R, columns] (NaN where unknown), hidden
    [R, columns], all as for `score_imputations`. The scores are the CRPS of numbers, and the log score of levels.
    """
    known = hidden & torch.isfinite(truth) & ~alone[0].isnan()
    names = []
    for c, column in enumerate(columns):
        cells = known[:, c]
        count = int(cells.sum())
        if count < FEWEST_COMPARED:
            continue
        own, other = (_by_cell(column, x[:, cells, c].double(), truth[cells, c].double()) for x in (draws, alone))
        more = own - other
        least = max(WORSE * float(more.std()) / math.sqrt(count), WORSE_BY * float(other.mean()))
        if float(more.mean()) > least:
            names.append(column.name)
    return names


def _by_cell(column: ModelledColumn, draws: Tensor, truth: Tensor) -> Tensor:
    """[cells] the score of draws [n, cells] of each true cell [cells] of a column; less is better."""
    if isinstance(column, Levelled):
        return torch.from_numpy(log_scores(draws.numpy(), truth.numpy(), len(column.texts)))
    return fair_crps(draws, truth)


def beside(own: Mapping[str, Any], alone: Mapping[str, Any]) -> dict[str, Any]:
    """Scores, and as `marginal` the same scores of draws from the columns alone; those that nobody has are left out."""
    counts = ("cells", "columns", "sd")
    marginal = {key: value for key, value in alone.items() if value is not None and key not in counts}
    return {**{key: value for key, value in own.items() if value is not None}, "marginal": marginal}


def _spread(codes: Tensor, columns: Sequence[ModelledColumn], sd: Tensor) -> Tensor:
    """Rows of codes [R, columns] as what distances are taken of: numbers divided by sd [columns], and whether a level
    holds, 1 or 0, for each level."""
    parts = []
    for c, column in enumerate(columns):
        if isinstance(column, Number | Moment):
            parts.append(codes[:, [c]] / sd[c])
        elif isinstance(column, Levelled):
            parts.append((codes[:, [c]] == torch.arange(len(column.texts))).double())
    return torch.cat(parts, 1)


def number_scores(draws: Floats, truth: Floats) -> Scores:
    """The scores of numbers: draws [n, cells], truth [cells]."""
    ensemble, true = torch.from_numpy(draws), torch.from_numpy(truth)
    error = ensemble.mean(0) - true
    return NumberScores(
        float(fair_crps(ensemble, true).mean()),
        math.sqrt(float(error.square().mean())),
        float(error.abs().mean()),
        coverage(ensemble, true),
    )._asdict()


def _means(scores: Sequence[Scores]) -> dict[str, float | None]:
    """The mean of each score over the columns that have it."""
    names = dict.fromkeys(name for own in scores for name in own if name not in ("cells", "sd"))
    return {name: _overall(scores, name) for name in names}


def _overall(scores: Sequence[Scores], name: str) -> float | None:
    """The mean of a score over the columns that have it."""
    values = [
        float(value) / (float(own["sd"] or 1.0) if name in SCALED else 1.0)
        for own in scores
        if (value := own.get(name)) is not None
    ]
    return _mean(values) if values else None


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
