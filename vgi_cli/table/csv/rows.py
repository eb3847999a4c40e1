"""Rows of a CSV file, some at a time: a block has the header of its file and is a CSV text of its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

import numpy as np

from vgi_cli.ranges import MOST_ROW
from vgi_cli.table.base import Table
from vgi_cli.table.csv.table import CsvTable
from vgi_cli.table.csv.text import (
    CsvText,
    Lines,
    byte_order_marks,
    find_lines,
    line_number,
    rewrite,
    split_csv,
    too_long,
)
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


class Place(NamedTuple):
    """Where some rows of a table begin, in its files.

    row      how many rows come before them
    file     the number of their file, from 0
    byte, lines  of that file before them
    header   the header of that file with its line end; empty: it is still to be read
    names    the columns of the first file; `newline`: what ends its header
    """

    row: int = 0
    file: int = 0
    byte: int = 0
    lines: int = 0
    header: bytes = b""
    names: tuple[str, ...] = ()
    newline: bytes = b""


class CsvRows:
    """Reads the rows of one file, front to back.

    byte, lines  of the file before the next rows
    header       with its line end, once it was read
    """

    def __init__(self, file: BinaryIO, label: str, delimiter: str, *, more: bool = False, start: Place) -> None:
        """`more`: another file follows, so a last row without a line end gets one: that of the first file, or the
        header's. Where `start` knows the header of the file, its rows are read from there on."""
        self._file, self._label, self._delimiter = file, label, delimiter
        self._more, self._newline = more, start.newline
        self._buffer = b""
        self._at_end = False
        self._whole = 0  # bytes of the buffer that are whole rows
        self._single = False  # one column: blank lines are rows
        self.byte, self.lines, self.header = 0, 0, b""
        if start.header:
            self.byte, self.lines, self.header = start.byte, start.lines, start.header
            self._single = len(start.names) == 1
            file.seek(start.byte)

    def take(self, rows: int) -> CsvPiece | None:
        """The next `rows` rows, fewer at the end, and None after it. InputError as `split_csv`."""
        while (cut := self._cut(rows)) is None:
            if len(self._buffer) - self._whole > MOST_ROW:
                raise too_long(self._label, self.lines + line_number(self._buffer, self._whole))
            more = self._file.read(max(PIECE, len(self._buffer)))
            self._at_end = not more
            self._buffer += more
        if cut == 0 and self.header:
            return None
        taken, self._buffer = self._buffer[:cut], self._buffer[cut:]
        self.byte += len(taken)
        text = self._before(taken) + taken
        csv = split_csv(text, self._label, self._delimiter, later=bool(self.header))
        if self._more and text[-1:] not in (b"\n", b"\r"):
            text += self._newline or csv.newline
            csv = split_csv(text, self._label, self._delimiter, later=bool(self.header))
        piece = CsvPiece(csv, len(self.header), self.lines)
        self.lines += line_number(taken, len(taken)) - 1
        if not self.header:
            self.header = csv.text[csv.header[0] : csv.header[2]]
            self._single = len(csv.names) == 1
        return piece

    def _before(self, taken: bytes) -> bytes:
        """The header, whose line end and a blank line that comes first among the rows are not one line end."""
        meets = self.header[-1:] == b"\r" and taken[:1] == b"\n"
        return self.header[:-1] + b"\n" if meets else self.header

    def _cut(self, rows: int) -> int | None:
        """How many bytes of the buffer hold the next `rows` rows; None where more must be read to know."""
        if self._at_end and not self._buffer:
            return 0
        lines = self._complete()
        self._whole = 0 if lines is None else int(lines.following[-1])
        if lines is None:
            return len(self._buffer) if self._at_end else None
        begin = 0 if self.header else byte_order_marks(self._buffer)
        starts = np.concatenate([[begin], lines.following[:-1]])
        cells = np.diff(lines.last, prepend=-1)
        filled = np.flatnonzero((cells > 1) | (lines.separators[lines.last] > starts))
        found = np.arange(len(cells)) if self._single else filled
        wanted = rows
        if not self.header and len(filled):  # the first line that is not blank is the header
            wanted = rows + 1
            if cells[filled[0]] == 1:
                found = np.arange(filled[0], len(cells))
        if len(found) > wanted:
            return int(lines.following[found[wanted - 1]])
        return len(self._buffer) if self._at_end else None

    def _complete(self) -> Lines | None:
        """The rows of the buffer that are whole for certain; None where there is none."""
        begin = 0 if self.header else byte_order_marks(self._buffer)
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


def csv_tables(whole: TableFiles, rows: Iterator[int], start: Place | None = None) -> Iterator[tuple[Place, Table]]:
    """The rows of all files, as many at a time as `rows` says (fewer at the end of a file), columns as in the first,
    each part with its place; from `start` on (None: from the first row)."""
    place, files = start or Place(), whole.files
    delimiter = files[0].delimiter
    for number in range(place.file, len(files)):
        one = files[number]
        with one.open() as file:
            reader = CsvRows(file, one.label, one.delimiter, more=number < len(files) - 1, start=place)
            while True:
                place = place._replace(file=number, byte=reader.byte, lines=reader.lines, header=reader.header)
                if (piece := reader.take(next(rows))) is None:
                    break
                csv, begin, lines = piece
                names = place.names or csv.names
                same_names(names, csv.names, one.label, files[0].label)
                if csv.names != names or csv.delimiter != delimiter:
                    lines += line_number(csv.text, csv.header[2]) - 1 if begin == 0 else 0
                    csv = rewrite(csv, names, delimiter)
                    begin = csv.header[2]
                sources = [(0, one.label, begin, lines)]
                several = len(files) > 1
                table = CsvTable(csv, whole.origin, sources, whole.na_values, place.row, several, whole.decimal)
                table.levels = whole.levels
                yield place, table
                newline = place.newline or csv.newline
                place = place._replace(row=place.row + csv.N, names=names, newline=newline)
            place = place._replace(header=b"")
