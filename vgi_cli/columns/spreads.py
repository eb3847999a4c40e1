"""Spreads: how far apart the cells of a column lie, and how far those of rows that are alike in another column."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import final

from pydantic import NonNegativeFloat
from pydantic.dataclasses import dataclass

from vgi_cli.columns.base import STRICT


@final
@dataclass(frozen=True, config=STRICT)
class Spread:
    """How well a column of a sum or a product is known from another column of its row.

    name    of the column
    logs    whether logarithms are compared, as in products; else data units
    apart   mean distance of the cells of two rows
    beside  by names of other columns the mean distance of the cells of two rows that are next to each other in these;
            those alone that say something of the column
    """

    _: KW_ONLY
    name: str
    logs: bool
    apart: NonNegativeFloat
    beside: tuple[tuple[str, NonNegativeFloat], ...] = ()

    def __post_init__(self) -> None:
        names = [self.name, *(name for name, _ in self.beside)]
        if len(set(names)) != len(names):
            raise ValueError("the spread does not fit its columns")
