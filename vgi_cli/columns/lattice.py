"""Values that a column of numbers holds again and again: those of a rounding, spikes, and a few levels.

Rounding: a column may hold multiples of some step only (see Lattice).

Spikes: values that hold far more cells than their neighbours do (no rain, nothing spent, a cap of the instrument).

A density that has to be high at one value and low beside it is a bad fit, and what is drawn from a smooth one lies
beside the spike instead of on it. So a spike is given room: where a column is spread over its resolution before it is
modelled, the cell of a spike is made wider, until its density is that of its neighbours, and all
larger values move up. Reading back, everything in that cell is the value itself.

Gaps: places between values that occur again and again, where none is though many would be by chance (a wind gauge that
reads 30 of the thousands of numbers that four decimals can spell; dates of which none is a Sunday). The density is
smooth there all the same; a fill that falls into a gap is moved to its nearer end.

Levels: a few whole numbers with gaps between them (codes 1, 7, 13, 99; engines of 3, 4, 5, 6 and 8 cylinders).

A density over the whole numbers in between would put most fills where nothing is. So such values are numbered from 0,
and the numbers are spread over their cells and modelled: every level has as much room as any other, and reading back,
everything in its cell is the level itself.
"""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from vgi_cli.columns.base import STRICT
from vgi_cli.columns.heaps import Heaps
from vgi_cli.columns.numerals import EXACT, Bools, Floats, Ints, decimals_of

FEWEST = 10
"""Distinct values from which on a column can have spikes: with fewer every value is one."""
SHARE, CELLS = 0.05, 10
"""Share of the observed cells, and their number, that a spike holds at least ..."""
AT_END, MANY = 0.01, 20
"""The same of one at an end, where caps and zeros are, which holds HEIGHT times as many as the value next to it."""
HEIGHT = 5.0
"""... and how many times the density of its neighbours."""
MOST_LEVELS = 12
"""Distinct values that levels are at most."""
BESIDE = 3
"""Cells that each value beside a gap holds at least ..."""
LACKING = 5
"""... and cells that would lie in the gap if the values there were as frequent as the rarer one beside it: with five,
there is none by chance in 0.7 % of such gaps. The tail of a count (0, 1, 2, 3, 5, 8, 14 children) has gaps too, because
its values are rare: those beside them occur once or twice."""
SURELY = 10.0
"""Nats by which the counts from one end of a gap to the other, ends included, are likelier where values are lacking
than where all are alike: a column has room for many gaps, so that some would be there by chance with LACKING."""
MOST_GAPS = 2_000
"""In a column with more of them no gap is kept."""


SAME = 1e-6
"""Share of a resolution by which two values differ that are one."""

LARGE, DIFFERENT = 20, 8
"""So many observed cells could have more significant digits than any has, and so many values are among them: each of
these ends in a zero by chance in one of ten columns."""
SHORTER = 0.8
"""Share of these that have fewer digits yet, of which a tenth has by chance, beyond which that may be no matter of
digits."""

MOST_DECIMALS = 300
"""Of the powers of ten by which values are multiplied and divided, so that these are float64 numbers."""
LEAST_SD = 10.0 ** (4 - MOST_DECIMALS)
"""Of a column for which a lattice can stand in."""


@dataclass(frozen=True, config=STRICT)
class Lattice:
    """The values that a rounded column can take: (origin + k * step) * 10^-decimals for whole k.

    stand_in  whether the column is not rounded: it has repeats, and is spread by so little
    """

    decimals: Annotated[int, Field(ge=-MOST_DECIMALS, le=MOST_DECIMALS)]
    step: Annotated[int, Field(ge=1, le=EXACT)]
    origin: Annotated[int, Field(ge=-EXACT, le=EXACT)]
    stand_in: bool = False

    @property
    def resolution(self) -> float:
        """Distance of neighbouring values, data units."""
        return self.step / 10.0**self.decimals

    def snap(self, values: Floats) -> Floats:
        """The nearest values of the lattice, each the float64 nearest to its decimal fraction."""
        with np.errstate(over="ignore"):  # of values that no float64 holds: not finite, which is refused where they go
            units = np.rint((values * 10.0**self.decimals - self.origin) / self.step) * self.step + self.origin
        if abs(self.decimals) > 22:  # 10^23 is no float64: go through decimal text
            return np.array([float(f"{u:.0f}e{-self.decimals}") for u in units.ravel().tolist()]).reshape(units.shape)
        scaled = units / 10.0**self.decimals if self.decimals >= 0 else units * 10.0**-self.decimals
        return np.asarray(scaled + 0.0, np.float64)  # never -0.0

    def off(self, value: float) -> float:
        """How far a value lies off the nearest one that a rounded column can take; 0 where that is rounding of float64,
        and where nothing is rounded."""
        away = abs(float(self.snap(np.array(value))) - value)
        return 0.0 if self.stand_in or away <= SAME * self.resolution else away

    def on(self, values: Floats, value: float) -> Bools:
        """[..] which values are one with another one, which may lie off the lattice."""
        off = self.off(value)
        return lying_on(values, value, min(self.resolution, off) if off else self.resolution)

    def beyond(self, value: float, side: int) -> float:
        """The value that a column can take next to one of its ends, above (`side` 1) or below it."""
        if not self.off(value):
            return value + side * self.resolution
        nearest = float(self.snap(np.array(value)))
        return (
            nearest if side * nearest > side * value else float(self.snap(np.array(nearest + side * self.resolution)))
        )


