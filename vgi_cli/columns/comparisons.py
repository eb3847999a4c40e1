"""Comparisons: a column of few levels says which of two other columns is greater."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, final

import numpy as np
from pydantic import Field, NonNegativeInt
from pydantic.dataclasses import dataclass

from vgi_cli.columns.base import STRICT
from vgi_cli.columns.clock import DAY
from vgi_cli.columns.numerals import Bools, Floats, Ints

NOISE = 1e-12
"""Share of the greater of two numbers by which arithmetic may be off where they are equal."""
SIGNS = {(0,): "<", (0, 1): "≤", (1,): "=", (1, 2): "≥", (2,): ">", (0, 2): "≠"}
"""How it is written which signs of a difference a level has, by their places in `codes` of a Comparison."""

Code = Annotated[float, Field(allow_inf_nan=False)]


@final
@dataclass(frozen=True, config=STRICT)
class Comparison:
    """What holds in every row in which all three cells are observed: the sign of first - second says what level the
    flag has (delivered after the day that was promised: not on time).

    flag           name of the column of levels, or of few numbers
    first, second  of those that are compared
    codes          of the flag where first - second is negative, zero, and positive; None: no row says so, or rows with
                   several levels do
    shift          of numbers 0; of moments how much later the origin of `second` is than that of `first`; of a time
                   whose day is compared the seconds from the beginning of the day that is 0 to the time that is
    days           which of the two is such a time, beside a date; None: none is
    but            rows of the fit that contradict it
    """

    flag: str
    first: str
    second: str
    codes: tuple[Code | None, Code | None, Code | None]
    shift: Annotated[float, Field(allow_inf_nan=False)] = 0.0
    days: Literal["first", "second"] | None = None
    but: NonNegativeInt = 0

    def __post_init__(self) -> None:
        if len(set(self.names)) < len(self.names):
            raise ValueError("a comparison is of three columns")
        if len(set(self.codes) - {None}) < 2:
            raise ValueError("a comparison says several levels")

    @property
    def names(self) -> tuple[str, str, str]:
        """Of its columns, the flag first."""
        return self.flag, self.first, self.second

    def signs(self, first: Floats, second: Floats) -> Ints:
        """[..] the places in `codes` of cells [..] that are compared; -1 where one is NaN."""
        if self.days == "first":
            return signs_of(day_of(first + self.shift), second)
        return signs_of(first, second + self.shift if self.days is None else day_of(second + self.shift))

    def is_time(self, place: int) -> bool:
        """Whether the column at a place (1 or 2) is a time whose day is compared."""
        return self.days == ("first", "second")[place - 1]

    def equal_to(self, place: int, other: Floats, own: Floats) -> Floats:
        """[..] what the cell at a place (1 or 2) is that is equal to the other one [..]: of a time, whose day is
        compared, at the time of the day that it is `own` [..]."""
        if self.days is None:
            return other + (self.shift if place == 1 else -self.shift)
        if not self.is_time(place):
            return day_of(other + self.shift)
        return other * DAY - self.shift + np.mod(own + self.shift, DAY)

    def said(self, first: Floats, second: Floats) -> Floats:
        """[..] the code of the flag beside cells [..]; NaN where nothing is said."""
        codes = np.array([np.nan if code is None else code for code in (*self.codes, None)])
        return np.asarray(codes[self.signs(first, second)])

    def excludes(self, flag: Floats, first: Floats, second: Floats) -> Bools:
        """[..] where cells [..] do not go together; not where one is NaN."""
        said = self.said(first, second)
        return np.asarray((said < flag) | (said > flag))

    def knows(self, flag: Floats) -> Bools:
        """[..] which codes [..] of the flag are said of some sign: another one (a match that was put off) may stand
        where there is nothing to compare."""
        return np.isin(flag, [code for code in self.codes if code is not None])

    def words(self, spelled: Sequence[str | None]) -> str:
        """`'over' is yes where 'spent' > 'budget', else no`; where nothing is said of equal ones `'over' is yes where
        'spent' > 'budget', no where it is less`; of other levels `'result' is H, D, A where 'home' >, =, < 'away'`.
        `spelled`: its codes, as the flag writes them."""
        first, second = (f"{'the day of ' * self.is_time(place)}'{self.names[place]}'" for place in (1, 2))
        levels = {code: text for code, text in zip(self.codes, spelled, strict=True) if code is not None}
        known = [place for place in (2, 1, 0) if self.codes[place] is not None]
        if len(levels) == 2 and known != [2, 1] and known != [1, 0]:
            told, other = sorted(levels, reverse=True)  # of no and yes, 0 and 1 the one that says it
            places = tuple(place for place, code in enumerate(self.codes) if code == told)
            where = f"'{self.flag}' is {levels[told]} where {first} {SIGNS[places]} {second}"
            if self.codes[1] is not None:
                return f"{where}, else {levels[other]}"
            return f"{where}, {levels[other]} where it is {'less' if places == (2,) else 'greater'}"
        texts, signs = ", ".join(str(spelled[place]) for place in known), ", ".join(SIGNS[place,] for place in known)
        return f"'{self.flag}' is {texts} where {first} {signs} {second}"


def day_of(seconds: Floats) -> Floats:
    """[..] in which day, counted from the first second on, seconds [..] are."""
    return np.floor(seconds / DAY)


def signs_of(first: Floats, second: Floats) -> Ints:
    """[..] of cells [..] 0 where the first one is less, 1 where they are equal but for the noise of arithmetic, 2 where
    it is greater, and -1 where one is NaN."""
    apart = 0.5 * first - 0.5 * second
    noise = 0.5 * NOISE * np.maximum(np.abs(first), np.abs(second))
    return np.where(np.isnan(apart), -1, 1 + (apart > noise).astype(int) - (apart < -noise))
