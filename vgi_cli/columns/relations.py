"""Relations between columns: what the cells of some columns of a table say exactly of another one's."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import KW_ONLY, replace
from fractions import Fraction
from functools import cached_property
from typing import Literal, final

import numpy as np
from pydantic import NonNegativeFloat, NonNegativeInt, PositiveInt
from pydantic.dataclasses import dataclass

from vgi_cli.columns.base import STRICT
from vgi_cli.columns.calendar import (
    LENGTHS,
    MOST,
    NOTHING,
    PARTS,
    PLACES,
    SECONDS,
    WORDS,
    Count,
    Ends,
    Part,
    Rounding,
    Span,
    code_from,
    day_after,
    day_between,
    days_before,
    days_in,
    exactly_between,
    least_between,
    part_of,
    place_in,
    wholes_between,
)
from vgi_cli.columns.caps import Beyond
from vgi_cli.columns.numerals import Bools, Floats, Ints, plain
from vgi_cli.columns.wording import first_names, named

SHOWN = 4
"""Terms of a sum that are written out."""
FLOAT = 1e-13
"""A number is a power of ten where it is off by no more than this share."""
FAR = 10**7
"""Days beyond which nothing is told from 1970, nor of more of them between two dates."""
INVERSE_DIGITS = 15
"""Digits of the inverse of a number that arithmetic leaves."""
PARTS_OF_ONE, MOST_SHOWN = 12, 6
"""Weights are halves, thirds, … to so many parts of one before they are anything else; those of more characters than
the latter are written as such."""

Base = Literal["e", "2", "10"]
BASES: dict[Base, float] = {"e": float(np.e), "10": 10.0, "2": 2.0}
"""Bases of logarithms."""
HalfWay = Literal["away", "even"]
"""What becomes of what is half way between two values; see `Relation`."""


@final
@dataclass(frozen=True, config=STRICT)
class Relation:
    """What holds in every row in which all cells of some columns are observed.

    names     of the columns; the first is the one that the others determine
    how       sum: weights @ cells = constant; product: of the cells, each to the power of its weight, that is the
              constant; levels: cells go one to one with the levels of the second of two columns; groups: levels of the
              second of two columns (or numbers, see keys) belong to levels of the first, several to each, or each has
              one number of it; bands: levels of the first of two columns (or months, quarters, weeks) are intervals of
              the second one; part: the first of two columns is a part of the moments of the second one, or follows from
              it; completed: the first of three columns is how many years, months, days or the like there are from the
              date of the second one to that of the third one, as a whole number (see span); pairs: codes of the second
              and the third one of three columns say together what the first one is; log: the first of two columns is
              the logarithm of the second one and the constant; greatest, least: the first one is that of the others,
              two at least, or of one other and the constant: that one, cut off. Bands may be years or months that are
              completed up to one day (see until)
    weights   one a column, the first one 1; of sums and products alone
    constant  data units; of completed what is added to the number of them, of those with `ends` the days from then to
              the third column, of what is cut off where that is
    rounded   whether the first column is what the others say at its resolution, and not exactly
    slack     how much farther it may be from that, since the others are rounded too; of rounded sums alone
    shift     what is added to that before it is rounded: half a digit less rounds down; of rounded ones alone
    half_way  what becomes of what lies half way between two values: rounded away from zero, as spreadsheets do, or to
              the even digit; None: that is not known. Of those that are rounded to the nearest value alone
    base      of log
    percent   of products what each column is divided by before it is added to 1, and is a factor then: -100 of a
              discount in percent, 1 of a rate of 0.19; 0 of a column that is a factor itself. Of the first one too: 100
              of a change in percent, -100 of a margin. Empty: all are factors
    otherwise  of products and logarithms what the first column is where the others leave it no value (see
              `undefined`); None: nothing, or not one number
    significant  digits to which the first column is rounded, where its cells have no more than so many and larger ones
              have fewer decimals for that; of rounded ones alone
    apart     where that is no rounding, but two columns differ by a few values alone: those that were seen, evenly
              spread, ascending; so with the last digits of a code whose first ones (by a weight of -10, -100, …) are
              the other column.
    codes     of what goes with levels, alone or in groups, the code by level; None where no row has both. Of bands the
              level of each, from the least on, of parts what goes with each from 0 on, where it is not the number of
              the part itself; None: there nothing is said. Of pairs the code of each
    keys      of groups whose second column is one of numbers: those that codes go with, smallest first
    pairs     codes of the second and the third column, or their numbers, that are in rows together, in their order
    often     of groups of levels how many cells hold each level of the second column; empty: not known
    cuts      the least value of each band but the first, smallest first
    part      which one of the moments, of parts alone
    count     what is counted of these since 1970-01-01, and ...
    begin     ... how many of them the code 0 of the second column is; of bands with `until` too
    until     of bands that are years or months completed from a date to one day: the first and the last day, since
              1970-01-01, that it may be by the rows of the fit
    span      what is counted of completed, and of bands with `until` years or months, ...
    rounding  ... how a number of these is rounded: years and months down, as calendar days are, and ...
    ends      of completed years or months: the date of the third column is that of the second one and so many of these,
              to the day, where a month has no such day its last one or the next one; None: somewhere in the year or the
              month after that
    dates     ... of the two dates what is counted of them since 1970-01-01, days or seconds, and how many of these the
              code 0 is
    beyond    of what is cut off at the constant how far the other column lies beyond it; None of others
    but       rows of the fit that contradict it
    """

    _: KW_ONLY
    names: tuple[str, ...]
    how: Literal[
        "sum", "product", "levels", "groups", "bands", "part", "completed", "pairs", "log", "greatest", "least"
    ] = "sum"
    weights: tuple[float, ...] = ()
    constant: float = 0.0
    rounded: bool = False
    slack: NonNegativeFloat = 0.0
    shift: float = 0.0
    half_way: HalfWay | None = None
    base: Base | None = None
    percent: tuple[float, ...] = ()
    otherwise: float | None = None
    significant: PositiveInt | None = None
    apart: tuple[float, ...] = ()
    codes: tuple[float | None, ...] = ()
    keys: tuple[float, ...] = ()
    pairs: tuple[tuple[float, float], ...] = ()
    often: tuple[NonNegativeInt, ...] = ()
    cuts: tuple[float, ...] = ()
    part: Part | None = None
    count: Count | None = None
    begin: float = 0.0
    until: tuple[int, int] | None = None
    span: Span | None = None
    rounding: Rounding = "down"
    ends: Ends | None = None
    dates: tuple[tuple[Literal["D", "s"], float], ...] = ()
    beyond: Beyond | None = None
    but: NonNegativeInt = 0

    def __post_init__(self) -> None:
        if self.how == "levels":
            used = [code for code in self.codes if code is not None]
            sound = len(self.names) == 2 and not self.weights and not self.rounded and 0 < len(used) == len(set(used))
        elif self.how == "groups":
            used = [code for code in self.codes if code is not None]
            sound = len(self.names) == 2 and not self.weights and not self.rounded and len(set(used)) > 1
            sound = sound and (not self.keys or len(self.keys) == len(self.codes))
            sound = sound and list(self.keys) == sorted(set(self.keys))
        elif self.how == "bands":
            known = [code for code in self.codes if code is not None]
            sound = len(self.names) == 2 and not self.weights and not self.rounded
            sound = sound and len(self.codes) == len(self.cuts) + 1 > 1 and 0 < len(known) == len(set(known))
            sound = sound and list(self.cuts) == sorted(set(self.cuts))
            if self.until is not None:
                sound = sound and self.span in ("year", "month") and self.count in ("D", "s")
                sound = sound and self.until[0] <= self.until[1]
        elif self.how == "part":
            sound = len(self.names) == 2 and not self.weights and not self.rounded
            if self.part is None or self.count is None or self.part not in PARTS[self.count]:
                sound = False
            elif self.codes:
                sound = sound and self.part in MOST and len(self.codes) == MOST[self.part] + 1
        elif self.how == "completed":
            sound = len(self.names) == 3 and len(self.dates) == 2 and self.span is not None
            sound = sound and not self.weights and not self.rounded and not self.codes
            sound = sound and self.constant == round(self.constant)
            sound = sound and (self.span not in ("year", "month") or self.constant == 0 or self.ends is not None)
        elif self.how == "pairs":
            sound = len(self.names) == 3 and not self.weights and not self.rounded and None not in self.codes
            sound = sound and len(self.pairs) == len(self.codes) and len(set(self.codes)) > 1
            sound = sound and list(self.pairs) == sorted(set(self.pairs))
        elif self.how == "log":
            sound = len(self.names) == 2 and not self.weights and self.base is not None and self.constant >= 0
            sound = sound and not (self.codes or self.slack or self.shift or self.apart or self.percent)
            sound = sound and (self.rounded or (self.significant is None and self.half_way is None))
        elif self.extreme:
            plain = not (self.weights or self.rounded or self.slack or self.shift or self.apart)
            others = len(self.names) == 2 if self.capped else len(self.names) > 2 and not self.constant
            sound = others and plain and not self.codes and self.half_way is None
        else:
            sound = len(self.names) == len(self.weights) >= 2 and self.weights[0] == 1 and not self.codes
            sound = sound and 0 not in self.weights and (self.how == "sum" or self.constant > 0)
            sound = sound and (not self.slack or (self.rounded and self.how == "sum"))
            sound = sound and (self.rounded or (not self.shift and self.significant is None))
            sound = sound and (self.half_way is None or (self.rounded and not self.shift))
            ordered = list(self.apart) == sorted(self.apart) and len(self.weights) == 2 and self.weights[1] <= -1
            sound = sound and (not self.apart or (self.slack > 0 and ordered))
            shares = [weight for weight, whole in zip(self.weights, self.percent, strict=False) if whole]
            sound = sound and (not self.percent or (self.how == "product" and len(self.percent) == len(self.weights)))
            sound = sound and all(abs(weight) == 1 for weight in shares)
            sound = sound and not (self.shift and any(self.percent[:1]))
        sound = sound and (not self.often or (self.of_levels and len(self.often) == len(self.codes)))
        sound = sound and (self.extreme or not self.capped)
        sound = sound and (self.how == "groups" or not self.keys) and (self.how == "product" or not self.percent)
        sound = sound and (self.how in ("product", "log") or self.otherwise is None)
        sound = sound and (self.how == "pairs" or not self.pairs) and (self.how == "log" or self.base is None)
        sound = sound and (self.how == "completed" or not self.dates) and (self.how == "bands" or self.until is None)
        sound = sound and (self.how == "completed" or (self.span is None) == (self.until is None))
        sound = sound and (self.span in LENGTHS or self.rounding == "down")
        sound = sound and (self.ends is None or (self.how == "completed" and self.span in ("year", "month")))
        if not sound or (self.part is None) != (self.how != "part") or len(set(self.names)) != len(self.names):
            raise ValueError("the relation does not fit its columns")

    @property
    def coded(self) -> bool:
        """Whether codes say what the first column is."""
        return self.how in ("levels", "groups", "bands", "part", "pairs")

    @property
    def extreme(self) -> bool:
        """Whether the first column is the greatest or the least of the others."""
        return self.how in ("greatest", "least")

    @property
    def capped(self) -> bool:
        """Whether the first column is the other one, cut off at the constant."""
        return self.beyond is not None

    @property
    def near(self) -> bool:
        """Whether two columns differ by a few values alone, and not by the last digits of one."""
        return bool(self.apart) and self.weights == (1.0, -1.0)

    @property
    def loose(self) -> bool:
        """Whether the first column leaves the others several values."""
        return self.how in ("groups", "bands", "part", "pairs")

    @property
    def mutual(self) -> bool:
        """Whether each of two columns says the other one, but for rounding."""
        alone = len(self.names) == 2 and not self.slack and not self.apart
        return alone and self.how in ("sum", "product", "log", "levels")

    @property
    def of_levels(self) -> bool:
        """Whether several levels of the second column belong to one level, or have one number, of the first one."""
        return self.how == "groups" and not self.keys

    @property
    def frequencies(self) -> Floats:
        """[codes] how often each level of the second of two columns occurs; 1 where that is not known."""
        return np.array(self.often, np.float64) if self.often else np.ones(len(self.codes))

    @property
    def coding(self) -> Floats:
        """[codes] the codes; NaN: none."""
        return np.array([np.nan if code is None else code for code in self.codes])

    def without(self, names: Collection[str]) -> Relation | None:
        """What it says of a row in which nothing belongs in some columns; None where that is nothing."""
        if not set(self.names) & set(names):
            return self
        left = tuple(name for name in self.names[1:] if name not in names)
        if not self.extreme or self.names[0] in names or not left:
            return None
        own = (self.names[0], *left)
        return replace(self, names=own) if len(left) > 1 else Relation(names=own, weights=(1.0, -1.0))

    def said_in(self, values: Floats) -> Floats:
        """[..] the code of the first column by the others of values [.., columns], where codes say it; NaN: they say
        nothing."""
        return self.said_by_pair(values[..., 1], values[..., 2]) if self.how == "pairs" else self.said(values[..., 1])

    def seen(self, place: int) -> Floats:
        """The different codes of the second (`place` 1) or the third column (2) of pairs, in their order."""
        return np.unique([pair[place - 1] for pair in self.pairs])

    def said_by_pair(self, second: Floats, third: Floats) -> Floats:
        """[..] the code of the first column by the second one and the third one [..], of pairs; NaN: it has none."""
        seen = self.seen(1), self.seen(2)
        codes = np.full([len(own) + 1 for own in seen], np.nan)
        at = (_places_in(own, part) for own, part in zip(seen, np.array(self.pairs).T, strict=True))
        codes[tuple(at)] = self.coding
        return np.asarray(codes[_places_in(seen[0], second), _places_in(seen[1], third)])

    def said(self, second: Floats) -> Floats:
        """[..] the code of the first column by the second one [..], of two columns; NaN: they say nothing."""
        if self.how == "part":
            assert self.part is not None and self.count is not None, "a part of moments"
            found = part_of(second + self.begin, self.count, self.part)
            known = np.isfinite(found)
            return np.where(known, self.coding[np.where(known, found, 0).astype(int)], np.nan) if self.codes else found
        if self.keys:
            keys, codes = np.array(self.keys), self.coding
            places = np.minimum(np.searchsorted(keys, second), len(keys) - 1)
            return np.where(keys[places] == second, codes[places], np.nan)
        places = second.astype(int) if self.how != "bands" else np.searchsorted(self.cuts, second, side="right")
        return np.asarray(self.coding[places])

    def might_say(self, second: Floats) -> tuple[Floats, Floats]:
        """[..] the least and the greatest that years or months which are completed up to one day may be by a date
        [..], since more days than one may be this one; NaN: nothing is said."""
        assert self.until is not None, "completed up to one day"
        unit, day = SECONDS if self.count == "s" else 1, day_between(*self.until)
        earlier, later = ((day - end) * unit for end in self.until)
        return self.said(second + earlier), self.said(second + later)

    def undefined(self, values: Floats) -> Bools:
        """[..] where the others of values [.., columns] leave the first column no value: a ratio to zero, the logarithm
        of zero or less."""
        none = np.zeros(values.shape[:-1], bool)
        for place, limit in self.without_value.items():
            none |= values[..., place] <= limit if self.how == "log" else values[..., place] == limit
        return none

    @cached_property
    def without_value(self) -> dict[int, float]:
        """By the places of other columns the number at which the first one has no value, of a logarithm at most
        which."""
        if self.how == "log":
            return {1: 0.0 - self.constant}
        below = enumerate(self.weights[1:] if self.how == "product" else (), 1)
        return {place: 0.0 - self.percent[place] if self.percent else 0.0 for place, weight in below if weight > 0}

    def solved(self, values: Floats, place: int, first: Floats) -> Floats:
        """[..] the cell at `place` of a sum or a product, from the others of values [.., columns] and `first` [..] in
        place of the first one; infinite or NaN where there is none. The root of a square has the sign that is there.
        Of completed years a date as it is, moved to where it has to lie; so with one of which another one is the
        greatest, which may lie anywhere below where a third one is equal to that."""
        found = self._solved(values, place, first)
        return found if place or self.otherwise is None else np.where(self.undefined(values), self.otherwise, found)

    def _solved(self, values: Floats, place: int, first: Floats) -> Floats:
        """[..] the same but for `otherwise`."""
        if self.how == "completed":
            if place == 0:
                return self.completed(values)
            low, high = self.window(values, place, first)
            last = high - (NOTHING if self.dates[place - 1][0] == "s" else 1)
            return np.where(low < high, np.clip(values[..., place], low, last), np.nan)
        if self.extreme:
            extreme, others = np.maximum if self.how == "greatest" else np.minimum, self.compared(values)
            rest = extreme.reduce(np.delete(others, place - 1, -1) if place else others, -1)
            nearest = (np.minimum if self.how == "greatest" else np.maximum)(values[..., place], first)
            return np.where(rest == first, nearest, first) if place else rest
        if self.base is not None:
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                if place == 0:
                    return np.asarray(np.log(values[..., 1] + self.constant) / np.log(BASES[self.base]))
                return np.asarray(BASES[self.base] ** first - self.constant)
        weights = np.array(self.weights)
        rest = [i for i in range(1, len(weights)) if i != place]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            if self.how == "sum":
                left = self.constant + self.shift - values[..., rest] @ weights[rest]
                return np.asarray(left if place == 0 else (left - first) / weights[place])
            values, whole = self.factors(values), self.percent[0] if self.percent else 0.0
            left = self.constant * np.prod(values[..., rest] ** -weights[rest], -1)
            if place == 0:
                return np.asarray((left - 1) * whole if whole else left + self.shift)
            root = (left / (1 + first / whole if whole else first - self.shift)) ** (1 / weights[place])
            if self.percent and self.percent[place]:
                return np.asarray((root - 1) * self.percent[place])
            below = (values[..., place] < 0) & (weights[place] % 2 == 0)
            return np.asarray(np.where(below, -root, root))

    def compared(self, values: Floats) -> Floats:
        """[.., k] of what the first column of values [.., columns] is the greatest or the least."""
        if not self.capped:
            return values[..., 1:]
        return np.stack([values[..., 1], np.full(values.shape[:-1], self.constant)], -1)

    def past(self, values: Floats) -> Floats:
        """[..] how far values [..] lie beyond the constant at which a column is cut off; below 0 where they do not."""
        return (values - self.constant) * (1 if self.how == "least" else -1)

    def completed(self, values: Floats) -> Floats:
        """[..] how many years, days or the like there are between the dates of values [.., columns]; NaN where one is
        missing, or the dates are no whole number of years or months apart that are exact."""
        assert self.span is not None, "completed years or the like"
        known = np.isfinite(values[..., 1]) & np.isfinite(values[..., 2])
        if self.ends is not None:
            begin, end = (self._places(values, place, "calendar day") for place in (1, 2))
            exact = exactly_between(begin, end - int(self.constant), self.span, self.ends)
            return np.where(known, exact, np.nan)
        first, last = (self._places(values, place, self.span) for place in (1, 2))
        return np.where(known, wholes_between(last - first, self.span, self.rounding) + self.constant, np.nan)

    def window(self, values: Floats, place: int, first: Floats) -> tuple[Floats, Floats]:
        """[..] from where on, and before what, the code of a date at a `place` (1 or 2) has to lie, by the other date
        in values [.., columns] and the completed years or the like [..]; NaN where one is missing."""
        assert self.span is not None, "completed years or the like"
        if self.ends is not None:
            return self._days_at(values, place, first)
        span, most = self.span, FAR / days_in(self.span)
        known = np.isfinite(values[..., 3 - place]) & np.isfinite(first)
        whole = np.rint(np.clip(np.where(known, first - self.constant, 0.0), -most, most)).astype(np.int64)
        other = self._places(values, 3 - place, span)
        least, more = (least_between(count, span, self.rounding) for count in (whole, whole + 1))
        ends = (other + least, other + more) if place == 2 else (other - more + 1, other - least + 1)
        low, high = (np.where(known, code_from(span, end, *self.dates[place - 1]), np.nan) for end in ends)
        return low, high

    def _days_at(self, values: Floats, place: int, first: Floats) -> tuple[Floats, Floats]:
        """[..] the same where a date is another one and so many years or months, to the day; both ends are one where
        there is no such day."""
        assert self.span is not None and self.ends is not None, "years or months to the day"
        most, days = FAR / days_in(self.span), int(self.constant)
        known = np.isfinite(values[..., 3 - place]) & np.isfinite(first)
        places = PLACES[self.span] * np.rint(np.clip(np.where(known, first, 0.0), -most, most)).astype(np.int64)
        other = self._places(values, 3 - place, "calendar day")
        if place == 2:
            own = day_after(other, places, self.ends) + days
            ends = (own, own + 1)
        else:
            ends = days_before(other - days, places, self.ends)
        low, high = (np.where(known, code_from("calendar day", end, *self.dates[place - 1]), np.nan) for end in ends)
        return low, high

    def days_between(self, first: float) -> Floats:
        """[k] how many calendar days there may be between two datetimes that are so many days or the like apart, where
        these have a fixed length."""
        assert self.span is not None, "days or the like"
        whole = int(first - self.constant)
        if self.span == "calendar day":
            return np.array([float(whole)])
        ends = (int(least_between(np.array(end), self.span, self.rounding)) for end in (whole, whole + 1))
        least, more = (end / PLACES["day"] for end in ends)
        return np.arange(np.floor(least), np.ceil(more) + 1)

    def _places(self, values: Floats, place: int, span: Span) -> Ints:
        """[..] the places, in a span, of the date at a place of values [.., columns]; any of one that is missing."""
        count, begin = self.dates[place - 1]
        far = FAR * (SECONDS if count == "s" else 1)
        codes = np.clip(np.nan_to_num(values[..., place]), -far - begin, far - begin)
        return place_in(span, codes, count, begin)

    def factors(self, values: Floats) -> Floats:
        """[.., columns] what is multiplied in a product of cells [.., columns]."""
        return factors_of(values, self.percent) if self.percent else values

    def open_by(self, first: Floats, half: float, side: Floats | int = 0) -> Floats:
        """[..] how far cells of the first column [..], whose last digit counts twice `half` (0: they have none), may be
        from what the others say, beyond the rounding of arithmetic; `side`: see `halves_at`."""
        if not self.rounded:
            return np.zeros(first.shape)
        return halves_at(first, half, self.significant, side) + self.slack

    def size(self, values: Floats) -> Floats:
        """[..] how large the terms are from which `solved` computes the first column: rounding errors are a share of
        that."""
        if self.extreme:
            return np.abs(values[..., 0])
        weights = np.array(self.weights)
        if self.how == "sum":
            return np.asarray(np.abs(values) @ np.abs(weights) + abs(self.constant))
        whole = abs(self.percent[0]) if self.percent else float(self.how == "log")  # what is added to it, or its factor
        return np.maximum(np.abs(self.solved(values, 0, values[..., 0])), np.abs(values[..., 0])) + whole

    def words(self, counted: bool = True, *, whole: bool = False) -> str:
        """`'cnt' = 'casual' + 'registered'`; `counted`: whether weights and constants say something to a reader, which
        those of dates do not; `whole`: with all terms of a sum."""
        first, *others = self.names
        if self.how == "levels":
            return f"'{first}' and the levels of '{others[0]}' go one to one"
        if self.until is not None:
            first_day, last_day = (np.datetime64(day, "D") for day in self.until)
            day = str(first_day) if first_day == last_day else f"a day from {first_day} to {last_day}"
            return f"'{first}' = completed {self.span}s from '{others[0]}' to {day}"
        if self.how in ("groups", "bands"):
            return f"'{first}' follows from '{others[0]}'"
        if self.how == "pairs":
            return f"'{first}' follows from '{others[0]}' and '{others[1]}'"
        if self.part is not None:
            used = [code for code in self.codes if code is not None]
            how = "is" if len(set(used)) == len(used) else "follows from"
            return f"'{first}' {how} the {WORDS[self.part]} of '{others[0]}'"
        if self.ends is not None:
            days = abs(int(self.constant))
            added = _signed(self.constant, f"{days} day{'s' * (days > 1)}") if days else ""
            none_such = f", March 1 for February {30 if self.span == 'month' else 29}" * (self.ends == "next")
            return f"'{others[1]}' = '{others[0]}' + '{first}' {self.span}s{added}{none_such}"
        if self.span is not None:
            return f"'{first}' = {self._counted} from '{others[0]}' to '{others[1]}'{self._rounding}"
        if self.base is not None:
            log = "ln" if self.base == "e" else f"log{self.base}"
            added = f"{plain(self.constant)} + " * (self.constant != 0)
            return f"'{first}' = {log}({added}'{others[0]}'){self._rounding}{self._otherwise}"
        if self.extreme:
            quoted = [f"'{name}'" for name in others]
            if self.capped:
                side = "most" if self.how == "least" else "least"
                return f"'{first}' = {quoted[0]}, at {side} {plain(self.constant)}"
            if len(quoted) > 2:
                return f"'{first}' = the {self.how} of {first_names(quoted)}"
            return f"'{first}' = the {'greater' if self.how == 'greatest' else 'lesser'} of {' and '.join(quoted)}"
        if self.how == "product":
            product = self._change if any(self.percent[:1]) else self._product
            return f"'{first}' = {product}{self._rounding}{self._otherwise}"
        if self.apart and self.weights[1] < -1:
            digits = len(plain(-self.weights[1])) - 1
            least, most = (f"{round(self.constant + side * self.slack):0{digits}}" for side in (-1, 1))
            rest = f"the others {least} to {most}" if least != most else f"the others {least}"
            return f"the first digits of '{first}' are '{others[0]}', {rest}"
        if self.apart and not counted:
            return f"'{first}' is as far from '{others[0]}' as was seen"
        if self.apart:
            least, most = (plain(self.constant + side * self.slack) for side in (-1, 1))
            return f"'{first}' - '{others[0]}' is from {least} to {most}"
        if not counted:
            return f"'{first}' follows from {named('column', others)}"
        return f"'{first}' = {self._sum(whole)}{self._rounding}"

    @property
    def _counted(self) -> str:
        """`completed years`, `1 + calendar days`, `years of 365.25 days`: what is counted between two dates."""
        completed = "completed " * (self.rounding == "down" and self.span != "calendar day")
        what, of, days = str(self.span).partition(" of ")
        return f"{plain(self.constant)} + " * (self.constant != 0) + f"{completed}{what}s{of}{days}"

    @property
    def _rounding(self) -> str:
        """`, rounded down`."""
        if self.how == "completed":
            return {"down": "", "up": ", rounded up"}.get(self.rounding, ", rounded")
        if self.slack:
            return ", as all are rounded"
        side = " down" if self.shift < 0 else " up" if self.shift > 0 else ""
        digits = "" if self.significant is None else f" to {self.significant} digits"
        return f", rounded{side}{digits}" * self.rounded

    @property
    def _otherwise(self) -> str:
        """`, 0 where that has no value`."""
        return "" if self.otherwise is None else f", {plain(self.otherwise)} where that has no value"

    def _sum(self, whole: bool) -> str:
        """`2 'a' - 'b' + 7`, first one that is added, where there is any; `whole`: with all terms."""
        terms = [(-weight, f"'{name}'") for name, weight in zip(self.names[1:], self.weights[1:], strict=True)]
        first = next((place for place, (weight, _) in enumerate(terms) if weight > 0), 0)
        terms.insert(0, terms.pop(first))
        texts = [_signed(weight, f"{_times(abs(weight))}{name}") for weight, name in terms]
        if len(texts) > SHOWN and not whole:
            texts = [*texts[: SHOWN - 1], f" + … ({len(texts) - SHOWN + 1} more)"]
        if self.constant:
            place = 0 if self.constant > 0 > terms[0][0] else len(texts)
            texts.insert(place, _signed(self.constant, plain(abs(self.constant))))
        written = "".join(texts)
        return written[3:] if written.startswith(" + ") else "-" + written[3:]

    @property
    def _change(self) -> str:
        """`100 × ('sales' / 'before' - 1)`, `1 - 'cost' / 'price'`: of a first column that is divided by `percent`."""
        whole = self.percent[0]
        change = f"{self._product} - 1" if whole > 0 else f"1 - {self._product}"
        return change if abs(whole) == 1 else f"{plain(abs(whole))} × ({change})"

    @property
    def _product(self) -> str:
        """`10000 × 'weight' / 'height'^2`."""
        above: list[str] = []
        below: list[str] = []
        percent = self.percent or (0.0,) * len(self.names)
        terms = zip(self.names[1:], self.weights[1:], percent[1:], strict=True)
        for name, weight, whole in sorted(terms, key=lambda term: term[2] != 0):
            power = "" if abs(weight) == 1 else f"^{plain(abs(weight))}"
            factor = f"'{name}'{power}"
            if whole:
                shown = f"'{name}'" + f" / {plain(abs(whole))}" * (abs(whole) != 1)
                factor = f"(1{_signed(whole, shown)})"
            (above if weight < 0 else below).append(factor)
        inverse = _short_inverse(self.constant)
        if inverse is not None:
            below.insert(0, inverse)
        constant = [_written(self.constant)] if (self.constant != 1 and inverse is None) or not above else []
        return " × ".join([*constant, *above]) + "".join(f" / {one}" for one in below)


def _places_in(own: Floats, codes: Floats) -> Ints:
    """[..] the places of codes [..] among some [n] in their order; n of another one."""
    places = np.minimum(np.searchsorted(own, codes), len(own) - 1)
    return np.where(own[places] == codes, places, len(own))


def factors_of(values: Floats, percent: tuple[float, ...]) -> Floats:
    """[.., columns] cells [.., columns] as the factors of a product: see `percent` of a Relation."""
    whole = np.array(percent)
    return np.asarray(np.where(whole == 0, values, 1 + values / np.where(whole == 0, 1.0, whole)))


def halves_at(values: Floats, half: float, significant: int | None, side: Floats | int = 0) -> Floats:
    """[..] half of what the last digit of values [..] counts, data units: `half` of a column whose cells have the same
    decimals, more where large cells have fewer of them, since none has more than so many significant digits.

    side  where the numbers lie that are rounded to them: 1 above [..], -1 below, 0 on either side. What is rounded to a
          power of ten has one digit more below it (99.95 to 100.5 are 100 in three digits).
    """
    if significant is None:
        return np.full(values.shape, half)
    size = np.abs(values)
    usual = np.isfinite(size) & (size > 0)
    places = np.floor(np.log10(np.where(usual, size, 1.0)))
    with np.errstate(over="ignore", under="ignore"):
        places -= (np.sign(values) * side < 0) & (size <= 10.0**places * (1 + FLOAT))
        return np.where(usual, np.maximum(half, 0.5 * 10.0 ** (places + 1 - significant)), half)


def _times(weight: float) -> str:
    """`1.8 `, `1/3 `, nothing of 1."""
    if weight == 1:
        return ""
    if len(shown := _written(weight)) <= MOST_SHOWN:
        return f"{shown} "
    simple = Fraction(weight).limit_denominator(PARTS_OF_ONE)
    if float(simple) == weight:
        return f"{simple} "
    inverse = _short_inverse(weight)
    return f"{shown} " if inverse is None else f"1/{inverse} "


def _short_inverse(factor: float) -> str | None:
    """The inverse of a positive factor that is no short number, where that is one; None where it is not."""
    inverse = plain(float(f"{1 / factor:.{INVERSE_DIGITS}g}"))
    return inverse if len(_written(factor)) > MOST_SHOWN >= len(inverse) else None


def _written(factor: float) -> str:
    """A positive factor as text: `1e9` of a long number with few digits."""
    shown, (digits, power) = plain(factor), f"{factor:.{INVERSE_DIGITS - 1}e}".split("e")
    short = f"{plain(float(digits))}e{int(power)}"
    return short if len(shown) > MOST_SHOWN >= len(short) and float(short) == factor else shown


def _signed(value: float, text: str) -> str:
    return f" {'-' if value < 0 else '+'} {text}"
