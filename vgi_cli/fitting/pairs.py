"""What pairs of levels say beyond a mixture's laws of single cells (samplers/trees.py): learnt for each refit.

In a mixture a column of levels depends on one other such column, where that pays, and on clusters. What others say of
it besides is often too little to pay, but not nothing: a logistic regression on filled tables would find less of it
than there is, by up to a standard error (docs/research/benchmarks.md, "Levels that depend on levels"). So the law of
each column given all others is corrected as such a regression would have it: by a factor for each level of each other
column of levels, found by multinomial logistic regression with the law as its offset, as in chained equations. Nothing
is selected; normal priors hold the coefficients, the more firmly the more such columns there are.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from vgi_cli.data import TensorTable
from vgi_cli.maths.forests import inverted
from vgi_cli.maths.indicators import Indicators
from vgi_cli.maths.trees import NO_PAIRS
from vgi_cli.methods.em.bootstrap import filled
from vgi_cli.models.gaussian.family import GaussianFamily
from vgi_cli.samplers.trees import RARE, ROUNDS, Cell

STEPS = 100
"""Most steps by which coefficients are found; a third of them is usual."""
FEWEST_CELLS, FEWEST_ROWS, MOST_ROWS = 14, 500, 10_000
"""Of a column with fewer observed cells nothing is learnt, nor where the work leaves fewer rows than FEWEST_ROWS of a
table that has more; of at most MOST_ROWS. Where these are not those of which trees are learnt, each refit takes others,
and a resample of them."""
WORK = 3e9
"""Multiplications that the coefficients of a refit may take: some two seconds. Counted, never timed."""


def pairs_of(
    model: GaussianFamily, part: TensorTable, counts: Tensor, weights: Tensor | None, generator: torch.Generator
) -> list[Tensor]:
    """Of each dimension by what to correct its law under a refit for the levels of the others (`Tree.pairs`), by rows
    that all have an observed cell, each drawn so often (counts [n]), with `weights` [n], where these differ. Empty for
    numbers, and where there is no other column of levels, or too few cells."""
    levels = part.layout.level_counts
    pairs = [NO_PAIRS] * part.D
    if not _depend(part):
        return pairs
    model, missing, used = model.for_fills(), part.missing, counts > 0
    weight = (counts if weights is None else counts * weights).double()
    x = filled(model, part.x, missing, int(torch.randint(2**62, (), generator=generator)))
    laws, indicators = model.cell_laws(), Indicators(levels)
    with torch.no_grad():
        for turn in range(ROUNDS):
            for j in range(part.D):
                holes = missing[:, j]
                drawn, observed = holes.nonzero()[:, 0], (~holes & used).nonzero()[:, 0]
                last = turn == ROUNDS - 1
                if not (len(drawn) or (last and levels[j])):
                    continue
                cell = Cell(laws, indicators, x, j)
                u = torch.rand(len(x), dtype=torch.float64, generator=generator)[drawn]
                if not levels[j]:
                    x[drawn, j] = cell.at(drawn).revised(None, u)
                    continue
                if len(observed) >= FEWEST_CELLS:
                    pairs[j] = _coefficients(cell.at(observed), x[observed, j].long(), weight[observed])
                x[drawn, j] = inverted(cell.at(drawn).paired(pairs[j]), u).to(x.dtype)
    return pairs


def _depend(table: TensorTable) -> bool:
    """Whether a table has levels that may depend on levels."""
    return sum(n > 0 for n in table.layout.level_counts) > 1


def rows_for(table: TensorTable) -> int:
    """Of how many rows of a table the coefficients of a refit are learnt; 0: none are. A pure function of sizes."""
    if not _depend(table):
        return 0
    levels = [n for n in table.layout.level_counts if n]
    F, fixed = sum(levels), ROUNDS * len(levels)
    # A step takes F (rows + F) multiplications for each level of the column; its coordinates F² (rows + F) a column.
    each, once = ROUNDS * STEPS * F**2 + fixed * F**2, (ROUNDS * STEPS + fixed) * F**3
    rows = min(table.N, MOST_ROWS, int(max(WORK - once, 0.0) / each))
    return rows if rows >= min(FEWEST_ROWS, table.N) else 0


def _coefficients(cell: Cell, value: Tensor, weight: Tensor) -> Tensor:
    """[F, W] the logarithms of factors by which to correct the law of a column of W levels, from rows that hold these
    values [n] (int64) and weigh so much [n]."""
    from scipy.optimize import minimize  # here: a third of a second that no other fit spends

    probs, places = cast(Tensor, cell.probs), cast(Tensor, cell.places)
    F, W = cell.levels, probs.shape[1]
    indicators = torch.zeros(len(places), F, dtype=torch.float64).scatter_(1, places, 1.0)
    indicators[:, cell.own] = 0
    precision = places.shape[1] - 1.0  # so that the other columns together have a standard deviation of 1
    steepest = 0.5 * (indicators * weight[:, None]).mT @ indicators + precision * torch.eye(F, dtype=torch.float64)
    lower = torch.linalg.cholesky(steepest)  # the second derivative is nowhere larger (Böhning 1992)
    # Coordinates in which it is 1 at most: coefficients are `back` times these.
    back = torch.linalg.solve_triangular(lower, torch.eye(F, dtype=torch.float64), upper=False).mT
    turned, prior = indicators @ back, precision * back.mT @ back
    offset = probs.clamp(min=RARE).log()
    held = torch.nn.functional.one_hot(value, W).to(torch.float64)

    def loss(flat: np.ndarray[Any, Any]) -> tuple[float, np.ndarray[Any, Any]]:
        """The penalised negative log-likelihood, and its gradient."""
        own = torch.from_numpy(flat).view(F, W)
        log_law, held_back = torch.log_softmax(offset + turned @ own, -1), prior @ own
        value = 0.5 * (own * held_back).sum() - (weight * (held * log_law).sum(1)).sum()
        slope = turned.mT @ (weight[:, None] * (log_law.exp() - held)) + held_back
        return float(value), slope.flatten().numpy()

    found = minimize(loss, np.zeros(F * W), jac=True, method="L-BFGS-B", options={"maxiter": STEPS})
    beta: Tensor = back @ torch.from_numpy(found.x).view(F, W)
    return beta.to(torch.float32)
