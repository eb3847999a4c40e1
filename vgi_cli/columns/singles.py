"""Decimal fractions that went through 32 bits: 690.8 in a float32 is 690.7999878, and a program that writes it with 15
digits or more writes 690.799987792969.

Such cells are read as the fractions that they were, so that steps, limits, gaps and relations are those of the
fractions, and messages print these. A fill is written as the cells are: it equals the cells that hold the same number,
and who reads the filled table, or fits it again, finds one kind of cells in a column.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from vgi_cli.columns.numerals import Floats, at_least, decimals_of, plain

DIGITS = (17, 15, 16)
"""With how many digits programs write such numbers, which are tried in this order: as many as a float64 takes, of which
zeros at the end are left out; R with 15."""
SURVIVE = 6
"""A decimal fraction of so many significant digits is read back from its float32 number."""
CLOSE = 1e-14
"""Share of itself by which what is written with 15 digits may be off."""
FIRST = 200
"""Cells that are looked at before all are."""


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Single:
    """Numbers that were decimal fractions, are float32 numbers, and are written with more digits than these have.

    digits  with how many
    """

    digits: Annotated[int, Field(ge=min(DIGITS), le=max(DIGITS))]

    def short(self, values: Floats) -> Floats:
        """The fractions [n] that cells [n] were, and what was none as it is; NaN stays."""
        different, places = np.unique(values, return_inverse=True)
        fractions = _shortest(different)
        short = np.where(self.written(fractions) == different, fractions, different)
        return np.asarray(short[places.reshape(-1)])

    def written(self, fractions: Floats) -> Floats:
        """The numbers [..] that cells hold for fractions [..]."""
        wide = _through_32_bits(fractions)
        return np.array([float(f"{value:.{self.digits}g}") for value in wide.ravel().tolist()]).reshape(wide.shape)

    def spell(self, fractions: Floats, fewest: int) -> list[str]:
        """The texts of cells for fractions [n], with at least so many decimals."""
        return [at_least(plain(value), fewest) for value in (self.written(fractions) + 0.0).tolist()]


def single_of(values: Floats) -> Single | None:
    """How observed numbers [n] were decimal fractions before they were float32 numbers; None where some were not, where
    all are such fractions still, or all are the same number."""
    found: Single | None = None
    for some in (np.unique(values[:FIRST]), np.unique(values)):
        if not np.isfinite(some).all() or len(some) < 2:
            return None
        wide = _through_32_bits(some)
        if (np.abs(some - wide) > CLOSE * np.abs(wide)).any():
            return None
        fractions = _shortest(some)
        if decimals_of(wide, single=True) is None and not (_significant(fractions, SURVIVE) == fractions).all():
            return None
        ways = (own for digits in DIGITS if ((own := Single(digits)).written(fractions) == some).all())
        found = next(ways, None)
        if found is None:
            return None
    return found if (fractions != some).any() else None


def _through_32_bits(values: Floats) -> Floats:
    with np.errstate(over="ignore", under="ignore"):
        return np.asarray(values, np.float64).astype(np.float32).astype(np.float64)


def _shortest(values: Floats) -> Floats:
    """The fractions [n] with the fewest digits that have the same float32 numbers as values [n]."""
    with np.errstate(over="ignore", under="ignore"):
        return np.array([float(str(value)) for value in np.asarray(values, np.float64).astype(np.float32)], np.float64)


def _significant(values: Floats, digits: int) -> Floats:
    return np.array([float(f"{value:.{digits}g}") for value in values.tolist()])
