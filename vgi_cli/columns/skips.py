"""Questions that are asked of some rows alone: which level of a column, or which numbers, go with no cell of others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal, NamedTuple, final

import numpy as np
from pydantic import Field, NonNegativeFloat, NonNegativeInt
from pydantic.dataclasses import dataclass

from vgi_cli.columns.base import STRICT
from vgi_cli.columns.numerals import Bools, Floats
from vgi_cli.columns.wording import first_names, named

NEAR_ONE = 1e-6
"""By how much shares may be off 1 together."""


@final
@dataclass(frozen=True, config=STRICT)
class Skip:
    """What holds in every row: where a cell of some columns is observed, a column of levels is not at one of them
    (who says how many cigarettes a day does not smoke `no`).

    name    of the column of levels
    level   the code of the level
    others  the columns
    shares  how often each level occurs where one of them is observed
    but     rows of the fit that contradict it
    """

    name: str
    level: NonNegativeInt
    others: tuple[str, ...]
    shares: tuple[NonNegativeFloat, ...]
    but: NonNegativeInt = 0

    def __post_init__(self) -> None:
        sound = 0 < len(set(self.others)) == len(self.others) and self.name not in self.others
        sound = sound and self.level < len(self.shares) and not self.shares[self.level]
        if not sound or abs(sum(self.shares) - 1) > NEAR_ONE:
            raise ValueError("the skipped columns do not fit together")

    def excludes(self, codes: Floats) -> Bools:
        """[..] which codes [..] go with no cell of the others; NaN does not."""
        return np.equal(codes, self.level)

    def words(self, *levels: str) -> str:
        """`'smoke' is not 'no' where 'cigarettes' is observed`; of several levels about which the same is said `neither
        'no' nor 'never'`, `none of 'no', 'never', 'once'`."""
        quoted = [f"'{level}'" for level in levels]
        match quoted:
            case [one]:
                said = f"not {one}"
            case [first, second]:
                said = f"neither {first} nor {second}"
            case _:
                said = f"none of {first_names(quoted)}"
        return f"'{self.name}' is {said} where {_some(self.others)} is observed"


@final
@dataclass(frozen=True, config=STRICT)
class Threshold:
    """What holds in every row: where a cell of some columns is observed, a number is not beyond a limit (who has an
    income is 18 at least).

    name    of the column of numbers or moments
    side    where the rows without a cell lie: below the limit, or above it
    limit   the code nearest to them that is seen beside a cell; where they all hold one number, the next one that the
            column can hold
    others  the columns
    values  codes that are seen beside a cell, evenly by rank, the smallest first
    """

    name: str
    side: Literal["below", "above"]
    limit: float
    others: tuple[str, ...]
    values: tuple[float, ...]

    def __post_init__(self) -> None:
        sound = 0 < len(set(self.others)) == len(self.others) and self.name not in self.others
        sound = sound and len(self.values) > 0 and not self.excludes(np.array(self.values)).any()
        if not sound or list(self.values) != sorted(self.values):
            raise ValueError("the skipped columns do not fit together")

    def excludes(self, codes: Floats) -> Bools:
        """[..] which codes [..] go with no cell of the others; NaN does not."""
        return codes < self.limit if self.side == "below" else codes > self.limit

    def words(self, limit: str) -> str:
        """`'age' is 18 at least where 'income' is observed`; `limit` as its column writes it."""
        least = "least" if self.side == "below" else "most"
        return f"'{self.name}' is {limit} at {least} where {_some(self.others)} is observed"


@final
@dataclass(frozen=True, config=STRICT)
class Unanswered:
    """Levels of a column beside which the fitted table has no cell of some others: of one at least that is not chance
    (a `Skip`), the rest are too rare to be sure.

    name    of the column of levels
    levels  the codes of the levels
    others  the columns
    """

    name: str
    levels: tuple[NonNegativeInt, ...]
    others: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.levels or not self.others or self.name in self.others:
            raise ValueError("the skipped columns do not fit together")

    def excludes(self, codes: Floats) -> Bools:
        """[..] which codes [..] go with no cell of the others; NaN does not."""
        return np.isin(codes, self.levels)


class Undefined(NamedTuple):
    """What arithmetic says of every row: a column that is computed from another one has no value at a number of this (a
    logarithm of zero).

    name    of the other column
    others  the column
    value   the number
    below   whether it has none below that either
    """

    name: str
    others: tuple[str, ...]
    value: float
    below: bool

    def excludes(self, codes: Floats) -> Bools:
        """[..] at which codes [..] there is no value; NaN is none."""
        return codes <= self.value if self.below else np.equal(codes, self.value)


@final
@dataclass(frozen=True, config=STRICT)
class Unasked:
    """How often some columns are all blank though they are asked for, in rows of the fitted table of which a cell is
    missing that would say whether they are.

    others  the columns; the same skips and thresholds say where they are asked for
    blank   the share; where a single column of levels decides one for each of its levels, 1 where they are not asked
    """

    others: tuple[str, ...]
    blank: tuple[Annotated[float, Field(gt=0, le=1)], ...]

    def __post_init__(self) -> None:
        if not self.others or not self.blank:
            raise ValueError("the skipped columns do not fit together")


def alike_skips(skips: Iterable[Skip]) -> list[list[Skip]]:
    """Skips, those together that say the same of several levels of a column."""
    groups: dict[tuple[str, tuple[str, ...]], list[Skip]] = {}
    for one in skips:
        groups.setdefault((one.name, one.others), []).append(one)
    return list(groups.values())


def levels_without(skips: Iterable[Skip]) -> dict[tuple[str, str], list[int]]:
    """By the names of a column of levels and of another one those levels that go with no cell of the other."""
    levels: dict[tuple[str, str], list[int]] = {}
    for one in skips:
        for other in one.others:
            levels.setdefault((one.name, other), []).append(one.level)
    return levels


def _some(names: tuple[str, ...]) -> str:
    """`'a'`, or `one of columns 'a', 'b'`."""
    return f"'{names[0]}'" if len(names) == 1 else f"one of {named('column', names)}"
