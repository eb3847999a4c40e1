"""A CSV text as a table: the bytes stay as they are, beside the offsets of their cells."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from vgi_cli.errors import InputError
from vgi_cli.table.base import MISSING, Bools, Table
from vgi_cli.table.cells import QUOTE, Ints, find_lines, unquote
from vgi_cli.table.numerals import Numbers, Spelling, parse, spelling

GUESSES = {";": "';'", "\t": "'\\t'", ",": "','", "|": "'|'"}
"""Delimiters that a one-column file may have been meant to have, as the shell wants them."""


@dataclass(frozen=True)
class CsvText:
    """One CSV file: where its cells are.

    text       the bytes, unchanged
    label      the file's name
    delimiter  one ASCII character
    names      column names
    bounds     [N, width + 1]: cell j of row i is text[bounds[i, j] : bounds[i, j + 1] - 1]
    starts     [N] where each row begins
    following  [N] where the line after each row begins
    header     (begin, end of cells, begin of the next line) of the header
    quoted     whether all names of the header are in quotes
    """

    text: bytes
    label: str
    delimiter: str
    names: tuple[str, ...]
    bounds: Ints
    following: Ints
    header: tuple[int, int, int]
    quoted: bool

    @property
    def N(self) -> int:
        """Number of rows."""
        return len(self.bounds)


def split_csv(text: bytes, label: str, delimiter: str) -> CsvText:
    """Find the cells of a CSV file. InputError for everything that is not a rectangular table of UTF-8 text."""
    if not text.removeprefix(codecs.BOM_UTF8).strip():
        raise InputError(f"{label}: the file is empty", "expected a header with column names, then rows")
    _check_bytes(text, label)
    begin = len(codecs.BOM_UTF8) if text.startswith(codecs.BOM_UTF8) else 0
    lines = find_lines(text, ord(delimiter), begin)
    if lines.unclosed is not None:
        line = line_number(text, lines.unclosed)
        raise InputError(f"{label}: the quote opened on line {line} is never closed", 'close it, or double it: ""')
    ends = lines.separators[lines.last]
    starts = np.concatenate([[begin], lines.following[:-1]]).astype(np.int64)
    counts = np.diff(lines.last, prepend=-1)
    # Blank lines before the header and, in tables of more than one column, between rows stand for nothing; they stay.
    filled = np.flatnonzero((counts > 1) | (ends > starts))
    head = int(filled[0])
    cells_end = lines.separators[lines.last[head] - counts[head] + 1 : lines.last[head] + 1]
    names, quoted = _header(text, label, int(starts[head]), cells_end)
    width = len(names)
    rows = np.arange(head + 1, len(counts)) if width == 1 else filled[1:]
    _check_delimiter(text, label, delimiter, width, names, starts[rows], ends[rows])
    ragged = np.flatnonzero(counts[rows] != width)
    if len(ragged):
        row = int(ragged[0])
        line = line_number(text, int(starts[rows[row]]))
        found = int(counts[rows[row]])
        raise InputError(
            f"{label}: row {row + 1} (line {line}) has {_cells(found)}, the header has {width}",
            f"every row needs {_cells(width)}; a cell that holds {delimiter!r} must be in quotes",
        )
    if len(rows) == 0:
        raise InputError(f"{label}: the file has a header but no rows", "expected at least one row of data")
    bounds = np.empty((len(rows), width + 1), np.int64)
    bounds[:, 0] = starts[rows]
    for j in range(width):
        bounds[:, j + 1] = lines.separators[lines.last[rows] - (width - 1 - j)] + 1
    header = (int(starts[head]), int(ends[head]), int(lines.following[head]))
    return CsvText(text, label, delimiter, names, bounds, lines.following[rows], header, quoted)


def line_number(text: bytes, position: int) -> int:
    """Line of a byte in its file, from 1."""
    before = text[:position]
    return before.count(b"\n") + before.count(b"\r") - before.count(b"\r\n") + 1


def _cells(count: int) -> str:
    return f"{count} cell" if count == 1 else f"{count} cells"


def _check_bytes(text: bytes, label: str) -> None:
    nul = text.find(b"\0")
    if nul >= 0:
        hint = "save it as CSV in UTF-8"
        if text[:4] == b"PAR1":
            hint = "this is a Parquet file: give it the extension .parquet"
        elif text[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            hint = "this is UTF-16: save it as UTF-8"
        raise InputError(f"{label}: NUL byte on line {line_number(text, nul)}: not a text table", hint)
    try:
        text.decode("utf-8")
    except UnicodeDecodeError as error:
        line = line_number(text, error.start)
        raise InputError(
            f"{label}: line {line} is not UTF-8 (byte 0x{text[error.start]:02x})",
            "save the file as UTF-8, for example with `iconv -f latin1 -t utf-8`",
        ) from None


def _header(text: bytes, label: str, start: int, cells_end: Ints) -> tuple[tuple[str, ...], bool]:
    ends = cells_end.tolist()
    begins = [start, *(end + 1 for end in ends[:-1])]
    raw = [text[b:e].decode() for b, e in zip(begins, ends, strict=True)]
    names = tuple(unquote(cell) for cell in raw)
    check_names(names, label)
    return names, all(cell.startswith('"') for cell in raw)


def check_names(names: Sequence[str], label: str) -> None:
    """Refuse empty names (but of the first column, a row index) and duplicate ones."""
    for i, name in enumerate(names):
        if not name.strip() and (i > 0 or len(names) == 1):
            raise InputError(f"{label}: column {i + 1} has no name", "name every column in the header")
    seen: dict[str, int] = {}
    for i, name in enumerate(names):
        if name in seen:
            raise InputError(
                f"{label}: duplicate column name '{name}' (columns {seen[name] + 1} and {i + 1})", "rename one of them"
            )
        seen[name] = i


def _check_delimiter(
    text: bytes, label: str, delimiter: str, width: int, names: Sequence[str], starts: Ints, ends: Ints
) -> None:
    if width != 1:
        return
    sample = [text[int(s) : int(e)].decode() for s, e in zip(starts[:100], ends[:100], strict=True)]
    for guess, shown in GUESSES.items():
        if guess != delimiter and guess in names[0] and all(guess in row for row in sample):
            raise InputError(
                f"{label}: one column only, and every row holds {shown}", f"did you mean `--delimiter {shown}`?"
            )


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
    ) -> None:
        """`sources`: (first row, label, first byte, lines before it) of each joined file."""
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
        )
        self.csv = csv
        self._sources = tuple(sources)
        self._tokens = pa.array([*MISSING, *(t.strip() for t in na_values)], pa.large_string())
        self._data = np.frombuffer(csv.text, np.uint8)

    def raw_text(self, name: str) -> npt.NDArray[np.object_]:
        return np.array(self._cells(self.place(name)).to_pylist(), dtype=object)

    def typed(self, name: str) -> bool:
        return False

    def whole(self, name: str) -> bool:
        return False

    def single(self, name: str) -> bool:
        return False

    def spelling(self, name: str) -> Spelling | None:
        number = self.numbers(name).number
        return spelling(self._trimmed(self.place(name)), number)

    def where(self, row: int) -> str:
        _, label, begin, lines = next(s for s in reversed(self._sources) if s[0] <= row)
        at = int(self.csv.bounds[row, 0])
        line = lines + line_number(self.csv.text[begin:at], at - begin)
        place = f"line {line}" if len(self._sources) == 1 else f"line {line} of {label}"
        return f"row {row + 1} ({place})"

    def in_quotes(self, name: str, rows: Ints) -> Bools:
        """Whether the raw cells of some rows begin with a quote."""
        bounds = self.csv.bounds[rows]
        i = self.place(name)
        begin = np.minimum(bounds[:, i], len(self._data) - 1)
        return np.asarray((self._data[begin] == QUOTE) & (self._ends(i)[rows] > begin), bool)

    def ends(self, name: str) -> Ints:
        """[N] where the cells of a column end."""
        return self._ends(self.place(name))

    def _ends(self, i: int) -> Ints:
        return self.csv.bounds[:, i + 1] - 1

    def _missing(self, i: int) -> Bools:
        return np.asarray(pc.is_in(self._trimmed(i), self._tokens).to_numpy(zero_copy_only=False), bool)

    def _read_numbers(self, i: int, missing: Bools) -> Numbers:
        return parse(self._trimmed(i), missing)

    def _trimmed(self, i: int) -> pa.Array:
        return pc.ascii_trim_whitespace(self._cells(i))

    def _cells(self, i: int) -> pa.Array:
        """The i-th column as Arrow large_string [N], quotes undone."""
        begin, end = self.csv.bounds[:, i], self._ends(i)
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
