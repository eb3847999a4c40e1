"""Structural zeros: cells of two columns that go together in no row (Bishop, Fienberg and Holland 1975, chapter 5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, final

import numpy as np
from pydantic.dataclasses import dataclass

from vgi_cli.columns.base import STRICT
from vgi_cli.columns.numerals import Bools, Floats

Where = Literal["at", "below", "above"]
EXAMPLES = 3
"""Pairs that are named, of several."""
SIGNS: dict[Where, str] = {"at": "=", "below": "<", "above": ">"}


@final
@dataclass(frozen=True, config=STRICT)
class Part:
    """Cells of a column: those at a code, below it, or above it."""

    where: Where
    code: float

    def holds(self, codes: Floats) -> Bools:
        """[..] which codes [..] are of it; NaN is not."""
        if self.where == "at":
            return np.asarray(codes == self.code)
        return codes < self.code if self.where == "below" else codes > self.code


@final
@dataclass(frozen=True, config=STRICT)
class StructuralZeros:
    """What two columns never hold together (a man is not pregnant).

    names  of the columns
    pairs  of a part of the first column and one of the second one; no row holds cells of both
    seen   codes of both columns that are in rows together, some of them, evenly spread
    """

    names: tuple[str, str]
    pairs: tuple[tuple[Part, Part], ...]
    seen: tuple[tuple[float, float], ...]

    def __post_init__(self) -> None:
        if self.names[0] == self.names[1] or not self.pairs or not self.seen:
            raise ValueError("structural zeros are of two columns")

    def excludes(self, first: Floats, second: Floats) -> Bools:
        """[..] which codes [..] of the two columns do not go together; where one is NaN none is excluded."""
        return np.asarray(np.logical_or.reduce([a.holds(first) & b.holds(second) for a, b in self.pairs]))

    def single(self) -> tuple[StructuralZeros, ...]:
        """The same, for each pair by itself."""
        return tuple(StructuralZeros(self.names, (pair,), self.seen) for pair in self.pairs)

    def limits(self, place: int) -> bool:
        """Whether some numbers of the first column (`place` 0) or the second one (1) lie beyond a limit."""
        return any(pair[place].where != "at" for pair in self.pairs)

    def words(self, spelled: Sequence[tuple[str, str]]) -> str:
        """`'sex' = m never goes with 'pregnant' = yes`; of several pairs `'species' and 'island' never go together as
        Gentoo with Dream, Adelie with Biscoe, Adelie with Dream or in 2 other ways`, or that they are never
        equal. `spelled`: the codes of the pairs, as their columns write them."""
        if len(self.pairs) == 1:
            cells = zip(self.names, self.pairs[0], spelled[0], strict=True)
            return " never goes with ".join(f"'{name}' {SIGNS[part.where]} {code}" for name, part, code in cells)
        names = " and ".join(f"'{name}'" for name in self.names)
        if all(a.where == b.where == "at" for a, b in self.pairs) and all(a == b for a, b in spelled):
            return f"{names} are never equal"
        ways: list[str] = []
        for pair, codes in zip(self.pairs[:EXAMPLES], spelled[:EXAMPLES], strict=True):
            cells = zip(self.names, pair, codes, strict=True)
            parts = (code if one.where == "at" else f"'{name}' {SIGNS[one.where]} {code}" for name, one, code in cells)
            ways.append(" with ".join(parts))
        more = len(self.pairs) - len(ways)
        last = f"in {more:,} other way{'s' * (more > 1)}" if more else ways.pop()
        return f"{names} never go together as {', '.join(ways)} or {last}"
