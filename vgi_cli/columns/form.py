"""The form of a column of numbers: what those that were observed say of how they are rounded, where they pile up,
within which bounds they lie and on which scale they are modelled. number.py makes a column of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from vgi_cli.columns.base import Asked, Cells, Request
from vgi_cli.columns.bounds import MOST_FEW, Bound, bounds_of, calendar_ends
from vgi_cli.columns.heaps import Heaps, find_heaps
from vgi_cli.columns.lattice import (
    LEAST_SD,
    MOST_LEVELS,
    SHARE,
    Lattice,
    Spike,
    are_few,
    are_few_apart,
    are_shorter,
    fewest_at_end,
    find_gaps,
    find_lattice,
    find_levels,
    find_significant,
    find_spikes,
    has_repeats,
    numbers_of,
    spike_at,
    spikes_of_logs,
    stand_in,
)
from vgi_cli.columns.numerals import Floats, plain
from vgi_cli.columns.scale import Scale, fit_scale, log_ends
from vgi_cli.columns.wording import example, kind_flag, missing_hint, token_hint, typed
from vgi_cli.errors import InputError, UsageError

COARSE = 1e-3
"""A resolution above this share of the standard deviation is dequantised."""
DUST = 6
"""Decimals that a few values have beyond all others where they are results of arithmetic, no resolution."""

MOST_FINER = 0.01
"""Share of the numbers that may have more decimals than all others: slips, which say nothing of how the others are
rounded."""
FINER = 1e-6
"""Of a last digit, by which a number that has more decimals is off at least."""
FAR_SMALLER = 10.0
"""Times such numbers that the least of the others is, or more, where they are far smaller (a share among percentages):
nearer ones may have more decimals because they are small."""

LARGEST = 1e280
"""Greatest size of a number in a modelled column: FURTHEST standard deviations of such are float64 numbers too."""
CLOSEST = 1e-280
"""Least range of a modelled column: what it is divided by."""
COARSEST, FINEST = 1e8, 1e-8
"""Greatest size and least range of a column that is modelled as it is (`table.transform=none`)."""

FEWEST_OFF = 50
"""Observed cells off a pile from which on it is split off."""


class Measure(NamedTuple):
    """How numbers are rounded that stand for something else, such as dates.

    decimals  of each, as they are counted
    step      units of the last decimal, of which they are multiples
    zero      whether zero is a natural limit where all are on one side of it
    """

    decimals: int
    step: int
    zero: bool


@dataclass(frozen=True)
class Observed:
    """The observed numbers of a column, and what was asked of it.

    cells    of the column
    asked    of it
    every    [n] all of the numbers
    values   [m] those among them that statistics come from
    measure  how they are rounded, where they stand for something else; None: as they are written
    spike    a value that gets room however many cells hold it; None: no value does
    """

    cells: Cells
    asked: Request
    every: Floats
    values: Floats
    measure: Measure | None = None
    spike: float | None = None

    @cached_property
    def whole(self) -> bool:
        """Whether all numbers are whole."""
        return bool((self.every == np.rint(self.every)).all())

    @property
    def integer(self) -> bool:
        """Whether the column is one of whole numbers."""
        return self.whole and self.asked.kind != "numeric"

    @property
    def power(self) -> str:
        """How the powers of ten are written, where most cells have one and the column's fills get one too."""
        spelled = self.cells.spelling
        if spelled is None or self.asked.kind == "integer" or self.cells.notation is not None:
            return ""
        return spelled.power

    @property
    def fewest(self) -> int:
        """Fewest decimals with which a number is written."""
        return 0 if self.cells.spelling is None else self.cells.spelling.everywhere

    @property
    def digits(self) -> int:
        """Significant digits of all but a few."""
        return 17 if self.cells.spelling is None else self.cells.spelling.significant

    @cached_property
    def lattice(self) -> Lattice | None:
        """The values of a rounded column; None where nothing is rounded."""
        spelled = self.cells.spelling
        if self.whole and not self.integer:
            return None
        if self.measure is not None:
            decimals, step = self.measure.decimals, self.measure.step
            found = find_lattice(self.every, self.values, decimals, search=False, single=False, step=step)
        else:
            most = 0 if self.whole else None if spelled is None else spelled.most
            search = spelled is None and not self.whole
            found = find_lattice(self.every, self.values, most, search=search, single=self.cells.single)
        if found is None or (spelled is not None and found.decimals > spelled.usual + DUST):
            return None
        return found if self.measure is not None else self._of_nearly_all(found)

    def _of_nearly_all(self, found: Lattice) -> Lattice:
        """A lattice that was found, or the one of the numbers that have fewer decimals, but one at least, where a few
        have more, and not because they are small."""
        usual = 1 if self.cells.spelling is None else self.cells.spelling.usual
        for decimals in range(max(found.decimals - DUST, usual, 1), found.decimals):
            finer = np.abs(self.every - np.round(self.every, decimals)) > FINER * 10.0**-decimals
            if finer.sum() > MOST_FINER * len(self.every):
                continue
            few, sizes = np.abs(self.every[finer]), np.abs(self.every[~finer & (self.every != 0)])
            if not len(few):
                break
            small = float(few.max()) < float(sizes.min(initial=np.inf)) < FAR_SMALLER * float(few.max())
            some = self.values[~np.isin(self.values, self.every[finer])]
            if small or not len(some):
                break
            return find_lattice(self.every[~finer], some, decimals, search=False, single=False) or found
        return found

    @property
    def scaled(self) -> bool:
        """Whether the column's numbers are modelled on a scale that its values suggest, not as they are."""
        return self.asked.encoding.transform != "none"

    @property
    def lifted(self) -> bool:
        """Whether all limits of the fills were lifted by request."""
        return self.asked.bounds is not None and self.asked.bounds.rule == "none"

    @cached_property
    def few(self) -> bool:
        """Whether there are so few values that whoever names the kind of the column wants others too."""
        return self.asked.kind is not None and len(np.unique(self.every)) <= MOST_LEVELS

    @property
    def where(self) -> str:
        """Of messages: which column it is."""
        return f"{self.cells.label}: column '{self.cells.name}'"

    def usable(self) -> Observed:
        """What a column can be modelled by. InputError where numbers cannot be computed with, or lie outside the limits
        that were asked for; UsageError where those are no limits of numbers."""
        self._refuse_magnitudes()
        bounds = self.asked.bounds
        if bounds is not None and bounds.moments is not None:  # of no number: a Moment has read its own
            self._refuse_moments(bounds)
            return replace(self, asked=self.asked._replace(bounds=None))
        if bounds is not None:
            self._refuse_outside(bounds)
        return self

    def refuse_broken(self) -> None:
        """InputError where whole numbers were asked for and some are not."""
        if self.asked.kind == "integer" and not self.whole:
            numbers = self.cells.numbers.values
            broken = np.isfinite(numbers) & (numbers != np.rint(numbers))
            message = f"{kind_said(self.cells, self.asked)}, but the column holds {example(self.cells, broken)}"
            raise InputError(message, f"`{kind_flag(self.cells.name, 'numeric')}`?")

    def _refuse_magnitudes(self) -> None:
        """InputError where numbers are too large, or too close together; two of `values` differ."""
        cells, transform = self.cells, self.asked.encoding.transform
        low, high = float(self.values.min()), float(self.values.max())
        apart = high - low
        with np.errstate(invalid="ignore"):
            large = np.abs(cells.numbers.values) > LARGEST
        carry = f"`{kind_flag(cells.name, 'carry')}` to carry the column as it is"
        if large.any():
            what = f"{self.where} holds a number too large to compute with: {example(cells, large)}"
            raise InputError(what, token_hint(cells, large))
        if apart < CLOSEST:
            message = f"{self.where} has values from {plain(low)} to {plain(high)}: too close together to compute with"
            raise InputError(message, f"write them in smaller units, or {carry}")
        if transform == "none" and (max(abs(low), abs(high)) > COARSEST or apart < FINEST):
            what = f"values from {plain(low)} to {plain(high)}, which table.transform=none leaves as they are"
            hint = f"`--set table.transform=linear` standardises every column; {carry}"
            raise InputError(f"{self.where} has {what}: too {'close together' if apart < FINEST else 'large'}", hint)

    def _refuse_moments(self, bounds: Asked) -> None:
        """UsageError where limits of dates or times were asked for of this column by name."""
        if bounds.named:
            name, low, high = self.cells.name, float(self.values.min()), float(self.values.max())
            message = f"{bounds.flag} {bounds.said}: column '{name}' holds numbers"
            limits = typed("--bounds", f"{name}={plain(low)}:{plain(high)}")
            raise UsageError(message, f"numbers take LOW:HIGH: `{limits}`")

    def _refuse_outside(self, bounds: Asked) -> None:
        """InputError where a number lies outside the limits that were asked for."""
        cells, values = self.cells, self.cells.numbers.values
        outside = np.zeros(len(values), bool)
        for limit, side in ((bounds.low, -1), (bounds.high, 1)):
            if limit is not None:
                outside |= side * values > side * limit
        if outside.any():
            held = f"but column '{cells.name}' holds {example(cells, outside)}"
            hint = f"{missing_hint(cells, outside)}, or give wider limits"
            raise InputError(f"{cells.label}: {bounds.flag} {bounds.said}, {held}", hint)


