"""Orders of columns: that the cells of one are never greater than those of another one."""

from __future__ import annotations

from typing import final

from pydantic import NonNegativeFloat, PositiveFloat
from pydantic.dataclasses import dataclass

from vgi_cli.columns.base import STRICT

SMALL = 15
"""Distances that are kept."""


@final
@dataclass(frozen=True, config=STRICT)
class Order:
    """What holds in every row in which both cells are observed: low <= high + shift, as codes.

    low, high  names of the columns
    shift      of numbers 0; of moments how much later the origin of `high` is than that of `low`
    spread     of how far they are apart: the standard deviation, or the range of the middle half where that is less
    small      the small ones of the distances that were seen, evenly spread, ascending
    ratio      whether distances are those of the logarithms: of two columns of positive values over decades
    """

    low: str
    high: str
    spread: PositiveFloat
    small: tuple[NonNegativeFloat, ...]
    shift: float = 0.0
    ratio: bool = False

    def __post_init__(self) -> None:
        if self.low == self.high or len(self.small) != SMALL or list(self.small) != sorted(self.small):
            raise ValueError("an order is of two columns and distances")

    def words(self) -> str:
        """`'admitted' ≤ 'discharged'`."""
        return f"'{self.low}' ≤ '{self.high}'"
