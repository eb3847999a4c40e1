"""Rows that the model finds unlikely, and how unlikely one of many rows may be."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from vgi_cli.columns.numerals import Floats, Ints

CHANCE = 0.01
"""That one of the rows of a normal table lies as far below as half of the limit."""
SLACK = 2.0
"""The limit is so many times what a normal table would have: densities of other shapes have longer tails."""


class Unlikely(NamedTuple):
    """A row: its place, and as in OddRow."""

    place: int
    per_cell: float
    below: float
    limit: float


def chi_square_tail(chance: float, degrees: int) -> float:
    """What a chi-square variable exceeds with a chance (Wilson and Hilferty 1931)."""
    z, spread = NormalDist().inv_cdf(1 - chance), 2 / (9 * degrees)
    return float(degrees * (1 - spread + z * math.sqrt(spread)) ** 3)


def lowest(values: Floats, cells: Ints, most: int) -> list[Unlikely]:
    """The least likely of rows, by log p(observed cells) [n], comparable between columns, of cells [n] > 0 each: least
    per cell first. A row of h normal cells lies half a chi-square of h degrees below its mode."""
    per_cell = values / cells
    middle = float(np.median(per_cell))
    found = []
    for i in np.argsort(per_cell, kind="stable")[:most].tolist():
        h = int(cells[i])
        limit = SLACK * 0.5 * chi_square_tail(CHANCE / len(values), h)
        found.append(Unlikely(i, float(per_cell[i]), h * (middle - float(per_cell[i])), limit))
    return found
