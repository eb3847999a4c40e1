"""Orders of columns: that the cells of one are never greater than those of another one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal, final

import numpy as np
from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat
from pydantic.dataclasses import dataclass

from vgi_cli.columns.base import STRICT
from vgi_cli.columns.numerals import Floats

SMALL = 15
"""Distances that are kept."""
FAR = 3.0
"""Standard deviations from the mean beyond which a number says no more of whether cells are equal."""


@final
@dataclass(frozen=True, config=STRICT)
class Term:
    """What a column says of whether two others are equal.

    name   of the column
    what   its number in standard deviations from the mean, the square of that, the same of its logarithm, or whether
           it is one code
    code   the mean, or that code
    scale  the standard deviation
    """

    name: str
    what: Literal["number", "square", "log", "at"]
    code: Annotated[float, Field(allow_inf_nan=False)]
    scale: PositiveFloat = 1.0

    def of(self, codes: Floats) -> Floats:
        """[..] of codes [..]."""
        if self.what == "at":
            return np.asarray(codes == self.code, np.float64)
        codes = np.log(np.maximum(codes, np.finfo(float).tiny)) if self.what == "log" else codes
        number = np.clip((codes - self.code) / self.scale, -FAR, FAR)
        return np.square(number) if self.what == "square" else number


@final
@dataclass(frozen=True, config=STRICT)
class Chance:
    """A logistic regression on some terms. `weights`: vectors of a constant and one weight for each term, that of the
    rows first, then those of bootstrap samples."""

    terms: tuple[Term, ...]
    weights: tuple[tuple[float, ...], ...]

    def __post_init__(self) -> None:
        if not self.weights or any(len(one) != 1 + len(self.terms) for one in self.weights):
            raise ValueError("a chance has one weight for each term")

    def of(self, codes: Callable[[str], Floats], shape: tuple[int, ...]) -> Floats:
        """Probabilities [m, n] (shape) in rows, by `codes` [m, n] of columns; each draw has weights of its own."""
        turn = np.arange(shape[0]) % len(self.weights)
        weights = np.array(self.weights)[turn]
        logits = np.broadcast_to(weights[:, :1], shape).copy()
        for term, own in zip(self.terms, weights.T[1:], strict=True):
            logits += own[:, None] * term.of(codes(term.name))
        return np.asarray(1 / (1 + np.exp(-logits)))


@final
@dataclass(frozen=True, config=STRICT)
class Line:
    """A linear regression on some terms. `weights`: a constant and one weight for each term."""

    terms: tuple[Term, ...]
    weights: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.weights) != 1 + len(self.terms):
            raise ValueError("a line has one weight for each term")

    def of(self, codes: Callable[[str], Floats], shape: tuple[int, ...]) -> Floats:
        """What it says of rows [m, n] (shape), by `codes` [m, n] of columns."""
        said = np.full(shape, self.weights[0])
        for term, weight in zip(self.terms, self.weights[1:], strict=True):
            said += weight * term.of(codes(term.name))
        return said


@final
@dataclass(frozen=True, config=STRICT)
class Ties:
    """Where the cells of two columns in order are equal.

    share  of the rows in which both are observed
    low    how probable it is where the cell of `low` is not known, by the other cells
    high   the same of `high`
    apart  codes of rows in which they are not equal, some of them, evenly spread
    ratio  whether these are compared by the ratio of their cells where that of `low` is not known, else by the distance
    alike  what those rows are alike by, where `low` is not known and where `high` is not: what the lines say of them.
           Without lines how probable it would be there that they are equal; empty: rows in which the other cell is
           about the same are alike
    lines  of the logarithm of the distance (where `low` is compared by the ratio, of its share of the other cell) in
           rows in which they are not equal, where `low` is not known and where `high` is not; one without terms: rows
           in which the other cell is about the same are alike
    """

    share: Annotated[float, Field(gt=0, lt=1)]
    low: Chance
    high: Chance
    apart: tuple[tuple[float, float], ...]
    ratio: bool = False
    alike: tuple[tuple[float, float], ...] = ()
    lines: tuple[Line, Line] | None = None

    def __post_init__(self) -> None:
        if not self.apart:
            raise ValueError("some rows of an order are not equal")
        if self.alike and len(self.alike) != len(self.apart):
            raise ValueError("rows of an order have one probability each")
        if self.lines and not self.alike:
            raise ValueError("rows that are alike by lines have what these say")

    @property
    def names(self) -> set[str]:
        """Of the columns that say something of it."""
        return {term.name for one in (self.low, self.high, *(self.lines or ())) for term in one.terms}

    def likeness(self, codes: Callable[[str], Floats], chance: Floats, *, low: bool) -> Floats | None:
        """[m, n] what rows are alike by (see `alike`) where the cell of `low`, or of `high`, is not known, by `codes`
        [m, n] of columns and how probable it is that they are equal; None: by the other cell."""
        if self.lines is None:
            return chance if self.alike else None
        line = self.lines[0 if low else 1]
        return line.of(codes, chance.shape) if line.terms else None


@final
@dataclass(frozen=True, config=STRICT)
class Order:
    """What holds in every row in which both cells are observed: per[0] low <= per[1] high + shift, as codes.

    low, high  names of the columns
    shift      of numbers 0; of moments how much later the origin of `high` is than that of `low`; less `gap`
    gap        what the lower cell is less by at least, one step of the columns, where none are equal; 0: they may be
    spread     of how far they are apart: the standard deviation, or the range of the middle half where that is less
    small      the small ones of the distances that were seen, evenly spread, ascending
    ratio      whether distances are those of the logarithms: of two columns of positive values over decades
    per        how many seconds a code of each counts where one is of days and the other one of times, and so for shift,
               spread and distances; 1 and 1 of others. A time is at most a date where it is on that day
    ties       how often they are equal, where that is more often than what is drawn and brought into order would be
    but        rows of the fit that contradict it
    """

    low: str
    high: str
    spread: PositiveFloat
    small: tuple[NonNegativeFloat, ...]
    shift: float = 0.0
    ratio: bool = False
    ties: Ties | None = None
    gap: NonNegativeFloat = 0.0
    per: tuple[PositiveFloat, PositiveFloat] = (1.0, 1.0)
    but: NonNegativeInt = 0

    def __post_init__(self) -> None:
        if self.mixed and (self.gap or self.ties is not None):
            raise ValueError("of dates and times in order it is not said where they are equal")
        if self.gap and self.ties is not None:
            raise ValueError("cells of an order that are never equal are not tied")
        if self.low == self.high or len(self.small) != SMALL or list(self.small) != sorted(self.small):
            raise ValueError("an order is of two columns and distances")

    @property
    def mixed(self) -> bool:
        """Whether one column is of dates and the other one of times."""
        return self.per != (1.0, 1.0)

    def words(self) -> str:
        """`'admitted' ≤ 'discharged'`, `'start' < 'stop'`."""
        return f"'{self.low}' {'<' if self.gap else '≤'} '{self.high}'"

    def words_of_ties(self) -> str:
        """The same, and in how many rows cells are equal: `'paid' ≤ 'invoiced', equal in 58% of the rows`."""
        return self.words() if self.ties is None else f"{self.words()}, equal in {self.ties.share:.0%} of the rows"