class Form(NamedTuple):
    """The form of a column: the fields of Number of the same names."""

    lattice: Lattice | None
    dequantise: bool
    significant: int | None
    levels: tuple[float, ...]
    gaps: tuple[tuple[float, float], ...]
    lower: Bound | None
    upper: Bound | None
    pile: float | None
    heaps: Heaps | None
    spikes: tuple[Spike, ...]
    scale: Scale
    sd: float | None
    sharp: float | None


def form_of(observed: Observed) -> Form:
    """The form of a column of observed numbers that are usable; two of its `values` differ.

    Where values at an end are one value that alone has more decimals (0.49 or 0.354, below a detection limit of 0.5),
    the others say how the column is rounded, if it piles up there.
    """
    deviation = fit_scale(observed.values, "linear", None, logs=False).sd
    others = _off_end(observed)
    if others is not None:
        return _form(observed, *_spread(observed, others.lattice, deviation), deviation, others.end)
    return _form(observed, *_spread(observed, observed.lattice, deviation), deviation)


class _OffEnd(NamedTuple):
    """The lattice of all values but those at an `end`, which are one value off it."""

    lattice: Lattice
    end: float


def _off_end(observed: Observed) -> _OffEnd | None:
    """Values at an end that pile up off the lattice of all others, where they may be split off; None where none do."""
    every, lattice = observed.every, observed.lattice
    if not _splits(observed) or observed.integer or observed.power:
        return None
    asked = observed.asked.bounds
    for end, open_ in (
        (float(every.min()), asked is None or (asked.rule == "range" and asked.low is None)),
        (float(every.max()), asked is None or (asked.rule == "range" and asked.high is None)),
    ):
        if not open_:  # somebody said where fills end there
            continue
        others, some = (values[values != end] for values in (every, observed.values))
        if len(every) - len(others) < _fewest_on_pile(every) or len(others) < FEWEST_OFF:
            continue
        if not len(some) or len(np.unique(others)) <= MOST_FEW:
            continue
        found = find_lattice(others, some, None, search=True, single=observed.cells.single)
        finer = lattice is None or lattice.stand_in or not lattice.off(end)
        if found is not None and found.off(end) and finer:
            return _OffEnd(found, end)
    return None


