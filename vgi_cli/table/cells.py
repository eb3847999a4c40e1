"""Where the cells of a CSV text lie: byte offsets instead of parsed values, so that a table can be written back with
nothing changed but the filled cells.

Quoting follows RFC 4180 where the text does, and Python's `csv` module where it does not (a quote inside an unquoted
cell is a character like any other). Files without such stray quotes take a vectorised path.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

QUOTE, LF, CR = 34, 10, 13

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]


class Lines(NamedTuple):
    """The rows of a CSV text, header included, before their widths are compared.

    separators  [P] byte positions that end a cell (a delimiter, the end of a row)
    last        [n] index into `separators` of each row's last cell
    following   [n] byte position where the next row begins
    unclosed    byte position of an opening quote that nothing closes, else None
    """

    separators: Ints
    last: Ints
    following: Ints
    unclosed: int | None


def find_lines(text: bytes, delimiter: int, start: int) -> Lines:
    """Cell and row ends of `text` from byte `start` (after a byte-order mark).

    Rows end in LF, CR LF or CR; the end of a last row without a line end is `len(text)`.
    """
    data = np.frombuffer(text, np.uint8)
    quotes = np.flatnonzero(data == QUOTE)
    if len(quotes) and not _regular(data, quotes, delimiter, start):
        separators, unclosed = _scan(text, data, delimiter, start)
    else:
        separators, unclosed = _special(data, delimiter, start), None
        if len(quotes):
            separators = separators[np.searchsorted(quotes, separators) % 2 == 0]
    if unclosed is not None:
        return Lines(separators, np.zeros(0, np.int64), np.zeros(0, np.int64), unclosed)
    return _rows(data, separators, delimiter, start)


def _special(data: Bytes, delimiter: int, start: int) -> Ints:
    positions = np.flatnonzero((data == delimiter) | (data == LF) | (data == CR))
    return positions[positions >= start]


def _regular(data: Bytes, quotes: Ints, delimiter: int, start: int) -> bool:
    """Whether every quote opens a cell, closes one or is doubled inside one: then counting quotes finds the cells."""
    if len(quotes) % 2:
        return False
    opening, closing = quotes[0::2], quotes[1::2]
    ends = np.array([delimiter, LF, CR, QUOTE], np.uint8)
    before = data[np.maximum(opening - 1, 0)]
    after = data[np.minimum(closing + 1, len(data) - 1)]
    opens = np.isin(before, ends) | (opening == start)
    closes = np.isin(after, ends) | (closing == len(data) - 1)
    return bool(opens.all() and closes.all())


def _scan(text: bytes, data: Bytes, delimiter: int, start: int) -> tuple[Ints, int | None]:
    """Cell ends of a text with stray quotes, one special character at a time (as Python's `csv` reads it)."""
    special = np.flatnonzero((data == delimiter) | (data == LF) | (data == CR) | (data == QUOTE))
    out: list[int] = []
    cell, quoted, opened = start, False, -1
    skip = -1
    for p in special[special >= start].tolist():
        if p == skip:
            continue
        if text[p] == QUOTE:
            if p == cell:
                quoted, opened = True, p
            elif quoted:
                if p + 1 < len(text) and text[p + 1] == QUOTE:
                    skip = p + 1
                else:
                    quoted = False
        elif not quoted:
            out.append(p)
            cell = p + 1
    return np.array(out, np.int64), opened if quoted else None


def _rows(data: Bytes, separators: Ints, delimiter: int, start: int) -> Lines:
    """Group cell ends by row; CR LF is one row end."""
    if len(separators):
        kind = data[separators]
        lone = np.ones(len(separators), bool)
        pair = (kind[:-1] == CR) & (kind[1:] == LF) & (separators[1:] == separators[:-1] + 1)
        lone[1:] = ~pair  # of CR LF, the CR stands for both
        width = np.ones(len(separators), np.int64)
        width[:-1][pair] = 2
        separators, width, kind = separators[lone], width[lone], kind[lone]
        last = np.flatnonzero(kind != delimiter)
        following = separators[last] + width[last]
    else:
        last = following = np.zeros(0, np.int64)
    end = int(following[-1]) if len(following) else start
    if end < len(data):
        separators = np.append(separators, len(data))
        last = np.append(last, len(separators) - 1)
        following = np.append(following, len(data))
    return Lines(separators, last, following, None)


def unquote(cell: str) -> str:
    """The text that a raw cell stands for."""
    if not cell.startswith('"'):
        return cell
    out: list[str] = []
    i = 1
    while i < len(cell):
        j = cell.find('"', i)
        if j < 0:
            return "".join([*out, cell[i:]])
        out.append(cell[i:j])
        if cell[j + 1 : j + 2] != '"':
            return "".join([*out, cell[j + 1 :]])
        out.append('"')
        i = j + 2
    return "".join(out)


def quote(text: str) -> str:
    """A cell in quotes."""
    return '"' + text.replace('"', '""') + '"'


def quote_if_needed(text: str, delimiter: str) -> str:
    """A cell, in quotes only where it would be misread without them."""
    if delimiter in text or '"' in text or "\n" in text or "\r" in text:
        return quote(text)
    return text
