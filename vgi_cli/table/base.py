"""The abstract table: named columns of cells that are observed or missing, whatever file they came from."""

from __future__ import annotations

import copy
import hashlib
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from vgi_cli.columns.base import Cells, CellSource
from vgi_cli.columns.numerals import Bools, Floats, Ints, Numbers
from vgi_cli.columns.wording import Alarm
from vgi_cli.errors import InputError, closest, nearest
from vgi_cli.table.inputs import Origin
from vgi_cli.table.texts import Tokens, fields, tokens_by_column


class Table(CellSource, ABC):
    """N rows of named columns; cells are read on demand, column by column.

    origin   what is known of it without the cells; names, N, label and sha256 are also the table's own
    index    columns that number the rows (unnamed first column of a CSV, index of a pandas Parquet): carried
    hidden   [N, width] cells that a mask hides, or None
    first    rows that come before these in the whole table, for messages
    decimal  the mark before the decimals of its numbers
    levels   column -> texts that are levels of it, whatever they usually mean in a file
    in_memory  whether it was handed over in memory, and not read from files
    """

    in_memory = False

    def __init__(
        self, origin: Origin, index: Iterable[str], na_values: Sequence[str], first: int, decimal: str = "."
    ) -> None:
        self.origin = origin
        self.names, self.N, self.label, self.sha256 = origin.names, origin.N, origin.label, origin.sha256
        self.index = frozenset(index)
        self.hidden: Bools | None = None
        self.first = first
        self.decimal = decimal
        self.levels: Mapping[str, Collection[str]] = {}
        every, self._own = tokens_by_column(na_values, self.names, self.label)
        self._tokens = Tokens(every, decimal)
        own: dict[str, list[str]] = {}
        for one in self._own:
            for name in one.names:
                own.setdefault(name, []).append(one.token)
        self._own_tokens = {name: Tokens(texts, decimal) for name, texts in own.items()}
        self._place = {name: i for i, name in enumerate(self.names)}
        self._absent: dict[str, Bools] = {}
        self._blank: dict[str, Bools] = {}
        self._forgotten: dict[str, Bools] = {}
        self._numbers: dict[str, Numbers] = {}
        self._looked_at: dict[str, Cells] = {}

    def place(self, name: str) -> int:
        """Position of a column. InputError with the nearest name when there is none."""
        try:
            return self._place[name]
        except KeyError:
            raise InputError(f"{self.label}: no column '{name}'", nearest(name, self.names)) from None

    def column(self, name: str) -> Cells:
        """The cells of a column, as a kind looks at them."""
        if name not in self._looked_at:
            self._looked_at[name] = Cells(self, name)
        return self._looked_at[name]

    def missing(self, name: str) -> Bools:
        """[N] bool, True where the cell is absent: empty, a missing token, null, NaN, or hidden by the mask."""
        if name not in self._absent:
            absent = self.blank(name)
            self._absent[name] = absent if self.hidden is None else absent | self.hidden[:, self.place(name)]
        return self._absent[name]

    def absent(self, names: Sequence[str]) -> Bools:
        """[N, len(names)] bool: `missing` of some columns side by side; there may be none."""
        each = [self.missing(name) for name in names]
        return np.stack(each, 1) if each else np.zeros((self.N, 0), bool)

    def blank(self, name: str) -> Bools:
        """[N] bool, True where the cell is absent in the table itself: not where a mask hides it, or where it was
        forgotten."""
        if name not in self._blank:
            self._blank[name] = self._missing(self.place(name))
        return self._blank[name]

    def forget(self, name: str, which: Bools) -> None:
        """Count some cells [N] of a column as missing from now on."""
        self._forgotten[name] = self.forgotten(name) | which
        self._absent[name] = self.missing(name) | which
        self._numbers.pop(name, None)
        self._looked_at.pop(name, None)

    def without(self, cells: Mapping[str, Bools]) -> Self:
        """The same table with some more cells [N] of columns counted as missing; this one stays as it is."""
        other = copy.copy(self)
        other._absent, other._numbers = dict(self._absent), dict(self._numbers)
        other._forgotten, other._looked_at = dict(self._forgotten), dict(self._looked_at)
        for name, which in cells.items():
            other.forget(name, which)
        return other

    def keep_levels(self, name: str, texts: Collection[str]) -> None:
        """Count texts of a column as levels from now on, whatever they usually mean in a file."""
        self.levels = {**self.levels, name: {*self.levels.get(name, ()), *texts}}
        for kept in (self._absent, self._blank, self._numbers, self._looked_at):
            kept.pop(name, None)
        if name in self._forgotten:
            self.forget(name, self._forgotten[name])

    def hiding(self, cells: Mapping[str, Bools]) -> Self:
        """The same table with some more cells [N] of columns missing, as if a mask hid them; this one stays as it is.
        It is another table, with a hash of its own."""
        other = copy.copy(self)
        hidden = np.zeros((self.N, len(self.names)), bool) if self.hidden is None else self.hidden.copy()
        for name, which in cells.items():
            hidden[:, self.place(name)] |= which
        other.hidden = hidden
        other.sha256 = hashlib.sha256(self.sha256.encode() + np.packbits(hidden).tobytes()).hexdigest()
        other._absent, other._numbers, other._forgotten, other._looked_at = {}, {}, {}, {}
        other._blank = dict(self._blank)
        for name, which in self._forgotten.items():
            other.forget(name, which)
        return other

    def forgotten(self, name: str) -> Bools:
        """[N] bool, True where `forget` made the cell missing."""
        return self._forgotten.get(name, np.zeros(self.N, bool))

    def unmet_tokens(self) -> list[str]:
        """Where no cell is one of the given tokens (`--na-values`), in words: `no cell of t.csv is '?'`. An Alarm where
        the name of a column may be misspelt in one."""
        looked_at = self.names if self._tokens else self._own_tokens
        for name in looked_at:
            self.missing(name)
        lines = []
        if unmet := self._tokens.unmet():
            lines.append(f"no cell of {self.label} is {' or '.join(map(repr, unmet))}")
            near = False
            for said in [text.partition("=")[0] for text in unmet if "=" in text[1:]]:
                meant = closest(said, self.names)
                near |= meant is not None
                lines[0] += (
                    f"; did you mean a token of column '{meant}'?" if meant else f"; no column is called '{said}'"
                )
            if near:
                lines[0] = Alarm(lines[0])
        nowhere: dict[str, list[str]] = {}
        for one in self._own:
            if all(one.token.strip() in self._own_tokens[name].unmet() for name in one.names):
                nowhere.setdefault(one.said, []).append(one.token.strip())
        for said, unmet in nowhere.items():
            lines.append(f"no cell of column '{said}' is {' or '.join(map(repr, unmet))}")
        return lines

    def tokens(self, name: str) -> list[Tokens]:
        """What the user gave that stands for a missing cell of a column: in every column, and in this one alone."""
        return [tokens for tokens in (self._tokens, self._own_tokens.get(name)) if tokens]

    def precision(self, name: str) -> np.dtype[np.floating]:
        """In which the table keeps the numbers of a column."""
        return np.dtype(np.float64)

    def numbers(self, name: str) -> Numbers:
        """The column read as numbers, with where that fails."""
        if name not in self._numbers:
            self._numbers[name] = self._read_numbers(self.place(name), self.missing(name))
        return self._numbers[name]

    def numeric(self, name: str) -> Floats:
        """[N] float64; NaN where the cell is missing or is not a number."""
        return self.numbers(name).values

    def text(self, name: str) -> npt.NDArray[np.object_]:
        """[N] original texts (quotes undone, blanks kept); None where the cell is missing."""
        cells = self.raw_text(name)
        cells[self.missing(name)] = None
        return cells

    def raw_text(self, name: str) -> npt.NDArray[np.object_]:
        """[N] texts of all cells, missing tokens and hidden cells included; None only for a null of Parquet."""
        return self.some_text(name, None)

    def fields(self, name: str, pattern: str, rows: Ints | None) -> tuple[Bools, Mapping[str, npt.NDArray[np.object_]]]:
        """Which cells (None: all) a regular expression matches, blanks around them aside, and its groups."""
        texts = pa.array(self.some_text(name, rows), pa.large_string())
        return fields(pc.utf8_trim_whitespace(texts), pattern)

    def stored(self, name: str) -> str | None:
        """The type of a column, where the table has types and this is one of those that can be told from its name."""
        self.place(name)
        return None

    @abstractmethod
    def _missing(self, i: int) -> Bools:
        """[N] bool: absent in the file."""

    @abstractmethod
    def _read_numbers(self, i: int, missing: Bools) -> Numbers:
        """The i-th column as numbers."""
