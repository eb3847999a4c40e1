"""A CSV text as a table: the bytes stay as they are, beside the offsets of their cells."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from vgi_cli.columns.base import Distinct
from vgi_cli.columns.numerals import Bools, Ints, Numbers, Spelling
from vgi_cli.table.base import Table
from vgi_cli.table.csv.text import QUOTE, CsvText, line_number, unquote
from vgi_cli.table.inputs import Origin
from vgi_cli.table.texts import MISSING, among, encoded, parse, spelling, with_point


class CsvTable(Table):
    """A table read from CSV text (one file, or several joined below each other)."""

    def __init__(
        self,
        csv: CsvText,
        origin: Origin,
        sources: Sequence[tuple[int, str, int, int]],
        na_values: Sequence[str],
        first: int = 0,
        several: bool = False,
        decimal: str = ".",
    ) -> None:
        """`sources`: (first row, label, first byte, lines before it) of each joined file. Where these are rows of a
        larger table: `first`, how many come before them, and `several`, whether it is of several files."""
        index = [csv.names[0]] if not csv.names[0].strip() else []
        super().__init__(origin._replace(format="csv", names=csv.names, N=csv.N), index, na_values, first, decimal)
        self.csv = csv
        self._several = several or len(sources) > 1
        self._sources = tuple(sources)
        self._data = np.frombuffer(csv.text, np.uint8)
        self._latest: tuple[int, pa.Array] | None = None  # columns are asked for one after the other, thrice each

    def some_text(self, name: str, rows: Ints | None) -> npt.NDArray[np.object_]:
        return np.array(self._cells(self.place(name), rows).to_pylist(), dtype=object)

    def typed(self, name: str) -> bool:
        return False

    def textual(self, name: str) -> bool:
        return True

    def single(self, name: str) -> bool:
        return False

    def limits(self, name: str) -> None:
        return None

    def spelling(self, name: str) -> Spelling | None:
        number = self.numbers(name).number
        return spelling(with_point(self._trimmed(self.place(name)), self.decimal), number)

    def moments(self, name: str) -> None:
        return None

    def levelled(self, name: str) -> bool:
        return True

    def dictionary(self, name: str) -> bool:
        return False

    def distinct(self, name: str) -> Distinct:
        return encoded(self._trimmed(self.place(name)), self.missing(name))

    def scale(self, name: str) -> None:
        return None

    def where(self, row: int) -> str:
        _, label, begin, lines = next(s for s in reversed(self._sources) if s[0] <= row)
        at = int(self.csv.bounds[row, 0])
        line = lines + line_number(self.csv.text[begin:at], at - begin)
        place = f"line {line} of {label}" if self._several else f"line {line}"
        return f"row {self.first + row + 1} ({place})"

    def _ends(self, i: int) -> Ints:
        return self.csv.bounds[:, i + 1] - 1

    def _missing(self, i: int) -> Bools:
        cells = self._trimmed(i)
        absent = among(cells, self._usual(self.names[i]))
        for tokens in self.tokens(self.names[i]):
            absent |= tokens.in_texts(cells)
        return absent

    def _usual(self, name: str) -> list[str]:
        """The texts that mean missing in a column though nobody named them."""
        levels, own = self.levels.get(name, ()), self._own_tokens.get(name, ())
        return [""] if "" in own else [text for text in MISSING if text not in levels]

    def _read_numbers(self, i: int, missing: Bools) -> Numbers:
        return parse(with_point(self._trimmed(i), self.decimal), missing)

    def _trimmed(self, i: int) -> pa.Array:
        if self._latest is None or self._latest[0] != i:
            self._latest = (i, pc.utf8_trim_whitespace(self._cells(i)))
        return self._latest[1]

    def _cells(self, i: int, rows: Ints | None = None) -> pa.Array:
        """The i-th column as Arrow large_string [N], quotes undone; or some rows of it."""
        begin, end = self.csv.bounds[:, i], self._ends(i)
        if rows is not None:
            begin, end = begin[rows], end[rows]
        array = self._gather(begin, end)
        quoted = (self._data[np.minimum(begin, len(self._data) - 1)] == QUOTE) & (end > begin)
        if not quoted.any():
            return array
        closed = quoted & (end - begin >= 2) & (self._data[end - 1] == QUOTE)
        inner = self._gather(np.where(closed, begin + 1, begin), np.where(closed, end - 1, end))
        odd = quoted & ~closed
        odd |= closed & np.asarray(pc.match_substring(inner, '"').to_numpy(zero_copy_only=False), bool)
        if not odd.any():
            return inner
        undone = iter(unquote(cell) for cell in pc.filter(array, pa.array(odd)).to_pylist())
        return pc.replace_with_mask(inner, pa.array(odd), pa.array(undone, pa.large_string()))

    def _gather(self, begin: Ints, end: Ints) -> pa.Array:
        """Copy byte ranges into one Arrow string array."""
        offsets = np.zeros(len(begin) + 1, np.int64)
        np.cumsum(end - begin, out=offsets[1:])
        source = np.repeat(begin - offsets[:-1], end - begin)
        source += np.arange(len(source))
        data = self._data[source]
        return pa.Array.from_buffers(
            pa.large_string(), len(begin), [None, pa.py_buffer(offsets), pa.py_buffer(data)], null_count=0
        )
