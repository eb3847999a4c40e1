"""How far a column lies beyond the value at which another one is cut off."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

import numpy as np
from pydantic import PositiveFloat
from pydantic.dataclasses import dataclass

from vgi_cli.columns.base import STRICT
from vgi_cli.columns.numerals import Floats
from vgi_cli.columns.orders import Line
from vgi_cli.columns.places import by_chance

NEAREST = 10
"""Rows that a row is compared with."""


@final
@dataclass(frozen=True, config=STRICT)
class Beyond:
    """Rows in which a column lies beyond the value at which another one is cut off.

    apart  how far, in some of them, evenly spread
    line   of the logarithm of that; None: these rows are alike
    alike  what the line says of each of them, ascending
    """

    apart: tuple[PositiveFloat, ...]
    line: Line | None = None
    alike: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        alike = 0 if self.line is None else len(self.apart)
        if not self.apart or len(self.alike) != alike or list(self.alike) != sorted(self.alike):
            raise ValueError("what lies beyond a value is known of some rows")

    @property
    def names(self) -> set[str]:
        """Of the columns that say something of it."""
        return set() if self.line is None else {term.name for term in self.line.terms}

    def drawn(self, codes: Callable[[str], Floats], chance: Floats) -> Floats:
        """[m, n] how far cells lie beyond it: as far as in one of the rows that are most alike, which `chance` [m, n]
        says, from 0 to 1; by `codes` [m, n] of columns."""
        apart = np.array(self.apart)
        if self.line is None:
            return np.asarray(apart[by_chance(chance, len(apart))])
        size = min(NEAREST, len(apart))
        middle = np.searchsorted(self.alike, self.line.of(codes, chance.shape))
        first = np.clip(middle - size // 2, 0, len(apart) - size)
        return np.asarray(apart[first + by_chance(chance, size)])
