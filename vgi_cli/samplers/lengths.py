"""How many rounds imputing chains run: measured on rows that the model itself gives, where an exact draw is known.

Rows drawn from the model are masked. What was hidden is then a draw from p(x_mis | x_obs), so that a chain that starts
there is at its target from the first round on. A second chain starts where imputing chains do, and both run on the same
random numbers. As soon as they are equal they stay equal. The share of pairs that are still apart after t rounds is
therefore an upper bound of the total variation distance, on average over such rows, between the t-th state of an
imputing chain and an exact draw (the coupling inequality; Levin, Peres and Wilmer, Markov Chains and Mixing Times,
section 5.2). It counts whole rows, so that no column and no mode can hide.

Only the model, the conditionals, the columns' limits and the number of holes of a row decide: never the table that is
imputed, its order, or the number of draws.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

import torch
from torch import Tensor

APART = 0.1
"""Share of pairs that may be apart at the end: the bound of the distance from the target that is accepted."""
FEWEST_ROUNDS, MOST_ROUNDS = 6, 200
FEWEST_SWEEPS = 20
"""Where MOST_ROUNDS are not enough, every hole is visited this often, and as often as the row has holes, at least."""
TARGET, LONGEST = 0.02, 4.0


class Measured(NamedTuple):
    """What was measured of rows with `holes` missing blocks.

    rounds  how many a chain runs
    cells   single cells that are redrawn in a round
    apart   share of pairs that were apart at the end
    """

    holes: int
    rounds: int
    cells: int
    apart: float


def measured(holes: int, shares: Iterable[float]) -> Measured:
    """The rule, given the share of pairs that are apart after each round. More single cells where they do not meet."""
    for number, share in enumerate(itertools.islice(shares, MOST_ROUNDS), 1):
        if share <= APART and number >= FEWEST_ROUNDS:
            return Measured(holes, number, 1, share)
    visits = max(FEWEST_SWEEPS, holes) * holes
    return Measured(holes, MOST_ROUNDS, -(-visits // MOST_ROUNDS), share)


def grades(holes: int, most: int) -> tuple[int, int]:
    """The numbers of holes with which chains were measured, below and above (or at) those of a row: powers of two, and
    all of its blocks."""
    above = 1 << (holes - 1).bit_length()
    return (holes, holes) if above == holes else (above // 2, min(above, most))


class Lengths:
    """The lengths of the chains of a run, measured where they are first needed.

    shares  the share of pairs of rows with so many holes that are apart, round by round
    most    blocks of a row
    """

    def __init__(self, shares: Callable[[int], Iterable[float]], most: int) -> None:
        self._shares, self._most = shares, most
        self.known: dict[int, Measured] = {}

    def of(self, holes: Tensor) -> tuple[Tensor, Tensor]:
        """Rounds [Q] and cells a round [Q] of chains of rows with `holes` [Q] missing blocks, none of them 0: between
        two numbers of holes that were measured, along the straight line."""
        rounds, cells = torch.zeros_like(holes), torch.zeros_like(holes)
        for count in holes.unique().tolist():
            low, high = (self._one(grade) for grade in grades(count, self._most))
            share = (count - low.holes) / max(high.holes - low.holes, 1)
            rounds[holes == count] = math.ceil(low.rounds + share * (high.rounds - low.rounds))
            cells[holes == count] = max(low.cells, high.cells)
        return rounds, cells

    def _one(self, holes: int) -> Measured:
        if holes not in self.known:
            self.known[holes] = measured(holes, self._shares(holes))
        return self.known[holes]

    def summary(self) -> dict[str, object]:
        """For the report, by number of holes: rounds, and the share of pairs apart."""
        known = sorted(self.known.values())
        return {
            "rounds_by_holes": {str(one.holes): float(one.rounds) for one in known},
            "apart_by_holes": {str(one.holes): one.apart for one in known},
        }


def rest_of(first: Tensor, accepted: Tensor) -> Tensor:
    """[Q] rounds of the second half, given those of the first and the share of its independent proposals that a chain
    accepted: as many, or more (up to LONGEST times) where that is below TARGET. The length is decided before the rest
    is run, and by that chain alone."""
    factor = (TARGET / accepted.clamp(min=1e-6)).clamp(1.0, LONGEST)
    return (first * factor).ceil().long()
