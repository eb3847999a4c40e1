"""Tables that are read block by block, as often as is needed, in memory that does not grow with their rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import NamedTuple

from vgi_cli.table.base import Format, Table

BLOCK_CELLS = 1 << 17
LEAST_ROWS = 256


def block_rows(width: int) -> int:
    """Rows of a block of a table with so many columns."""
    return max(LEAST_ROWS, BLOCK_CELLS // max(width, 1))


class Origin(NamedTuple):
    """What is known of a table without its cells; see Table for the fields."""

    names: tuple[str, ...]
    N: int
    format: Format
    sha256: str
    label: str
    stem: str
    suffix: str


class Block(NamedTuple):
    """Consecutive rows of a table: from row `first` (from 0) on."""

    first: int
    table: Table


class Source(ABC):
    """A table as blocks of rows, first to last. `origin` describes the whole of it."""

    origin: Origin

    @abstractmethod
    def blocks(self) -> Iterator[Block]:
        """The blocks. InputError when the table has changed since it was opened."""


class Whole(Source):
    """A table that is in memory, as one block."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self.origin = Origin(table.names, table.N, table.format, table.sha256, table.label, table.stem, table.suffix)

    def blocks(self) -> Iterator[Block]:
        yield Block(0, self._table)