def _gaps(
    every: Floats, lattice: Lattice | None, resolution: float, end: float | None
) -> tuple[tuple[float, float], ...]:
    """The gaps among observed values [n]; where there is an `end` off the lattice, that beside it too."""
    if end is None or lattice is None:
        return find_gaps(every, resolution)
    others, side = every[every != end], 1 if end < float(every.max()) else -1
    nearest = float(others.min() if side > 0 else others.max())
    beside = (min(end, nearest), max(end, nearest))
    found = [*find_gaps(others, resolution), *([beside] if nearest != lattice.beyond(end, side) else [])]
    return tuple(sorted(found))


def _splits(observed: Observed) -> bool:
    """Whether a pile at an end may be split off."""
    return observed.asked.encoding.spikes == "split" and observed.scaled and observed.measure is None


def _fewest_on_pile(every: Floats) -> float:
    """How many observed cells [n] a pile holds at least."""
    return min(SHARE * len(every), fewest_at_end(len(every)))


def _form(
    observed: Observed, lattice: Lattice | None, dequantise: bool, deviation: float, end: float | None = None
) -> Form:
    """The form of a column whose values lie on a lattice, around each of which noise is spread or not. `deviation`: its
    standard deviation; `end`: a pile off the lattice."""
    encoding, every = observed.asked.encoding, observed.every
    resolution = lattice.resolution if lattice is not None and dequantise else None
    significant = _significant(observed, lattice)
    levels = _levels(observed, resolution)
    sharp = encoding.sharp
    if levels:
        if sharp is None:
            scale = fit_scale(numbers_of(observed.values, levels), encoding.transform, 1.0, few=True)
        else:
            scale = fit_scale(observed.values, encoding.transform, sharp, logs=encoding.logs)
        lower, upper = Bound(levels[0], "levels"), Bound(levels[-1], "levels")
        return Form(lattice, dequantise, None, levels, (), lower, upper, None, None, (), scale, deviation, sharp)
    open_range = resolution is None or observed.lifted or observed.few
    gaps = () if open_range or resolution is None else _gaps(every, lattice, resolution, end)
    zero = observed.measure is None or observed.measure.zero
    asked, limits = observed.asked.bounds, observed.cells.limits
    ends = calendar_ends(observed.cells.name, every) if observed.integer and observed.measure is None else None
    few = resolution is not None and are_few_apart(every, resolution, gaps)
    bounds = bounds_of(every, observed.integer, lattice, asked, limits, zero=zero, calendar=ends, repeated=few)
    if end is not None:
        low, high = bounds
        bounds = (Bound(end, "spike"), high) if end == every.min() else (low, Bound(end, "spike"))
    pile = end if end is not None else _pile(observed, bounds, lattice) if dequantise else None
    tail = _off_pile(observed, pile, lattice)
    heaps: Heaps | None = None
    spikes: tuple[Spike, ...] = ()
    if resolution is not None and observed.scaled and sharp is None:
        heaps, significant = _heaps(observed, tail, lattice, resolution, significant)
        spikes = _spikes(observed, tail, resolution, heaps, pile)
    plain = resolution is not None and sharp is None and pile is None and not spikes and heaps is None
    alone = plain and observed.asked.kind != "numeric" and are_few(observed.values)  # who says so allows others
    noise = resolution if sharp is None else sharp
    scale = fit_scale(tail, encoding.transform, noise, spikes, heaps, logs=encoding.logs, few=alone)
    apart = spikes or heaps or pile is not None or scale.logs is not None
    sd = deviation if apart else None
    return Form(lattice, dequantise, significant, (), gaps, *bounds, pile, heaps, spikes, scale, sd, sharp)


