"""Which cells of a table a trial hides, by a mechanism of missingness (Rubin 1976) whose law is known.

mcar  completely at random: each cell with the same probability
mar   at random: with a probability that depends on cells of the row that stay observed
mnar  not at random: with a probability that depends on the cell itself

What a probability depends on enters by ranks, so that units, tails and kinds of columns do not matter, through a
logistic function whose intercept gives the rate that was asked for.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from vgi_cli.maths.noise import KeyedNoise

SLOPE = 1.5
"""By how much a standard deviation of the ranks moves the logit of the probability."""
MOST, AIM = 0.97, 0.8
"""The greatest mean probability that `mar` gives the cells of a column that may be hidden, and the one that it does not
go beyond where it has the choice."""
_HALVINGS = 60
_WIDEST = 60.0
"""Logits between which an intercept is looked for: wider than any rate and slope ask."""


class Unreachable(ValueError):
    """No probabilities give the rate: `most` is the greatest that can be asked for."""

    def __init__(self, most: float) -> None:
        super().__init__(f"rate above {most:.3g}")
        self.most = most


class Hidden(NamedTuple):
    """What a mechanism hides.

    probability  [N, D] of each cell, given the rows; 0 where it cannot be hidden
    cells        [N, D] bool, True where it is
    """

    probability: Tensor
    cells: Tensor


def hide(values: Tensor, chosen: Tensor, mechanism: str, rate: float, noise: KeyedNoise) -> Hidden:
    """Hide observed cells of some columns, on average the share `rate` of those of each.

    values   [N, D] float64 with an order that means something, NaN where a cell is missing: such cells stay missing and
             say nothing
    chosen   [D] bool: the columns that lose cells
    noise    of one draw, keyed by the rows and the names of the D columns

    `mar`: where some columns are not chosen, the mean of their ranks decides. Where all are, each row keeps a random
    half of its columns (fewer where the rate asks for it), and the mean of their ranks decides about the others: what
    decides is always observed, so the cells are missing at random (a pattern's probability depends on the cells that
    the pattern shows alone).

    Raises ValueError for another mechanism, Unreachable where `mar` cannot hide as many.
    """
    seen = ~values.isnan()
    may = seen & chosen
    if mechanism == "mcar":
        probability = may.to(values.dtype) * rate
    elif mechanism == "mnar":
        probability = _logistic(ranks(values), may, rate * may.sum(0, dtype=values.dtype))
    elif mechanism == "mar":
        deciding = (~chosen).expand_as(seen) if not bool(chosen.all()) else _kept(rate, noise)
        free = may & ~deciding
        count = may.sum(0, dtype=values.dtype)
        most = MOST * float((free.sum(0)[count > 0] / count[count > 0]).min()) if bool(may.any()) else 1.0
        if rate > most:
            raise Unreachable(most)
        total = (ranks(values) * deciding).sum(1)
        score = (total - total.mean()) / total.std(correction=0).clamp(min=1e-12)
        probability = _logistic(score[:, None].expand_as(values), free, rate * count)
    else:
        raise ValueError(f"unknown mechanism '{mechanism}'")
    return Hidden(probability, noise.at("hide").uniform()[0] < probability)


def ranks(values: Tensor) -> Tensor:
    """[N, D] the rank of each cell in its column, equal values at their mean rank, with mean 0 and standard deviation 1
    over the column; 0 where a cell is missing (NaN), and in a column of one value."""
    out = torch.zeros_like(values)
    for j, column in enumerate(values.T):
        seen = ~column.isnan()
        middle = mean_ranks(column[seen])
        if len(middle) and bool((middle != middle[0]).any()):
            out[seen, j] = (middle - middle.mean()) / middle.std(correction=0)
    return out


def mean_ranks(values: Tensor) -> Tensor:
    """[n] the ranks of values [n] float64 from 1, equal ones at their mean rank."""
    _, place, count = values.unique(return_inverse=True, return_counts=True)
    middle: Tensor = count.cumsum(0) - (count - 1) / 2
    return middle.to(values.dtype)[place]


def _kept(rate: float, noise: KeyedNoise) -> Tensor:
    """[N, D] bool: of each row a random half of the columns; fewer where the rate asks for it, one at least."""
    D = len(noise.columns)
    kept = max(min(D // 2, int(D * (1 - rate / AIM))), 1)
    order = noise.at("kept").uniform()[0].argsort(1)
    return torch.zeros(order.shape, dtype=torch.bool).scatter_(1, order[:, :kept], True)


def _logistic(scores: Tensor, may: Tensor, wanted: Tensor) -> Tensor:
    """[N, D] the logistic function of SLOPE · scores and an intercept for each column, by which the probabilities of
    the cells that `may` be hidden add up to `wanted` [D]; 0 elsewhere."""
    logits = torch.where(may, SLOPE * scores, -torch.inf)
    low, high = torch.full_like(wanted, -_WIDEST), torch.full_like(wanted, _WIDEST)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        above = (logits + middle).sigmoid().sum(0) > wanted
        low, high = torch.where(above, low, middle), torch.where(above, middle, high)
    return (logits + (low + high) / 2).sigmoid()