def lying_on(values: Floats, value: float, resolution: float) -> Bools:
    """[..] which values are no farther from one than half of the resolution: with it they are one value."""
    return np.asarray(np.abs(values - value) <= 0.5 * resolution)


@dataclass(frozen=True, config=STRICT)
class Spike:
    """A value that holds far more cells than its neighbours, and the room that it is given beside its resolution, data
    units."""

    value: float
    width: float

    def holds(self, values: Floats, resolution: float) -> Bools:
        """Which values lie on the spike."""
        return lying_on(values, self.value, resolution)


def find_lattice(
    values: Floats, some: Floats, decimals: int | None, *, search: bool, single: bool, step: int = 1
) -> Lattice | None:
    """The lattice of observed values [n], or None where they are not decimal fractions of at most 15 digits.

    some      those of the values, the least of which is written down as the origin
    decimals  most decimals that the values are spelled with; with `search`, find them from the values instead
    single    the values come from float32
    step      units of the last decimal, of which the column holds multiples only

    The spacing is the greatest common divisor of the differences (heights to the nearest 5, codes 2 and 4) when enough
    values say so: eight distinct ones, or eight of each on average; else `step`.
    """
    if search:
        decimals = decimals_of(values, single=single)
    if decimals is None or abs(decimals) > MOST_DECIMALS or float(np.abs(values).max()) * 10.0**decimals >= EXACT:
        return None
    units = np.rint(values * 10.0**decimals).astype(np.int64)
    distinct = np.unique(units)
    origin = int(distinct[0])
    if len(distinct) > 1 and (len(distinct) >= 8 or len(units) >= 8 * len(distinct)):
        step = int(np.gcd.reduce(distinct - origin))
    lattice = Lattice(decimals, step, int(np.rint(some.min() * 10.0**decimals)))
    return lattice if bool((lattice.snap(values) == values).all()) else None


def find_significant(values: Floats, lattice: Lattice) -> int | None:
    """Significant digits that observed values [n] of a lattice have at most, where large ones have fewer decimals (or
    more zeros before the point) for that: `0.123`, `12.3` and `12300`, but neither 1,230 nor 12.34. None else."""
    units, short = _digits(values, lattice)
    digits = len(str(short.max(initial=0)))
    large = units[units >= 10**digits]
    return digits if len(large) >= LARGE and len(np.unique(large)) >= DIFFERENT else None


def are_shorter(values: Floats, lattice: Lattice, digits: int) -> bool:
    """Whether of those that could have more significant digits than any has nearly all have fewer: they may rather be
    multiples (whole years of ages, of which a few are 28.5)."""
    units, short = _digits(values, lattice)
    return float((short[units >= 10**digits] < 10 ** (digits - 1)).mean()) > SHORTER


def _digits(values: Floats, lattice: Lattice) -> tuple[Ints, Ints]:
    """Observed values [n] of a lattice but zeros as whole numbers, without zeros at the end that all have, and without
    any."""
    units = np.abs(np.rint(values * 10.0**lattice.decimals)).astype(np.int64)
    units = units[units > 0]
    while len(units) and not (units % 10).any():
        units //= 10
    short = units.copy()
    while (longer := short % 10 == 0).any():
        short[longer] //= 10
    return units, short


def has_repeats(values: Floats) -> bool:
    """Whether values repeat as no density does: half of them are repeats, or one value holds 2 % (and five cells)."""
    distinct, counts = np.unique(values, return_counts=True)
    return bool(len(distinct) <= 0.5 * len(values) or counts.max() >= max(0.02 * len(values), 5))


def stand_in(sd: float) -> Lattice:
    """The lattice for a column that has repeats but no resolution: 1e-5 to 1e-4 standard deviations (LEAST_SD or more),
    from zero."""
    return Lattice(math.ceil(4 - math.log10(sd)), 1, 0, stand_in=True)


