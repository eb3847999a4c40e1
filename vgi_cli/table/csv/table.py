"""A CSV text as a table: the bytes stay as they are, beside the offsets of their cells."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from vgi_cli.columns.numerals import EXACT, Floats, Numbers, Spelling, parse, spelling
from vgi_cli.table.base import Bools, Table
from vgi_cli.table.cells import QUOTE, Ints, unquote
from vgi_cli.table.csv.text import CsvText, line_number
from vgi_cli.table.tokens import MISSING

_MISSING = pa.array(MISSING, pa.large_string())
_WIDER = (pa.null(), pa.int64(), pa.float64(), pa.string())
"""Each type can hold what those before it hold."""


class CsvTable(Table):
    """A table read from CSV text (one file, or several joined below each other)."""

    def __init__(
        self,
        csv: CsvText,
        *,
        sources: Sequence[tuple[int, str, int, int]],
        na_values: Sequence[str],
        sha256: str,
        label: str,
        stem: str,
        suffix: str,
        hidden: Bools | None = None,
        first: int = 0,
        several: bool = False,
    ) -> None:
        """`sources`: (first row, label, first byte, lines before it) of each joined file. Where these are rows of a
        larger table: `first`, how many come before them, and `several`, whether it is of several files."""
        index = [csv.names[0]] if not csv.names[0].strip() else []
        super().__init__(
            csv.names,
            csv.N,
            format="csv",
            sha256=sha256,
            label=label,
            stem=stem,
            suffix=suffix,
            index=index,
            hidden=hidden,
            first=first,
            na_values=na_values,
        )
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

    def whole(self, name: str) -> bool:
        return False

    def single(self, name: str) -> bool:
        return False

    def spelling(self, name: str) -> Spelling | None:
        number = self.numbers(name).number
        return spelling(self._trimmed(self.place(name)), number)

    def where(self, row: int) -> str:
        """See Table."""
        _, label, begin, lines = next(s for s in reversed(self._sources) if s[0] <= row)
        at = int(self.csv.bounds[row, 0])
        line = lines + line_number(self.csv.text[begin:at], at - begin)
        place = f"line {line} of {label}" if self._several else f"line {line}"
        return f"row {self.first + row + 1} ({place})"

    def in_quotes(self, name: str, rows: Ints) -> Bools:
        bounds = self.csv.bounds[rows]
        i = self.place(name)
        begin = np.minimum(bounds[:, i], len(self._data) - 1)
        return np.asarray((self._data[begin] == QUOTE) & (self._ends(i)[rows] > begin), bool)

    def binary(self, name: str) -> Floats:
        return self.numeric(name)

    def as_csv(self) -> CsvText:
        return self.csv

    def arrow_schema(self, wide: pa.Schema | None = None) -> pa.Schema:
        """Numbers where every observed cell is one (int64 where all are whole), else text."""
        types = [self._arrow_type(name) for name in self.names]
        if wide is not None:
            types = [max(kind, given, key=_WIDER.index) for kind, given in zip(types, wide.types, strict=True)]
        return pa.schema(list(zip(self.names, types, strict=True)))

    def as_arrow(self, schema: pa.Schema) -> pa.Table:
        columns = [self._arrow_column(field.name, field.type) for field in schema]
        return pa.table(columns, schema=schema)

    def _arrow_type(self, name: str) -> pa.DataType:
        missing, numbers = self.missing(name), self.numbers(name)
        if missing.all():
            return pa.null()
        values = numbers.values[~missing]
        if not numbers.number[~missing].all() or np.isinf(values).any():
            return pa.string()
        whole = (values == np.rint(values)).all() and np.abs(values).max() < EXACT
        return pa.int64() if whole else pa.float64()

    def _arrow_column(self, name: str, kind: pa.DataType) -> pa.Array:
        if kind == pa.null():
            return pa.nulls(self.N)
        if kind == pa.string():
            return pa.array(self.text(name), pa.string())
        return pa.array(self.numeric(name), pa.float64(), mask=self.missing(name)).cast(kind)

    def _ends(self, i: int) -> Ints:
        return self.csv.bounds[:, i + 1] - 1

    def _missing(self, i: int) -> Bools:
        cells = self._trimmed(i)
        return np.asarray(pc.is_in(cells, _MISSING).to_numpy(zero_copy_only=False), bool) | self.tokens.in_texts(cells)

    def _read_numbers(self, i: int, missing: Bools) -> Numbers:
        return parse(self._trimmed(i), missing)

    def _trimmed(self, i: int) -> pa.Array:
        if self._latest is None or self._latest[0] != i:
            self._latest = (i, pc.ascii_trim_whitespace(self._cells(i)))
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
