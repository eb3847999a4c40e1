"""Numbers as they are spelled: which digits a number needs, and its text."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]

NUMBER = r"^[+-]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?$"
"""What is a number; `007` is none."""
NUMERIC_SHARE = 0.9
"""From this share of numbers on, a column that is not all numbers is an error rather than text."""
EXACT = 2.0**53
"""From here on, neighbouring whole numbers are no longer float64 numbers."""
SINGLE_LIMIT = 2.0**24
"""From here on, neighbouring whole numbers are no longer float32 numbers."""
NO_DECIMALS = 400
"""Beyond the decimals of any float64: stands for `not a decimal fraction`."""

TINY = 1e-290
"""Smaller values are not rounded to digits: what they would be divided by is hardly a float64 number."""


class Numbers(NamedTuple):
    """The cells of one column read as numbers.

    values  [N] float64; NaN where the cell is missing or no number, infinite where it says so
    number  [N] bool; True where an observed cell is a number
    padded  [N] bool; True where an observed cell would be a number but for leading zeros (a code, not counted above)
    """

    values: Floats
    number: Bools
    padded: Bools


What = Literal["date", "datetime", "time", "duration"]
Tick = Literal["Q", "M", "W", "D", "s", "ms", "us", "ns"]


class Moments(NamedTuple):
    """The cells of one column that the file types as dates, datetimes, times of day or durations.

    ticks  [N] days, seconds or parts of a second since 1970-01-01 (UTC), since midnight, or of a duration; 0 where the
           cell is missing
    unit   the tick of the type
    zone   the time zone of datetimes, None where the type has none
    """

    what: What
    ticks: Ints
    unit: Tick
    zone: str | None


class Places(NamedTuple):
    """With how many decimals numbers are written, in cells that may come in parts.

    fewest   of all of them
    least    of those that have some; NO_DECIMALS where none has
    most     of all of them
    broken   how many are not whole
    zeros    how many have decimals, the last of which is a zero
    rounds   how many whole ones have decimals (`12.00`)
    bare     how many have none (`12`)
    """

    fewest: int
    least: int
    most: int
    broken: int
    zeros: int
    rounds: int
    bare: int

    def and_in(self, other: Places) -> Places:
        """Those of both parts."""
        counts = (a + b for a, b in zip(self[3:], other[3:], strict=True))
        ends = min(self.fewest, other.fewest), min(self.least, other.least), max(self.most, other.most)
        return Places(*ends, *counts)

    @property
    def fixed(self) -> int | None:
        """The decimals of each number that is not whole, where some cells have none, all others have as many, and some
        of these end in a zero (amounts in two currencies: `0.50`, `12`); None where `fewest` says all."""
        return self.most if self.bare and self.broken and self.zeros and self.least == self.most else None

    @property
    def everywhere(self) -> int:
        """The decimals that whole numbers are written with, and so all: `fixed` ones where at least as many have them
        (`12.00`) as have none."""
        money = self.fixed is not None and self.rounds and self.rounds >= self.bare
        return self.most if money else self.fewest


class Spelling(NamedTuple):
    """How the numbers of a column are written: fewest and most digits after the point, and how many (`usual`), and how
    many digits in all (`significant`, at most 17), are enough for all but a twentieth: a few results of arithmetic,
    8.459999999999999, say nothing of the others.

    `most` is NO_DECIMALS or less; exponents count (`1.5e-3` has 4 decimals), and so do the zeros of `1.50`.

    power  how powers of ten are written, where most cells have one: the letter, `+` where positive ones have a sign,
           and the fewest digits (`E+2` of `1.50E-08` and `2.00E+06`); else empty
    marks  `+` where most numbers above zero have a sign, `+0` where most zeros have one too, `.` where most below one
           have nothing before the point
    places  how many decimals are written, None where some have powers of ten
    """

    fewest: int
    most: int
    usual: int
    significant: int
    power: str = ""
    marks: str = ""
    places: Places | None = None

    @property
    def everywhere(self) -> int:
        """The decimals that every number is written with at least."""
        return self.fewest if self.places is None else self.places.everywhere

    @property
    def fixed(self) -> int | None:
        """As of `Places`."""
        return None if self.places is None else self.places.fixed


def places_of(decimals: Ints, zeros: Bools, rounds: Bools) -> Places:
    """`Places` of numbers: the decimals [n] of each, at least one number, which of them end in a zero after the point
    and which have only zeros there."""
    some = decimals > 0
    return Places(
        int(decimals.min()),
        int(decimals[some].min(initial=NO_DECIMALS)),
        int(decimals.max()),
        int((some & ~rounds).sum()),
        int(zeros.sum()),
        int(rounds.sum()),
        int((~some).sum()),
    )


def decimals_of(values: Floats, *, single: bool = False) -> int | None:
    """Fewest decimals that spell every value exactly, or None: from 0 up to 17, 15 significant digits at most.

    values  [n] finite float64
    single  the values are float32 numbers: they count as spelled when they agree to float32
    """
    exact = values.astype(np.float32) if single else values
    rest = np.arange(len(values))
    limit = SINGLE_LIMIT if single else 2.0**50
    for decimals in range(18):
        scale = 10.0**decimals
        units = np.rint(values[rest] * scale)
        if len(values) and np.abs(values).max() * scale > limit:
            return None
        shown = units / scale
        same = (shown.astype(np.float32) if single else shown) == exact[rest]
        rest = rest[~same]
        if len(rest) == 0:
            return decimals
    return None


class SingleDecimals:
    """Fewest decimals that spell every finite float32 number of a column, which may come in parts."""

    def __init__(self) -> None:
        self._decimals: int | None = 0
        self._largest = 0.0

    def add(self, values: Floats) -> SingleDecimals:
        """Look at some values."""
        finite = values[np.isfinite(values)]
        decimals = decimals_of(finite, single=True)
        both = self._decimals is not None and decimals is not None
        self._decimals = max(self._decimals or 0, decimals or 0) if both else None
        self._largest = max(self._largest, float(np.abs(finite).max(initial=0.0)))
        return self

    @property
    def found(self) -> int | None:
        """The decimals, None where there are none."""
        if self._decimals is None or self._largest * 10.0**self._decimals > SINGLE_LIMIT:
            return None
        return self._decimals


def shorten(values: Floats) -> Floats:
    """float32 numbers as the decimal fractions they were written as (0.1, not 0.10000000149), where all are such."""
    return at_decimals(values, SingleDecimals().add(values).found)


def at_decimals(values: Floats, decimals: int | None) -> Floats:
    """The nearest fractions with so many decimals; the values themselves where that is None."""
    if decimals is None:
        return values
    scale = 10.0**decimals
    return np.where(np.isfinite(values), np.rint(values * scale) / scale, values)


def write_numbers(values: Floats, *, fewest: int, most: int) -> list[str]:
    """Spell values with at most `most` decimals, trailing zeros cut down to `fewest`; never `-0`."""
    values = values + 0.0
    if most == 0:
        return [f"{v:.0f}" for v in values.tolist()]
    texts = [f"{v:.{most}f}" for v in values.tolist()]
    if fewest < most:
        keep = most - fewest
        texts = [_trim(t, keep) for t in texts]
    return [t[1:] if t.startswith("-") and not t.strip("-0.") else t for t in texts]


def _trim(text: str, most: int) -> str:
    """Cut at most `most` trailing zeros, and the point when nothing follows it."""
    short = text.rstrip("0")
    short = short if len(text) - len(short) <= most else text[: len(text) - most]
    return short.removesuffix(".")


def write_significant(values: Floats, digits: int) -> list[str]:
    """Spell values with `digits` significant digits, shortest form."""
    return [plain(float(f"{v:.{digits}g}")) for v in (values + 0.0).tolist()]


def at_digits(values: Floats, digits: int) -> Floats:
    """The nearest values with so many significant digits; those below TINY, or above 1 / TINY, as they are."""
    size = np.abs(values)
    exact = ~((size > TINY) & (size < 1 / TINY))
    places = digits - 1 - np.floor(np.log10(np.where(exact, 1.0, size)))
    up, down = 10.0 ** np.clip(places, 0, None), 10.0 ** np.clip(-places, 0, None)
    return np.where(exact, values, np.rint(values * up / down) / up * down)


def write_powers(values: Floats, digits: int, power: str) -> list[str]:
    """Spell values with `digits` significant digits and a power of ten, written as `Spelling.power` says."""
    letter, sign, width = power[0], "+" * ("+" in power), int(power[-1])
    texts = []
    for value in (values + 0.0).tolist():
        body, exponent = f"{value:.{digits - 1}e}".split("e")
        tens = int(exponent)
        texts.append(f"{body}{letter}{'-' if tens < 0 else sign}{abs(tens):0{width}d}")
    return texts


def mark(texts: list[str], marks: str) -> list[str]:
    """Texts of numbers as `Spelling.marks` says."""
    if "." in marks:
        texts = [re.sub(r"^(-?)0\.", r"\1.", text) for text in texts]
    if "+" not in marks:
        return texts
    signed = re.compile("[0-9.]" if "0" in marks else r"[0-9.]*[1-9]")
    return [f"+{text}" if signed.match(text) else text for text in texts]


def marks_of(count: Callable[[str], int]) -> str:
    """`Spelling.marks` of numbers; `count`: how many of their texts hold a match of a pattern."""
    marks, signs = "", count(r"^\+")
    if signs:
        marks += "+" * (signs > count("^[0-9.]*[1-9]"))
        zero = r"0*\.?0*([eE].*)?$"
        marks += "0" * (marks == "+" and count(rf"^\+{zero}") > count(f"^{zero}"))
    bare = count(r"^[+-]?\.[0-9]")
    if bare:
        marks += "." * (bare > count(r"^[+-]?0\."))
    return marks


def plain(value: float) -> str:
    """The shortest text that reads back as `value`; whole numbers without `.0`."""
    return repr(value).removesuffix(".0")


def at_fixed(texts: list[str], decimals: int | None) -> list[str]:
    """Numbers that `plain` wrote, with zeros up to so many decimals in those that have some; None: as they are."""
    return texts if decimals is None else [at_least(text, decimals) if "." in text else text for text in texts]


def at_least(text: str, decimals: int) -> str:
    """A number that `plain` wrote, with zeros up to so many decimals; as it is where it has a power of ten."""
    if "e" in text or not decimals:
        return text
    whole, _, part = text.partition(".")
    return f"{whole}.{part:0<{decimals}}"


def value_places(codes: Floats) -> Ints:
    """[N] the number of the value of each cell, by codes [N]; -1 where it is missing."""
    known = ~np.isnan(codes)
    places = np.full(len(codes), -1)
    places[known] = np.unique(codes[known], return_inverse=True)[1].reshape(-1)
    return places


def mean_ranks(values: Floats) -> Floats:
    """[n] the ranks of values [n] from 1, equal ones at their mean rank."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts - 1) / 2)[place])
