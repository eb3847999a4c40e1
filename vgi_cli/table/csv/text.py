"""Split CSV text into rows and cells without changing a byte, and refuse what is no table.

Where the cells of a CSV text lie: byte offsets instead of parsed values, so that a table can be written back with
nothing changed but the filled cells.

Quoting follows RFC 4180 where the text does, and Python's `csv` module where it does not (a quote inside an unquoted
cell is a character like any other). Files without such stray quotes take a vectorised path.
"""

from __future__ import annotations

import codecs
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from vgi_cli.columns.numerals import Ints
from vgi_cli.errors import InputError, TooLarge
from vgi_cli.ranges import MOST_COLUMNS, MOST_ROW
from vgi_cli.table.csv.comments import header_below

QUOTE, LF, CR = 34, 10, 13

Bytes = npt.NDArray[np.uint8]
GUESSES = {";": "';'", "\t": "'\\t'", ",": "','", "|": "'|'"}
"""Delimiters that a one-column file may have been meant to have, as the shell wants them."""
SAMPLE = 100
"""Rows that are looked at for one of them."""
BLANK_QUOTE = re.compile(rb' +"[^"\r\n]*"?')
HALF = 0.5
"""A cell that begins with a blank before its quote, and the share of rows from which on such cells are no chance."""
QUOTED = re.compile(rb'"(?:[^"]|"")*"')
"""A cell in quotes."""
LOOKED_AT = 1 << 20
"""Bytes of a text that are looked at for another delimiter on which its lines agree."""
PACKED = {
    b"\x1f\x8b": ("gzip", "`gunzip -c FILE` unpacks it"),
    b"\x28\xb5\x2f\xfd": ("zstd", "`zstd -dc FILE` unpacks it"),
    b"BZh": ("bzip2", "`bunzip2 -c FILE` unpacks it"),
}
"""What compressed texts begin with."""
MOSTLY = 0.9
"""From this share of the rows on, it is the header that has the wrong number of cells."""