def find_spikes(
    values: Floats, resolution: float, share: float = SHARE, *, at_end: float = HEIGHT, heaps: Heaps | None = None
) -> tuple[Spike, ...]:
    """The spikes among observed values [n] of a column of that resolution, smallest value first; each holds at least
    that share of them, at an end fewer (AT_END).

    at_end  how many times the density of its neighbours an end has that holds SHARE, or is one by AT_END
    heaps   what gives its values room already

    The neighbours of a value are the cells next to it: as many as it holds, or half of all others. What differs by less
    than the resolution (8.46 and 8.459999999999999) is one value.
    """
    cell = np.rint((values - values.min()) / resolution)
    cells, counts = np.unique(cell, return_counts=True)
    if len(cells) < FEWEST:
        return ()
    spikes = []
    places = _placed(values, heaps)
    enough, heights = counts >= max(share * len(values), CELLS), np.full(len(cells), HEIGHT)
    for end, beside in ((0, 1), (-1, -2)):
        steep = counts[end] >= max(fewest_at_end(len(values)), HEIGHT * counts[beside])
        enough[end] |= steep
        if steep or counts[end] >= max(SHARE * len(values), CELLS):
            heights[end] = at_end
    for i in np.flatnonzero(enough):
        own = cell == cells[i]
        spellings, often = np.unique(values[own], return_counts=True)
        value = float(spellings[often.argmax()]) + 0.0  # no -0
        has = float(cell_widths(np.array([value]), (), resolution, heaps)[0])
        width = _room(places, own, float(_placed(np.array(value), heaps)), 1 if i in (0, len(cells) - 1) else 2)
        if width > heights[i] * has:
            spikes.append(Spike(value, width - has))
    return tuple(spikes)


def spikes_of_logs(spikes: tuple[Spike, ...], values: Floats, resolution: float) -> tuple[Spike, ...]:
    """Those spikes among observed values [n], hardly any of which are not positive, that are spikes of their logarithms
    as well, where the cells of small values are wider; zero is one."""
    values = values[values > 0.5 * resolution]
    places = np.log(values)
    found = []
    for spike in spikes:
        if spike.value > 0.5 * resolution:
            own = spike.holds(values, resolution)
            sides = 1 if own[[values.argmin(), values.argmax()]].any() else 2
            has = float(np.log((spike.value + 0.5 * resolution) / (spike.value - 0.5 * resolution)))
            if _room(places, own, float(np.log(spike.value)), sides) <= HEIGHT * has:
                continue
        found.append(spike)
    return tuple(found)


def fewest_at_end(n: int) -> float:
    """How many of n observed cells a spike at an end holds at least."""
    return max(AT_END * n, float(MANY))


