"""Rows of a CSV file, some at a time: a block has the header of its file and is a CSV text of its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

import numpy as np

from vgi_cli.table.base import Table
from vgi_cli.table.csv.table import CsvTable
from vgi_cli.table.csv.text import CsvText, Lines, byte_order_marks, find_lines, line_number, rewrite, split_csv
from vgi_cli.table.inputs import TableFiles
from vgi_cli.table.join import same_names

PIECE = 1 << 20


class CsvPiece(NamedTuple):
    """Some rows as a CSV text.

    csv     its text begins with what the file begins with, or, after the first piece, with the header's line alone
    begin   byte of `csv.text` where the piece of the file begins
    lines   lines of the file before it
    """

    csv: CsvText
    begin: int
    lines: int


class CsvRows:
    """Reads the rows of one file, front to back."""

    def __init__(self, file: BinaryIO, label: str, delimiter: str, *, more: bool = False, newline: bytes = b"") -> None:
        """`more`: another file follows, so a last row without a line end gets one: `newline`, or the header's."""
        self._file, self._label, self._delimiter = file, label, delimiter
        self._more, self._newline = more, newline
        self._buffer = b""
        self._at_end = False
        self._header = b""
        self._single = False  # one column: blank lines are rows
        self._lines = 0

    def take(self, rows: int) -> CsvPiece | None:
        """The next `rows` rows, fewer at the end, and None after it. InputError as `split_csv`."""
        while (cut := self._cut(rows)) is None:
            more = self._file.read(max(PIECE, len(self._buffer)))
            self._at_end = not more
            self._buffer += more
        if cut == 0 and self._header:
            return None
        taken, self._buffer = self._buffer[:cut], self._buffer[cut:]
        text = self._header + taken
        csv = split_csv(text, self._label, self._delimiter, later=bool(self._header))
        if self._more and text[-1:] not in (b"\n", b"\r"):
            text += self._newline or csv.newline
            csv = split_csv(text, self._label, self._delimiter, later=bool(self._header))
        piece = CsvPiece(csv, len(self._header), self._lines)
        self._lines += line_number(taken, len(taken)) - 1
        if not self._header:
            self._header = csv.text[csv.header[0] : csv.header[2]]
            self._single = len(csv.names) == 1
        return piece

    def _cut(self, rows: int) -> int | None:
        """How many bytes of the buffer hold the next `rows` rows; None where more must be read to know."""
        if self._at_end and not self._buffer:
            return 0
        lines = self._complete()
        if lines is None:
            return len(self._buffer) if self._at_end else None
        begin = 0 if self._header else byte_order_marks(self._buffer)
        starts = np.concatenate([[begin], lines.following[:-1]])
        cells = np.diff(lines.last, prepend=-1)
        filled = np.flatnonzero((cells > 1) | (lines.separators[lines.last] > starts))
        found = np.arange(len(cells)) if self._single else filled
        wanted = rows
        if not self._header and len(filled):  # the first line that is not blank is the header
            wanted = rows + 1
            if cells[filled[0]] == 1:
                found = np.arange(filled[0], len(cells))
        if len(found) > wanted:
            return int(lines.following[found[wanted - 1]])
        return len(self._buffer) if self._at_end else None

    def _complete(self) -> Lines | None:
        """The rows of the buffer that are whole for certain; None where there is none."""
        begin = 0 if self._header else byte_order_marks(self._buffer)
        end = len(self._buffer)
        if self._at_end:
            lines = find_lines(self._buffer, ord(self._delimiter), begin)
            return lines if lines.unclosed is None and len(lines.last) else None
        while (end := _last_line(self._buffer, end)) > begin:
            lines = find_lines(self._buffer[:end], ord(self._delimiter), begin)
            if lines.unclosed is None:
                return lines if len(lines.last) else None
            end = lines.unclosed + 1  # the row of this quote goes on: stop before it
        return None


def _last_line(text: bytes, end: int) -> int:
    """Where the last line before byte `end` ends; a CR that could be half of a line end does not count."""
    return max(text.rfind(b"\n", 0, end), text.rfind(b"\r", 0, max(end - 1, 0))) + 1


def csv_tables(whole: TableFiles, rows: Iterator[int]) -> Iterator[Table]:
    """The rows of all files, as many at a time as `rows` says (fewer at the end of a file), columns as in the first."""
    first, files = 0, whole.files
    names: tuple[str, ...] = ()
    delimiter, newline = files[0].delimiter, b""
    for number, one in enumerate(files):
        with one.open() as file:
            reader = CsvRows(file, one.label, one.delimiter, more=number < len(files) - 1, newline=newline)
            while (piece := reader.take(next(rows))) is not None:
                csv, begin, lines = piece
                names, newline = names or csv.names, newline or csv.newline
                same_names(names, csv.names, one.label, files[0].label)
                if csv.names != names or csv.delimiter != delimiter:
                    lines += line_number(csv.text, csv.header[2]) - 1 if begin == 0 else 0
                    csv = rewrite(csv, names, delimiter)
                    begin = csv.header[2]
                sources = [(0, one.label, begin, lines)]
                yield CsvTable(csv, whole.origin, sources, whole.na_values, first, len(files) > 1, whole.decimal)
                first += csv.N
