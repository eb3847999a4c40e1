"""What pairs of columns say beyond a mixture's laws of single cells (samplers/trees.py): learnt for each refit.

In a mixture a column of levels depends on one other such column, where that pays, and on clusters; a number on levels
by clusters and by one shift for each level that all components share, or on none. What other columns say besides is
often too little to pay, but not nothing: a regression on filled tables would find less of it than there is, by up to a
standard error (docs/research/benchmarks.md, "Levels that depend on levels"). So the law of each column given all others
is corrected as such a regression would have it, with the law as its offset, as in chained equations:

- that of levels by a factor for each level of each other column of levels and for each number: multinomial logistic
  regression;
- that of a number by a shift for each level of each column of levels: random effects.

Nothing is selected; normal priors hold the coefficients, the more firmly the more columns there are, or the less
effects differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from vgi_cli.data import TensorTable
from vgi_cli.maths.forests import inverted
from vgi_cli.maths.indicators import Indicators
from vgi_cli.maths.trees import NO_PAIRS
from vgi_cli.methods.em.bootstrap import filled
from vgi_cli.models.gaussian.family import ColumnLaw, GaussianFamily
from vgi_cli.samplers.trees import RARE, ROUNDS, Cell

STEPS = 100
"""Most steps by which coefficients are found; a third of them is usual."""
FEWEST_A_NUMBER = 20
"""Of fewer observed cells of a column of levels for each number these do not correct its law."""
NARROW = 1e-3
"""The variance that combinations of numbers count as having at least, in encoded units."""
PASSES = 3
"""How often the variances of effects of levels on a number are found, each time less the effects of the others."""
LEAST_PULL = 1e-6
"""Pseudo-rows by which effects of levels on a number are pulled to 0 at least: where they leave nothing of its values,
as sums of two lists of prices do, those of several columns could not be told apart without."""
FEWEST_CELLS, FEWEST_ROWS, MOST_ROWS = 14, 500, 10_000
"""Of a column with fewer observed cells nothing is learnt, nor where the work leaves fewer rows than FEWEST_ROWS of a
table that has more; of at most MOST_ROWS. Each refit of a table with more takes others, and a resample of them."""
WORK = 3e9
"""Multiplications that a refit may take: a few seconds. Counted, never timed."""
GAUSSIANS = 5
"""As many are counted of a mixture."""


def pairs_of(
    model: GaussianFamily, part: TensorTable, counts: Tensor, weights: Tensor | None, generator: torch.Generator
) -> list[Tensor]:
    """Of each dimension by what to correct its law under a refit for the cells of the others (`Tree.pairs`), by rows
    that all have an observed cell, each drawn so often (counts [n]), with `weights` [n], where these differ. Empty
    where others say no more of a number, and where there are too few cells."""
    levels = part.layout.level_counts
    pairs = [NO_PAIRS] * part.D
    if not _depend(part):
        return pairs
    import scipy.optimize  # noqa: F401 - here: a third of a second that no other fit spends; its BLAS is limited below
    from threadpoolctl import threadpool_limits

    model, missing, used = model.for_fills(), part.missing, counts > 0
    weight = (counts if weights is None else counts * weights).double()
    x = filled(model, part.x, missing, int(torch.randint(2**62, (), generator=generator)))
    laws, indicators, tails = model.cell_laws(), Indicators(levels), part.layout.tails
    numbers = [j for j in range(part.D) if not levels[j]]
    # More threads than one take ten times as long for vectors of some ten numbers.
    with torch.no_grad(), threadpool_limits(1, "blas"):
        for turn in range(ROUNDS):
            for j in range(part.D):
                holes = missing[:, j]
                drawn, observed = holes.nonzero()[:, 0], (~holes & used).nonzero()[:, 0]
                last = turn == ROUNDS - 1
                if not (len(drawn) or last):
                    continue
                cell = Cell(laws, indicators, x, j)
                u = torch.rand(len(x), dtype=torch.float64, generator=generator)[drawn]
                seen, value = cell.at(observed), x[observed, j]
                if not levels[j]:
                    pairs[j] = NO_PAIRS
                    if len(observed) >= FEWEST_CELLS and seen.holds(value):
                        columns = [indicators.place(i) for i in range(part.D) if levels[i] and (j, i) not in tails]
                        own = None if weights is None else weights[observed]
                        chance = _chance(counts[observed], own)
                        pairs[j] = _shifts(seen, value, weight[observed], columns, chance)
                    x[drawn, j] = cell.at(drawn).moved(pairs[j]).quantile(u)
                    continue
                if len(observed) >= FEWEST_CELLS:
                    silent = [numbers.index(number) for number, level in tails if level == j]
                    pairs[j] = _coefficients(seen, value.long(), weight[observed], silent)
                x[drawn, j] = inverted(cell.at(drawn).paired(pairs[j]), u).to(x.dtype)
    return pairs


def _depend(table: TensorTable) -> bool:
    """Whether a table has levels, and columns that may depend on them."""
    return table.D > 1 and any(table.layout.level_counts)


def rows_for(table: TensorTable) -> int:
    """Of how many rows of a table the coefficients of a refit are learnt; 0: none are. A pure function of sizes."""
    if not _depend(table):
        return 0
    counts = [n for n in table.layout.level_counts if n]
    W, columns, numbers = sum(counts), len(counts), table.D - len(counts)
    F = W + numbers
    # A step takes F (rows + F) multiplications for each level of the column; coordinates F² (rows + F) a column of
    # levels, the equations of a number W² (rows + W), the laws of a column numbers² for each Gaussian.
    each = ROUNDS * (STEPS * F * W + columns * F**2 + numbers * W**2 + table.D * GAUSSIANS * numbers**2)
    once = ROUNDS * (STEPS * F**2 * W + columns * F**3 + numbers * W**3)
    rows = min(table.N, MOST_ROWS, int(max(WORK - once, 0.0) / each))
    return rows if rows >= min(FEWEST_ROWS, table.N) else 0


def _coefficients(cell: Cell, value: Tensor, weight: Tensor, silent: Sequence[int] = ()) -> Tensor:
    """[F, W] the logarithms of factors by which to correct the law of a column of W levels, from rows that hold these
    values [n] (int64) and weigh so much [n]; `silent`: places among the numbers that say nothing of it. Numbers are
    heard where there are FEWEST_A_NUMBER rows for each. Empty where there is nothing to hear."""
    from scipy.optimize import minimize  # late, as in `pairs_of`

    probs, places = cast(Tensor, cell.probs), cell.places
    W = probs.shape[1]
    known = torch.zeros(len(places), cell.levels, dtype=torch.float64).scatter_(1, places, 1.0)
    known[:, cell.own] = 0
    precision = places.shape[1] - 1.0  # so that the other columns together have a standard deviation of 1
    prior, told = torch.eye(cell.levels, dtype=torch.float64), None
    heard = cell.numbers.shape[1] - len(silent)
    if heard * FEWEST_A_NUMBER <= len(places):
        precision += heard
        numbers = cell.numbers.clone()
        numbers[:, list(silent)] = 0
        told, left, spread = _apart(known, numbers, weight)
        prior, known = torch.block_diag(prior, spread), torch.cat([known, left], 1)
    if not precision:
        return NO_PAIRS
    prior *= precision
    F = known.shape[1]
    steepest = 0.5 * (known * weight[:, None]).mT @ known + prior
    lower = torch.linalg.cholesky(steepest)  # the second derivative is nowhere larger (Böhning 1992)
    # Coordinates in which it is 1 at most: coefficients are `back` times these.
    back = torch.linalg.solve_triangular(lower, torch.eye(F, dtype=torch.float64), upper=False).mT
    turned, prior = known @ back, back.mT @ prior @ back
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
    if told is not None:
        beta[: cell.levels] -= told @ beta[cell.levels :]
    return beta.to(torch.float32)


def _apart(levels: Tensor, numbers: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """What numbers [R, n] say that levels (indicators [R, F]) do not, in rows that weigh so much [R]: what is to be
    taken from each number for each level [F, n], what that leaves [R, n], and its covariances [n, n].

    Coefficients of what is left that are drawn by the inverse of these covariances are as probable whichever
    combinations of the numbers one looks at: as differences between the means of levels would be, in standard
    deviations within them. Combinations that hardly vary count as varying by NARROW.
    """
    weighted = levels * weight[:, None]
    told = torch.linalg.solve(weighted.mT @ levels + torch.eye(levels.shape[1]), weighted.mT @ numbers)
    left = numbers - levels @ told
    share = weight / weight.sum()
    varied = left - share @ left
    return told, left, (varied * share[:, None]).mT @ varied + NARROW * torch.eye(numbers.shape[1])


def _chance(counts: Tensor, weights: Tensor | None) -> float:
    """How much more chance makes of the means of rows that were each drawn so often (counts [n]) than of as many rows
    of a table: twice as much, since they are a resample; and more where their own weights [n] differ (Kish 1965)."""
    if weights is None:
        return 2.0
    counts, weights = counts.double(), weights.double()
    square = (counts * weights.square()).sum() * counts.sum()
    return 2.0 * float(square / (counts * weights).sum().square())


def _shifts(cell: Cell, value: Tensor, weight: Tensor, columns: Sequence[slice], chance: float = 2.0) -> Tensor:
    """[F, 1] by how much to move the law of a number for each level of the columns of levels (their places among those
    of all), from rows that hold these values [n] and weigh so much [n]; empty where no column says more of it.
    `chance`: as of `_chance`.

    What the law leaves of the values is a sum of effects of the levels, which are drawn from a normal distribution for
    each column, and a rest. The variances of these distributions are found by moments, column by column, less what the
    effects of the others are then found to be, PASSES times: what the means of levels vary beyond what chance makes of
    them.
    """
    left = value - cast(ColumnLaw, cell.law).centre()
    total = weight.sum()
    left = left - (weight * left).sum() / total
    x = torch.zeros(len(left), cell.levels, dtype=torch.float64).scatter_(1, cell.places, 1.0)
    products, sums = (x * weight[:, None]).mT @ x, (weight * left) @ x
    effects, taken = torch.zeros(cell.levels, dtype=torch.float64), 0.0
    for _ in range(PASSES):
        rest = (weight * (left - x @ effects).square()).sum() / (total - taken)
        ridge = torch.full((cell.levels,), torch.inf, dtype=torch.float64)
        for place in columns:
            own, some = products[place, place].diag(), products[place, place].diag() > 0
            others = effects.clone()
            others[place] = 0
            means = (sums[place] - products[place] @ others)[some] / own[some]
            means = means - (own[some] * means).sum() / total
            apart = (own[some] * means.square()).sum() - chance * (int(some.sum()) - 1) * rest
            room = total - own.square().sum() / total
            if apart > 0 and room > 0:
                ridge[place] = (rest / (apart / room)).clamp(min=LEAST_PULL)
        kept = ridge.isfinite()
        effects = torch.zeros_like(effects)
        if not bool(kept.any()):
            return NO_PAIRS
        system = products[kept][:, kept]
        pulled = system + ridge[kept].diag()
        effects[kept] = torch.linalg.solve(pulled, sums[kept])
        # Degrees of freedom, by chance as many more.
        taken = min(chance * float(torch.linalg.solve(pulled, system).trace()), float(total) / 2)
    return effects[:, None].to(torch.float32)
