"""Orders of columns: that the cells of one are never greater than those of another one."""

from __future__ import annotations

from typing import final

from pydantic import NonNegativeFloat, PositiveFloat
from pydantic.dataclasses import dataclass

from vgi_cli.columns.base import STRICT


@final
@dataclass(frozen=True, config=STRICT)
class Order:
    """What holds in every row in which both cells are observed: low <= high + shift, as codes.

    low, high  names of the columns
    shift      of numbers 0; of moments how much later the origin of `high` is than that of `low`
    spread     standard deviation of how far they are apart
    near       so far apart are as many rows at most as would be out of order if that were normal
    """

    low: str
    high: str
    spread: PositiveFloat
    near: NonNegativeFloat
    shift: float = 0.0

    def __post_init__(self) -> None:
        if self.low == self.high:
            raise ValueError("an order is of two columns")

    def words(self) -> str:
        """`'admitted' ≤ 'discharged'`."""
        return f"'{self.low}' ≤ '{self.high}'"
