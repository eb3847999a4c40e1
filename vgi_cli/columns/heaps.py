"""Heaps: multiples of a larger unit that a rounded column holds more often than the numbers between them.

Ages are told in fives, blood pressures read to the nearest ten, prices asked in hundreds; but not always. So the last
digits of such a column are not as likely as each other, whatever the law of what was measured (Heitjan and Rubin 1990).
A density that is smooth cannot say so, and draws from it hold too few of the round numbers.

So the numbers of a column with heaps are given room as the spikes of `columns/lattice.py` are: before it is modelled, a
value is spread over a cell that is the wider the more often values of its kind occur, and the cells of a period (ten
neighbours, say) together are as wide as without heaps. Then the density is smooth from cell to cell; reading back,
everything in a cell is its value. Of which kind a value is says the greatest common divisor of its place and the
period: with ten, 1 (odd ones), 2 (even ones), 5 and 10.
"""

from __future__ import annotations

import math
from functools import cache, cached_property
from typing import Annotated

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from vgi_cli.columns.base import STRICT
from vgi_cli.columns.numerals import Floats, Ints

DIGITS, DOZENS = (2, 5, 10, 20, 50, 100, 500, 1000, 10_000), (12, 60)
"""Units of the last decimal whose multiples may be told more often; of whole numbers (months, minutes) dozens too."""
MOVED = 0.1
"""Share of the cells that would have to be another value for there to be no heaps: with fewer they are left alone."""
SURELY = 10.0
"""Nats by which the cells must be likelier with heaps than without, less what the widths cost (as in BIC) ..."""
RARER, OFTENER = 1.0, 0.1
"""Cells as by even digits that are added to what a kind holds, where it is rarer: no width is 0; and where it is more
frequent: of the multiples of 1,000 few are to be expected."""
PILE = 3.0
"""A value that occurs more often than so many times as often as any other is a pile of its own (a change of 0), which
says nothing of last digits."""
NOISE = 0.01
"""... and share of the variance that spreading over the cells may add."""
NARROWEST = 4 * float(np.finfo(np.float32).eps)
"""Of how far the outermost value lies from the mean, the share that a cell is wide at least: float32 keeps neighbours
apart."""
MOST_PLACES, PLACES, LARGEST = 2_000_000, 2_000, 1e9
"""Values that a column may take between its ends for heaps to be looked for, and for each cell; and the size of such,
in units of the resolution."""


@dataclass(frozen=True, config=STRICT)
class Heaps:
    """How wide the cells of a column's values are, multiples of its resolution.

    resolution  distance of neighbouring values, data units; all are multiples of it
    period      after how many values the widths repeat
    widths      by kind (the divisors of the period, ascending): of a value, in units of the resolution
    """

    resolution: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    period: Annotated[int, Field(ge=2, le=max(DIGITS))]
    widths: tuple[Annotated[float, Field(gt=0, allow_inf_nan=False)], ...]

    def __post_init__(self) -> None:
        if len(self.widths) != len(divisors_of(self.period)):
            raise ValueError("widths do not fit the period")

    @cached_property
    def _cells(self) -> tuple[Floats, Floats]:
        """([period] widths, [period + 1] where each begins), from half a cell before 0 on; they fill the period."""
        widths = np.array(self.widths)[kinds(np.arange(self.period), self.period)]
        begins = np.append(0.0, np.cumsum(widths))
        return widths * (self.period / begins[-1]), begins * (self.period / begins[-1])

    def width(self, values: Floats) -> Floats:
        """[..] over how much of the data units each of the values is spread."""
        places = np.where(np.isfinite(values), values, 0.0) / self.resolution
        kind = np.mod(np.rint(places), self.period).astype(np.int64)
        widths: Floats = self.resolution * self._cells[0][kind]
        return widths

    def spread(self, values: Floats) -> Floats:
        """Values with room for the heaps: increasing and continuous; multiples of the period stay where they are."""
        place = values / self.resolution
        nearest = np.rint(np.where(np.isfinite(place), place, 0.0))
        widths, begins = self._cells
        turn, kind = np.divmod(nearest, self.period)
        kind = kind.astype(np.int64)
        middle = begins[kind] + 0.5 * widths[kind] - 0.5 * widths[0]
        spread: Floats = self.resolution * (turn * self.period + middle + (place - nearest) * widths[kind])
        return spread

    def gathered(self, values: Floats) -> Floats:
        """The inverse of `spread`."""
        widths, begins = self._cells
        place = values / self.resolution + 0.5 * widths[0]
        turn = np.floor(place / self.period)
        with np.errstate(invalid="ignore"):  # of values that are not finite, which is refused where they go
            rest = np.clip(place - turn * self.period, 0.0, self.period)
        kind = np.clip(np.searchsorted(begins, rest, side="right") - 1, 0, self.period - 1)
        part = np.clip((rest - begins[kind]) / widths[kind] - 0.5, -0.5, 0.5)
        gathered: Floats = self.resolution * (turn * self.period + kind + part)
        return gathered

    def most(self) -> tuple[int, float]:
        """Of which number, in units of the resolution, the values are multiples most often beyond what they would be if
        digits were alike; and the share that is, where the density is even."""
        places = np.arange(self.period)
        shares = {n: self._cells[0][places % n == 0].sum() / self.period for n in divisors_of(self.period)[1:]}
        unit = max(shares, key=lambda n: shares[n] - 1 / n)
        return unit, float(shares[unit])