def _spread(observed: Observed, lattice: Lattice | None, deviation: float) -> tuple[Lattice | None, bool]:
    """The lattice of a column, one that stands in where nothing is rounded and yet values repeat, and whether noise is
    spread around each value; `deviation`: the standard deviation."""
    values, room = observed.values, observed.spike is not None
    if lattice is not None:
        coarse = observed.integer or lattice.resolution > COARSE * deviation
        return lattice, room or coarse or has_repeats(values)
    if observed.integer or not (room or has_repeats(values)):
        return None, False
    small = float(np.quantile(values, 0.05))
    over = small >= LEAST_SD and log_ends(values, 0.0, observed.asked.encoding.logs or None) is not None
    return stand_in(min(deviation, small) if over else deviation), True  # what is small has to stay apart


def _significant(observed: Observed, lattice: Lattice | None) -> int | None:
    """Significant digits to which fills are rounded; None: they are not."""
    if observed.power:
        return observed.digits
    if lattice is None or lattice.stand_in or observed.measure or observed.asked.kind == "integer":
        return None
    return find_significant(observed.every, lattice) if 10 % lattice.step == 0 else None  # else off its multiples


def _levels(observed: Observed, resolution: float | None) -> tuple[float, ...]:
    """The values that alone can occur, of whole numbers whose kind and limits nobody named; none: others can."""
    bounds = observed.asked.bounds
    free = bounds is None or bounds.rule == "observed" or not bounds.named
    if resolution is None or not (observed.scaled and observed.integer and observed.asked.kind is None and free):
        return ()
    return find_levels(observed.every, resolution)