def _room(places: Floats, own: Bools, place: float, sides: int) -> float:
    """How wide the cell of a value must be for the density there to be that of its neighbours; `own` [n]: which of the
    places are its own, `sides`: on how many it has neighbours."""
    count = int(own.sum())
    distance = np.abs(places[~own] - place)
    near = min(count, -(-len(distance) // 2))
    reach = float(np.partition(distance, near - 1)[near - 1])
    return float(count) * sides * reach / near


def spike_at(values: Floats, value: float, resolution: float, heaps: Heaps | None) -> Spike:
    """The room of a value that is known to be a spike, among observed values [n]."""
    own = lying_on(values, value, resolution)
    if not own.any() or own.all():
        return Spike(value, resolution)
    inner = values.min() < value < values.max()
    width = float(cell_widths(np.array([value]), (), resolution, heaps)[0])
    place = float(_placed(np.array(value), heaps))
    return Spike(value, max(_room(_placed(values, heaps), own, place, 2 if inner else 1) - width, width))


def _placed(values: Floats, heaps: Heaps | None) -> Floats:
    """Values with room for the heaps."""
    return values if heaps is None else heaps.spread(values)


def stretched(
    values: Floats, places: Floats | float, spikes: tuple[Spike, ...], resolution: float, heaps: Heaps | None = None
) -> Floats:
    """Data values with room for the heaps and the spikes; those on a spike are that value.

    places      where in the cell of a spike its values lie, 0 to 1
    resolution  see Spike.holds
    """
    for spike in spikes:
        values = np.where(spike.holds(values, resolution), spike.value, values)
    out = _placed(values, heaps)
    for spike in spikes:
        out = out + spike.width * np.where(values == spike.value, places, values > spike.value)
    return out


def squeezed(values: Floats, spikes: tuple[Spike, ...], heaps: Heaps | None = None) -> Floats:
    """The inverse of `stretched`: the room of a spike is its value."""
    before, out = 0.0, values
    for spike in spikes:
        start = float(_placed(np.array(spike.value), heaps)) + before
        out = out - np.clip(values - start, 0.0, spike.width)
        before += spike.width
    return out if heaps is None else heaps.gathered(out)


def cell_widths(values: Floats, spikes: tuple[Spike, ...], resolution: float, heaps: Heaps | None = None) -> Floats:
    """[n] over how much of the data units each of the values (not `stretched`) is spread."""
    widths = np.full(values.shape, resolution) if heaps is None else heaps.width(values)
    for spike in spikes:
        widths[spike.holds(values, resolution)] += spike.width
    return widths


def find_levels(values: Floats, resolution: float) -> tuple[float, ...]:
    """The levels among observed whole numbers [n] of a column of that resolution, smallest first; empty without any.

    Levels are at most MOST_LEVELS distinct values of which some neighbours lie farther apart than the spacing of the
    column (multiples of 5 have no gaps), and each gap is one in which values are lacking: see BESIDE and LACKING.
    """
    distinct, counts = np.unique(values, return_counts=True)
    if not 1 < len(distinct) <= MOST_LEVELS:
        return ()
    between = np.rint(np.diff(distinct) / resolution) - 1
    rarer = np.minimum(counts[:-1], counts[1:])
    empty = (rarer >= BESIDE) & (rarer * between >= LACKING)
    return tuple(distinct.tolist()) if (between > 0).any() and empty[between > 0].all() else ()


def find_gaps(values: Floats, resolution: float) -> tuple[tuple[float, float], ...]:
    """The gaps among observed values [n] of a column of that resolution, smallest first: of each the values beside it.
    One is where values are lacking as BESIDE and SURELY say; there are none where they would be more than MOST_GAPS.

    What differs by less than the resolution is one value, as it is spelled most often.
    """
    distinct, counts = np.unique(values, return_counts=True)
    cells, first = np.unique(np.rint((distinct - distinct[0]) / resolution), return_index=True)
    held = np.add.reduceat(counts, first)
    low, high, between = held[:-1], held[1:], np.diff(cells) - 1
    alike = (low + high) / (between + 2)
    nats = low * np.log(low / alike) + high * np.log(high / alike)
    gaps = np.flatnonzero((between > 0) & (np.minimum(low, high) >= BESIDE) & (nats >= SURELY))
    if len(gaps) > MOST_GAPS:
        return ()
    ends = np.append(first, len(distinct))

    def spelled(cell: int) -> float:
        here = slice(ends[cell], ends[cell + 1])
        return float(distinct[here][counts[here].argmax()])

    return tuple((spelled(gap), spelled(gap + 1)) for gap in gaps.tolist())


def are_few(values: Floats) -> bool:
    """Whether observed values [n] are MOST_LEVELS different ones at most, each held by BESIDE cells."""
    distinct, counts = np.unique(values, return_counts=True)
    return len(distinct) <= MOST_LEVELS and int(counts.min()) >= BESIDE


def are_few_apart(values: Floats, resolution: float, gaps: tuple[tuple[float, float], ...]) -> bool:
    """Whether observed values [n] are MOST_LEVELS at most, each held by BESIDE cells, and all places between them are
    in `gaps`, which take up the most of the range."""
    distinct, counts = np.unique(values, return_counts=True)
    if len(distinct) > MOST_LEVELS or counts.min() < BESIDE or not mostly_gaps(tuple(distinct.tolist()), resolution):
        return False
    beside = np.diff(distinct) < 1.5 * resolution
    return bool((beside | np.isin(distinct[:-1], [low for low, _ in gaps])).all())


def off_gaps(values: Floats, gaps: tuple[tuple[float, float], ...]) -> Floats:
    """The values, those in a gap moved to its nearer end."""
    if not gaps:
        return values
    low, high = np.array(gaps).T
    place = np.maximum(np.searchsorted(low, values) - 1, 0)
    low, high = low[place], high[place]
    ends = np.where(values - low < high - values, low, high)
    return np.where((low < values) & (values < high), ends, values)


def mostly_gaps(levels: tuple[float, ...], resolution: float) -> bool:
    """Whether fewer than half of the values that the column could have between its ends are levels."""
    return 2 * len(levels) < (levels[-1] - levels[0]) / resolution + 1


def numbers_of(values: Floats, levels: tuple[float, ...]) -> Floats:
    """The number of each value's level, the nearest one where it is none."""
    middles = 0.5 * (np.array(levels[:-1]) + np.array(levels[1:]))
    return np.searchsorted(middles, values).astype(np.float64)


def levels_at(numbers: Floats, levels: tuple[float, ...]) -> Floats:
    """The levels with the nearest numbers."""
    return np.array(levels)[np.clip(np.rint(numbers), 0, len(levels) - 1).astype(np.int64)]
