"""Zero-inflated: numbers with many zeros (a spike) beside a tail, that the user named as such."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import final

import numpy as np
from pydantic.dataclasses import dataclass

from vgi_cli.columns.base import STRICT, Cells, Column, Request
from vgi_cli.columns.number import Number, number_asked
from vgi_cli.columns.wording import kind_flag
from vgi_cli.errors import InputError


@final
@dataclass(frozen=True, config=STRICT)
class ZeroInflated(Number):
    """A column of numbers of which zero is a spike, however many cells hold it (a column of kind `numeric` or `integer`
    has a spike only where a value holds many more than its neighbours: columns/lattice.py); `integer`: whether all are
    whole."""

    words = ("zero-inflated",)

    _: KW_ONLY
    integer: bool = False

    @property
    def whole(self) -> bool:
        return self.integer

    @property
    def request(self) -> str:
        """What after `--column NAME=` gives this kind again."""
        return "zero-inflated"

    @classmethod
    def infer(cls, cells: Cells, asked: Request) -> Column | None:
        if asked.kind not in cls.words:
            return None
        where = f"{cells.label}: --column {cells.name}=zero-inflated"
        if asked.encoding.transform == "none":
            raise InputError(
                f"{where}, but table.transform=none leaves numbers as they are: zero gets no room of its own",
                "`--set table.transform=linear` standardises every column",
            )
        number = number_asked(cells, asked, spike=0.0)
        if not isinstance(number, Number):
            return number
        if not (cells.numbers.values == 0).any():
            raise InputError(f"{where}, but no cell of the column is 0", f"`{kind_flag(cells.name, 'numeric')}`")
        if len(np.unique(cells.numbers.values[~cells.missing])) < 3:
            message = f"{where}, but the column holds 0 and one other number only: it has no tail"
            raise InputError(message, f"`{kind_flag(cells.name, 'categorical')}` models two values")
        return cls(**number.fields | {"kind": "zero-inflated", "integer": number.whole})