def kinds(places: Ints, period: int) -> Ints:
    """[..] the number, among the divisors of the period, of the greatest that a place shares with it."""
    found: Ints = np.searchsorted(np.array(divisors_of(period)), np.gcd(places, period)).astype(np.int64)
    return found


def find_heaps(values: Floats, resolution: float, units: int, *, whole: bool) -> Heaps | None:
    """The heaps among observed values [n], multiples of the resolution, which is so many `units` of the last decimal;
    None without any. The least and the greatest value, where others may pile up, do not count, nor does a pile between
    them.

    How often the values of a kind occur is compared with how often they would if the last digits were alike: for each
    value the mean number of cells over one period around it. There are heaps where this differs by MOVED, is no chance
    by SURELY, is half as much in the lower and in the upper half of the values, and multiples of the period are among
    what is held more often. Of the periods that of which the cells are the likeliest is taken. `whole`: whether the
    numbers are.
    """
    places = np.rint(values / resolution)
    least, most = places.min(), places.max()
    if most - least > min(MOST_PLACES, PLACES * len(values)) or max(-least, most) > LARGEST:
        return None
    counts = np.bincount((places - least).astype(np.int64))[1:-1]
    pile = _pile_of(counts)
    if not np.delete(counts, pile).any():
        return None
    sd, outermost = float(places.std()), float(np.abs(places - places.mean()).max())
    best, most_nats = None, SURELY
    for unit in DIGITS + DOZENS * whole:
        period = unit // units
        if unit % units or period < 2 or period > sd:
            continue
        found, nats = _of_period(counts, int(least) + 1, period, pile)
        heaps = Heaps(resolution, period, found) if nats >= most_nats else None
        if heaps is None:
            continue
        widths = heaps.width(values) / resolution
        if np.square(widths).mean() / 12 <= NOISE * sd**2 and min(heaps.widths) >= NARROWEST * outermost:
            best, most_nats = heaps, nats
    return best


def _pile_of(counts: Ints) -> Ints:
    """The place [1] of the value of counts [places] that is a pile of its own, [0] where none is."""
    others = np.partition(counts, -2)[-2] if len(counts) > 1 else 0
    return np.array([counts.argmax()]) if counts.max(initial=0) > PILE * others else np.zeros(0, np.int64)


def _of_period(counts: Ints, least: int, period: int, pile: Ints) -> tuple[tuple[float, ...], float]:
    """Of cells [places] of values from `least` on: widths by kind, and the nats that they gain; -inf if no heaps.
    `pile`: places that do not count."""
    own = kinds(np.arange(period), period)[np.arange(least, least + len(counts)) % period]
    counts = counts.copy()
    counts[pile] = 0
    level = _level(counts, period)
    level[pile] = 0
    C, total = len(divisors_of(period)), float(counts.sum())
    seen, even = (np.bincount(own, weights=x, minlength=C) for x in (counts, level))
    even *= total / even.sum()
    prior = np.where(seen < even, RARER, OFTENER)
    widths = (seen + prior) / (even + prior)
    alike = np.bincount(kinds(np.arange(period), period), minlength=C)
    widths *= period / (alike * widths).sum()
    moved = 0.5 * np.abs(seen - even).sum() / total
    if moved < MOVED or widths[-1] <= 1:
        return tuple(widths.tolist()), -math.inf
    more, lower = (widths > 1)[own], np.cumsum(counts) <= 0.5 * total
    excess = [(counts - level)[part & more].sum() / max(counts[part].sum(), 1) for part in (lower, ~lower)]
    if min(excess) < 0.5 * MOVED:
        return tuple(widths.tolist()), -math.inf
    told = float(np.median(counts[counts > 0]))  # rows of one subject, visit by visit, have one value
    nats = float((seen * np.log(np.where(seen > 0, seen, 1) / np.where(even > 0, even, 1))).sum())
    return tuple(widths.tolist()), nats / told - 0.5 * (C - 1) * math.log(total)


def _level(counts: Ints, period: int) -> Floats:
    """[places] the mean number of cells over one period around each, as far as there are places."""
    half, even = period // 2, period % 2 == 0

    def around(values: Floats) -> Floats:
        padded = np.concatenate([np.zeros(half), values, np.zeros(half)])
        sums = np.append(0.0, np.cumsum(padded))
        out = sums[2 * half + 1 :] - sums[: len(values)]
        if even:
            out = out - 0.5 * (padded[: len(values)] + padded[2 * half :])
        return np.asarray(out)

    level: Floats = around(counts.astype(np.float64)) / around(np.ones(len(counts)))
    return level


@cache
def divisors_of(period: int) -> tuple[int, ...]:
    """Those of a whole number, ascending."""
    return tuple(n for n in range(1, period + 1) if period % n == 0)