@dataclass(frozen=True)
class CsvText:
    """One CSV file: where its cells are.

    text       the bytes, unchanged
    label      the file's name
    delimiter  one ASCII character
    names      column names
    bounds     [N, width + 1]: cell j of row i is text[bounds[i, j] : bounds[i, j + 1] - 1]
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

    @property
    def newline(self) -> bytes:
        """What ends the header."""
        return self.text[self.header[1] : self.header[2]] or b"\n"


def split_csv(text: bytes, label: str, delimiter: str, *, later: bool = False) -> CsvText:
    """Find the cells of a CSV file. InputError for everything that is not a rectangular table of UTF-8 text.

    `later`: the text begins with a header that has been read: no byte-order mark comes before it, and its delimiter has
    been looked at.
    """
    begin = 0 if later else byte_order_marks(text)
    if not text[begin:].strip():
        raise InputError(f"{label}: the file is empty", "expected a header with column names, then rows")
    _check_bytes(text, label)
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
    if len(cells_end) > MOST_COLUMNS:
        raise TooLarge(
            f"{label}: the header has {len(cells_end):,} columns, at most {MOST_COLUMNS:,} are read",
            "a table with so many is better stored with a row for each cell",
        )
    longest = int(np.argmax(lines.following - starts))
    if lines.following[longest] - starts[longest] > MOST_ROW:
        raise too_long(label, line_number(text, int(starts[longest])))
    names, quoted = _header(text, label, int(starts[head]), cells_end)
    width = len(names)
    rows = np.arange(head + 1, len(counts)) if width == 1 else filled[1:]
    if not later:
        _check_quotes(text, label, delimiter, lines, [head, *rows[:SAMPLE].tolist()])
    if not later and width == 1:
        _check_delimiter(text, label, delimiter, names[0], starts[rows], ends[rows])
    ragged = np.flatnonzero(counts[rows] != width)
    if len(ragged):
        row = int(ragged[0])
        line = line_number(text, int(starts[rows[row]]))
        found = int(counts[rows[row]])
        raise InputError(
            f"{label}: row {row + 1} (line {line}) has {_cells(found)}, the header has {width}",
            _unclosed(text, int(starts[rows[row]]), int(ends[rows[row]]), delimiter)
            or _other_delimiter(text, begin, delimiter, int(np.bincount(counts[rows]).argmax()))
            or _ragged_hint(width, counts[rows], _ends_empty(lines, int(rows[row])), delimiter)
            or _footnote_hint(text[int(starts[rows[row]]) : int(ends[rows[row]])], found, width)
            or f"every row needs {_cells(width)}; a cell that holds {delimiter!r} must be in quotes",
        )
    if len(rows) == 0:
        raise InputError(f"{label}: the file has a header but no rows", "expected at least one row of data")
    bounds = np.empty((len(rows), width + 1), np.int64)
    bounds[:, 0] = starts[rows]
    for j in range(width):
        bounds[:, j + 1] = lines.separators[lines.last[rows] - (width - 1 - j)] + 1
    if not later:
        _check_comment(text, label, starts[[head, *rows[:SAMPLE].tolist()]], bounds[:SAMPLE])
    header = (int(starts[head]), int(ends[head]), int(lines.following[head]))
    return CsvText(text, label, delimiter, names, bounds, lines.following[rows], header, quoted)


def _check_comment(text: bytes, label: str, starts: Ints, bounds: Ints) -> None:
    """InputError where the header is rather a comment above it; `starts` [n + 1] of the header and of the first rows,
    whose cells lie within `bounds` [n, width + 1]."""
    rows = [[unquote(text[b : e - 1].decode()) for b, e in itertools.pairwise(row)] for row in bounds.tolist()]
    found = header_below(text[starts[0] : starts[0] + 2].decode(errors="ignore"), rows)
    if found is not None:
        mark, place = found
        first, line = (line_number(text, int(starts[at])) for at in (0, place + 1))
        raise InputError(
            f"{label}: line {first} begins with '{mark}', as comments do, and line {line} reads like a header",
            f"are there lines above the header? Delete them; if line {line} holds units or a second header, delete it",
        )


def _ends_empty(lines: Lines, row: int) -> bool:
    """Whether nothing follows the last delimiter of a line."""
    last = int(lines.last[row])
    return last > 0 and int(lines.separators[last]) == int(lines.separators[last - 1]) + 1


def _ragged_hint(width: int, counts: Ints, ends_empty: bool, delimiter: str) -> str | None:
    """What to do about rows whose numbers of cells [n] are not the header's, where most of them agree; `ends_empty`:
    whether nothing follows the last delimiter of the first of them."""
    usual = int(np.bincount(counts).argmax())
    if usual == width + 1 and ends_empty:
        return f"the rows end with {delimiter!r}, the header does not: delete these, or name that column in the header"
    if len(counts) > 1 and usual == width + 1 > 2 and (counts == usual).all():
        return (
            "every row has one cell more than the header: if the first cells are names of rows (R's `write.table`), "
            "name them in the header (there: `col.names=NA`); if the first line is no header, delete it"
        )
    if usual > width and (counts == usual).mean() >= MOSTLY:
        return f"most rows have {_cells(usual)}: are there lines above the header? Delete them"
    return None


def _footnote_hint(row: bytes, cells: int, width: int) -> str | None:
    """What to do about a row of a single cell, in quotes or in a table of several columns more; None of another row."""
    if cells > 1 or (width == 2 and QUOTED.fullmatch(row) is None):
        return None
    return f"if this is a footnote or another line beside the table, delete it; else every row needs {_cells(width)}"


def _unclosed(text: bytes, start: int, end: int, delimiter: str) -> str | None:
    """What to do about a row with a wrong number of cells that has a cell whose quote was never closed, it seems: the
    next quote, which opened another cell, closed it."""
    if b'"' not in text[start:end]:
        return None
    separators = find_lines(text[:end], ord(delimiter), start).separators
    for first, last in itertools.pairwise([start - 1, *separators.tolist()]):
        cell = text[first + 1 : last]
        if cell.startswith(b'"') and (b"\n" in cell or QUOTED.fullmatch(cell) is None):
            line = line_number(text, first + 1)
            ways = "Close it there, or double it if it is text"
            return f"is the quote that opens a cell on line {line} never closed? {ways}"
    return None


def _other_delimiter(text: bytes, begin: int, delimiter: str, cells: int) -> str | None:
    """The flag of another delimiter, where nearly all lines agree on a number of cells by it, more than the rows mostly
    have now, and what to do about lines above the header; None where they agree on none."""
    end = text.find(b"\n", begin + LOOKED_AT)
    some = text if end < 0 else text[: end + 1]
    for guess, shown in GUESSES.items():
        if guess == delimiter:
            continue
        lines = find_lines(some, ord(guess), begin)
        counts = np.diff(lines.last, prepend=-1)
        usual = int(np.bincount(counts).argmax())
        if lines.unclosed is None and len(counts) > 2 and usual > cells and (counts == usual).mean() >= MOSTLY:
            above = int(np.argmax(counts == usual))
            line = line_number(text, int(lines.following[above - 1])) if above else 1
            also = f"; if there are lines above the header, on line {line}, delete them" if line > 1 else ""
            return f"most rows have {_cells(usual)} with `--delimiter {shown}`{also}"
    return None


def too_long(label: str, line: int) -> TooLarge:
    """The error of a row beyond MOST_ROW."""
    return TooLarge(
        f"{label}: the row that begins on line {line} is longer than {MOST_ROW >> 20} MiB",
        "is a quote opened there that nothing closes? Leave out columns of whole documents",
    )


def byte_order_marks(text: bytes) -> int:
    """How many bytes of byte-order marks a text begins with (programs that join texts leave several)."""
    mark = codecs.BOM_UTF8
    end = 0
    while text.startswith(mark, end):
        end += len(mark)
    return end


def line_number(text: bytes, position: int) -> int:
    """Line of a byte in its file, from 1."""
    before = text[:position]
    return before.count(b"\n") + before.count(b"\r") - before.count(b"\r\n") + 1


def _cells(count: int) -> str:
    return f"{count} cell" if count == 1 else f"{count} cells"


def _check_bytes(text: bytes, label: str) -> None:
    packed = next((what for mark, what in PACKED.items() if text.startswith(mark)), None)
    nul = text.find(b"\0")
    if nul >= 0:
        hint = "save it as CSV in UTF-8"
        if text[:4] == b"PAR1":
            hint = "this is a Parquet file: give it the extension .parquet"
        elif text[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            hint = "this is UTF-16: save it as UTF-8, for example by `iconv -f utf-16 -t utf-8`"
        if packed is not None:
            raise InputError(f"{label}: compressed by {packed[0]}, not a text table", packed[1])
        raise InputError(f"{label}: NUL byte on line {line_number(text, nul)}: not a text table", hint)
    try:
        text.decode("utf-8")
    except UnicodeDecodeError as error:
        if packed is not None:
            raise InputError(f"{label}: compressed by {packed[0]}, not a text table", packed[1]) from None
        line = line_number(text, error.start)
        raise InputError(
            f"{label}: line {line} is not UTF-8 (byte 0x{text[error.start]:02x})",
            "save the file as UTF-8: Excel's `CSV UTF-8 (Comma delimited)`, elsewhere `iconv -f cp1252 -t utf-8`",
        ) from None


def _header(text: bytes, label: str, start: int, cells_end: Ints) -> tuple[tuple[str, ...], bool]:
    ends = cells_end.tolist()
    begins = [start, *(end + 1 for end in ends[:-1])]
    raw = [text[b:e].decode() for b, e in zip(begins, ends, strict=True)]
    if named := re.fullmatch("sep=(.)", text[start : cells_end[-1]].decode(), re.IGNORECASE):
        shown = GUESSES.get(named[1], f"'{named[1]}'")
        message = f"{label}: the first line ('sep=') tells a spreadsheet the delimiter, and is no header"
        raise InputError(message, f"delete that line, and say `--delimiter {shown}` here")
    names = tuple(unquote(cell) for cell in raw)
    if not names[-1].strip() and len(names) > 2 and all(name.strip() for name in names[1:-1]):
        message = f"{label}: the last of {len(names)} columns has no name"
        raise InputError(message, "name it in the header; if each line ends with a delimiter, delete those")
    check_names(names, label)
    return names, all(cell.startswith('"') for cell in raw)


def looks_like_data(names: Sequence[str]) -> bool:
    """Whether a header is rather a row: numbers only, and not all whole (years and positions are common names)."""
    numbers = [re.fullmatch(r"[+-]?[0-9]*\.?[0-9]+([eE][+-]?[0-9]+)?", name.strip()) for name in names if name.strip()]
    return all(numbers) and any("." in name for name in names)


def check_names(names: Sequence[str], label: str) -> None:
    """Refuse empty names (but of the first column, a row index) and duplicate ones."""
    for i, name in enumerate(names):
        if not name.strip() and (i > 0 or len(names) == 1):
            title = len(names) > 1 and sum(bool(name.strip()) for name in names) == 1
            above = f"if '{names[0]}' is a title above the header, delete that line; else "
            hint = above * title + "name every column in the header"
            raise InputError(f"{label}: column {i + 1} has no name", hint)
    seen: dict[str, int] = {}
    for i, name in enumerate(names):
        if name in seen:
            hint = "is the header line missing?" if looks_like_data(names) else "rename one of them"
            raise InputError(f"{label}: duplicate column name '{name}' (columns {seen[name] + 1} and {i + 1})", hint)
        seen[name] = i


def _check_delimiter(text: bytes, label: str, delimiter: str, name: str, starts: Ints, ends: Ints) -> None:
    sample = [text[int(s) : int(e)].decode() for s, e in zip(starts[:SAMPLE], ends[:SAMPLE], strict=True)]
    for guess, shown in GUESSES.items():
        if guess != delimiter and guess in name and all(guess in row for row in sample):
            raise InputError(
                f"{label}: one column only, and every row holds {shown}", f"did you mean `--delimiter {shown}`?"
            )


def _check_quotes(text: bytes, label: str, delimiter: str, lines: Lines, rows: Sequence[int]) -> None:
    """InputError where cells begin with a blank before their quote, in the header or in half of some other `rows`."""
    if delimiter == " " or f'{delimiter} "'.encode() not in text:
        return
    firsts = np.concatenate([[0], lines.last[:-1] + 1])
    found: dict[int, re.Match[bytes]] = {}
    for row in rows:
        ends = lines.separators[firsts[row] : lines.last[row]].tolist()
        match = next(filter(None, (BLANK_QUOTE.match(text, end + 1) for end in ends)), None)
        if match is not None:
            found[row] = match
    if found and (rows[0] in found or len(found) >= HALF * (len(rows) - 1)):
        first = next(iter(found.values()))
        raise InputError(
            f"{label}: cells begin with a blank before their quote ({first[0].decode()!r} on line "
            f"{line_number(text, first.start())}), so that blank and quote are part of the cell",
            f"delete the blanks after {delimiter!r}: pandas reads such a file with `skipinitialspace=True`, and "
            "`to_csv` writes it without them",
        )


def header_cell(name: str, delimiter: str) -> str:
    """A name as a cell; in quotes too where it would be taken for a byte-order mark."""
    return quote(name) if name.startswith("\ufeff") else quote_if_needed(name, delimiter)


def rewrite(text: CsvText, names: Sequence[str], delimiter: str) -> CsvText:
    """The same rows in another order of columns or with another delimiter; the cells keep their spelling."""
    begin = text.header[0]
    if tuple(names) == text.names and delimiter == text.delimiter:
        return text
    order = [text.names.index(name) for name in names]
    newline = text.newline
    lines = [delimiter.join(header_cell(name, delimiter) for name in names).encode() + newline]
    for bounds, following in zip(text.bounds.tolist(), text.following.tolist(), strict=True):
        cells = [text.text[bounds[j] : bounds[j + 1] - 1].decode() for j in order]
        if delimiter != text.delimiter:
            cells = [c if c.startswith('"') else quote_if_needed(c, delimiter) for c in cells]
        lines.append(delimiter.join(cells).encode() + (text.text[bounds[-1] - 1 : following] or newline))
    return split_csv(text.text[:begin] + b"".join(lines), text.label, delimiter, later=begin == 0)


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
