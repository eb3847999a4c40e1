"""Short refits of a model that climbs by gradients: the weighted likelihood bootstrap (Newton and Raftery 1994).

Each refit goes on from the fitted parameters and climbs the same objective, every row of which counts by an exponential
weight of mean 1 (that is a flat Dirichlet law, Rubin 1981). From where it starts, it only has to go as far as the
weights move the top: some standard errors.

What is kept of it. Going on to train also changes what the weights have no part in: a fit that was ended early, before
it learns its rows by heart, goes on to learn them; noise moves what the rows say nothing of. So one more refit, the
reference, climbs with equal weights, all else the same, random numbers included. The parameters of a refit are

    fitted + sqrt(m / N) (refit - reference),

where m of the N rows were taken (the m out of n bootstrap, for large tables; Bickel, Goetze and van Zwet 1997).

A flexible model whose fit held-out rows ended early has not come to a top: where it ended is a matter of chance, which
refits that begin there do not tell. Where it is small, it is fitted anew for each set of weights, by whatever the fit
did, with random numbers of its own (`ANEW`); that is also what the draws of several fits are averages of.

How long. EPOCHS passes at the model's own learning rate, STEPS steps at least, the parameters averaged over the second
half. Measured against exact refits of a Gaussian with the same weights, spreads have stopped growing by then
(docs/research/benchmarks.md). Each row brings one of its chains, where a fit has K: what the other K - 1 would add is
precision of a step, and steps are averaged.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

EPOCHS, STEPS = 16, 96
"""Passes over the rows, and steps at least."""
SMALLEST_BATCH = 32
AVERAGE = 0.5
"""Share of the steps, at the end, over which the parameters are averaged."""
MOST_LONGER = 4.0
"""A fit with a learning rate below its model's own has longer refits, up to so many times."""
FEWEST_ROWS, MOST_ROWS = 1_000, 10_000
CELLS = 200
"""A column keeps so many observed cells in a refit, where it has them."""
COMMON = 20
"""Refits where nobody said how many. So many of FEWEST_ROWS rows are always affordable: what they take is the least
that all may take together."""
FEWEST_AFFORDABLE = 5
"""Of fewer refits than this none are made, where nobody said how many."""
ANEW = 3.0
"""Fits anew are made where all of them take no more than so many times what refits may take."""
STEP = 100
"""What a step takes beside its rows, in rows."""


class Size(NamedTuple):
    """What refits take.

    refits      how many, without the reference; 0: none are affordable
    rows        m, of each
    batch_size  rows of a step
    epochs      passes over them
    work        of all of them and the reference, counted in rows (see `work_of`)
    """

    refits: int
    rows: int
    batch_size: int
    epochs: int
    work: float

    @property
    def steps(self) -> int:
        """Of each refit."""
        return self.epochs * -(-self.rows // self.batch_size)


def work_of(epochs: int, steps: int, rows: int) -> float:
    """The work of so many epochs of so many steps and flattened rows each, in rows that pass through the model."""
    return float(epochs) * (STEP * steps + rows)


def size_of(n: int, scarcest: int, fit: float, count: int, *, stated: bool, longer: float = 1.0) -> Size:
    """The size of the refits of a fit to n rows: a pure function of counts.

    scarcest  observed cells of the column that has the fewest
    fit       work of the fit (`work_of`). All refits together take no more than that, or than COMMON refits of
              FEWEST_ROWS rows: of large tables fewer rows are taken (whatever `count` is), then fewer refits
    count     how many
    stated    whether somebody wants as many, whatever they take
    longer    how many times the usual length (at most MOST_LONGER)
    """
    longer = min(max(longer, 1.0), MOST_LONGER)
    allowed = _allowed(fit, longer)
    rows = min(n, MOST_ROWS)
    while rows > FEWEST_ROWS and (COMMON + 1) * _each(rows, longer).work > allowed:
        rows = max(int(0.9 * rows), FEWEST_ROWS)
    rows = min(max(rows, -(-n * CELLS // max(scarcest, CELLS))), n)
    each = _each(rows, longer)
    if not stated:
        affordable = min(count, int(allowed / each.work) - 1)
        count = affordable if affordable >= min(FEWEST_AFFORDABLE, count) else 0
    return each._replace(refits=count, work=(count + 1) * each.work)


def anew(fit: float, count: int) -> bool:
    """Whether so many fits like one of that work are made instead of refits that go on from it."""
    return count * fit <= ANEW * _allowed(fit, 1.0)


def _allowed(fit: float, longer: float) -> float:
    """The work that the refits of a fit may take."""
    return max(fit, (COMMON + 1) * _each(FEWEST_ROWS, longer).work)


def _each(rows: int, longer: float) -> Size:
    """The size of one refit of so many rows."""
    batch = max(SMALLEST_BATCH, -(-rows * EPOCHS // STEPS))
    steps = -(-rows // batch)
    epochs = math.ceil(longer * max(EPOCHS, STEPS / steps))
    return Size(1, rows, batch, epochs, work_of(epochs, steps, rows))


class Reweighted(NamedTuple):
    """A refit of a fit: what `Method.refit` is given.

    model         tensors of the fitted model, by name
    conditionals  those of its conditionals; empty: it has none
    rows          [m] which rows of the fitted table
    weight        [m] what each counts, mean 1
    size          how many steps
    seed          of its random numbers, the same in all refits of a fit
    """

    model: dict[str, Tensor]
    conditionals: dict[str, Tensor]
    rows: Tensor
    weight: Tensor
    size: Size
    seed: int


def exponential_weights(m: int, generator: torch.Generator) -> Tensor:
    """[m] float64: exponential weights, divided by their mean."""
    draws = -torch.log1p(-torch.rand(m, dtype=torch.float64, generator=generator))
    return draws / draws.mean()


def moved(
    fitted: Mapping[str, Tensor], refit: Mapping[str, Tensor], reference: Mapping[str, Tensor], share: float
) -> dict[str, Tensor]:
    """The fitted parameters, moved by a share of what sets a refit apart from the reference."""
    return {
        name: value + share * (refit[name] - reference[name]) if value.is_floating_point() else value
        for name, value in fitted.items()
    }