def _pile(observed: Observed, bounds: Sequence[Bound | None], lattice: Lattice | None) -> float | None:
    """The largest of the spikes that is one of the admissible ends of the column, where enough values lie off it to
    have a law of their own; None without one, or where none is to be split off."""
    every, spike = observed.every, observed.spike
    if lattice is None or not _splits(observed):
        return None
    found = []
    for value in [bound.value for bound in bounds if bound is not None]:
        off = ~lattice.on(every, value)
        count = int(len(every) - off.sum())
        if count > 0 and off.sum() >= FEWEST_OFF and len(np.unique(every[off])) > MOST_FEW:
            found.append((count, value))
    known, fewest = {spike}, _fewest_on_pile(every)
    if any(count >= fewest and value != spike for count, value in found):  # else there is none to be found
        known |= {one.value for one in find_spikes(every, lattice.resolution)}
    found = [(count, value) for count, value in found if value in known]
    return max(found)[1] if found else None


def _off_pile(observed: Observed, pile: float | None, lattice: Lattice | None) -> Floats:
    """The values that are modelled by their numbers: those off the pile, where there is one; two of them differ."""
    if pile is None or lattice is None:
        return observed.values
    fitted, every = (some[~lattice.on(some, pile)] for some in (observed.values, observed.every))
    return fitted if len(np.unique(fitted)) > 1 else every


def _heaps(
    observed: Observed, tail: Floats, lattice: Lattice | None, resolution: float, significant: int | None
) -> tuple[Heaps | None, int | None]:
    """Multiples that stand out among the values off the pile, `tail` [n], where these say of themselves how they are
    rounded: not by request, by digits, or by what they stand for. And the `significant` digits, unless it is these
    multiples that leave large values so few of them."""
    hidden = observed.lifted or observed.few or observed.power or observed.measure
    if hidden or lattice is None or lattice.stand_in or lattice.origin % lattice.step != 0:
        return None, significant
    if significant and not are_shorter(observed.every, lattice, significant):
        return None, significant
    if log_ends(tail, resolution, observed.asked.encoding.logs) is not None:
        return None, significant
    heaps = find_heaps(tail, resolution, lattice.step, whole=observed.whole)
    return heaps, None if heaps else significant


def _spikes(
    observed: Observed, tail: Floats, resolution: float, heaps: Heaps | None, pile: float | None
) -> tuple[Spike, ...]:
    """Values that get room among those off the pile, `tail` [n], smallest first: the one that was asked for too, unless
    it is the pile's. Where logarithms are asked for, which these would hinder, those that pile up on them too."""
    spike, spikes = observed.spike, find_spikes(tail, resolution, heaps=heaps)
    if observed.asked.encoding.logs:
        spikes = spikes_of_logs(spikes, tail, resolution)
    if spike is None or pile is not None or any(one.value == spike for one in spikes):
        return spikes
    added = spike_at(tail, spike, resolution, heaps)
    return tuple(sorted([*spikes, added], key=lambda one: one.value))


def kind_said(cells: Cells, asked: Request) -> str:
    """Of messages: the kind that was asked for of a column, and where."""
    return f"{cells.label}: --column {cells.name}={asked.kind}"
