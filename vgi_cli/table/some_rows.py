"""Some rows of a table, as a table of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import numpy as np
import numpy.typing as npt

from vgi_cli.columns.base import Distinct
from vgi_cli.columns.numerals import Bools, Ints, Moments, Numbers, Spelling
from vgi_cli.table.base import Table


@final
class SomeRows(Table):
    """Some rows [n], by number, of a table: the cells that it has, or lacks, now. How its columns are typed and spelled
    is said of the whole table."""

    def __init__(self, whole: Table, rows: Ints) -> None:
        super().__init__(whole.origin._replace(N=len(rows)), whole.index, (), whole.first, whole.decimal)
        self._whole, self._rows = whole, rows
        self.in_memory, self.levels = whole.in_memory, whole.levels

    def some_text(self, name: str, rows: Ints | None) -> npt.NDArray[np.object_]:
        return self._whole.some_text(name, self._rows if rows is None else self._rows[rows])

    def typed(self, name: str) -> bool:
        return self._whole.typed(name)

    def textual(self, name: str) -> bool:
        return self._whole.textual(name)

    def single(self, name: str) -> bool:
        return self._whole.single(name)

    def precision(self, name: str) -> np.dtype[np.floating]:
        return self._whole.precision(name)

    def stored(self, name: str) -> str | None:
        return self._whole.stored(name)

    def limits(self, name: str) -> tuple[float, float] | None:
        return self._whole.limits(name)

    def spelling(self, name: str) -> Spelling | None:
        return self._whole.spelling(name)

    def levelled(self, name: str) -> bool:
        return self._whole.levelled(name)

    def dictionary(self, name: str) -> bool:
        return self._whole.dictionary(name)

    def distinct(self, name: str) -> Distinct:
        texts, places = self._whole.distinct(name)
        return Distinct(texts, np.where(self.missing(name), -1, places[self._rows]))

    def scale(self, name: str) -> Sequence[str] | None:
        return self._whole.scale(name)

    def moments(self, name: str) -> Moments | None:
        moments = self._whole.moments(name)
        return None if moments is None else moments._replace(ticks=moments.ticks[self._rows])

    def where(self, row: int) -> str:
        return self._whole.where(int(self._rows[row]))

    def _missing(self, i: int) -> Bools:
        return self._whole.missing(self.names[i])[self._rows]

    def _read_numbers(self, i: int, missing: Bools) -> Numbers:
        whole, rows = self._whole.numbers(self.names[i]), self._rows
        values = np.where(missing, np.nan, whole.values[rows])
        return Numbers(values, whole.number[rows] & ~missing, whole.padded[rows] & ~missing)
