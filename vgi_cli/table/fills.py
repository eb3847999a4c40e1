"""The texts of filled cells: at the column's resolution, spelled and quoted as the table spells its numbers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import pyarrow as pa

from vgi_cli.columns.base import ConstantColumn, ModelledColumn
from vgi_cli.columns.levelled import Levelled
from vgi_cli.columns.number import Constant, Number
from vgi_cli.columns.numerals import EXACT, Bools, Floats, Ints, Places
from vgi_cli.columns.schema import Schema
from vgi_cli.table.base import Table
from vgi_cli.table.csv.table import CsvTable
from vgi_cli.table.csv.text import QUOTE, CsvText, quote, quote_if_needed, unquote
from vgi_cli.table.texts import Tokens

BARE = ("", "")
"""No blanks around a text."""


@dataclass(frozen=True)
class Holes:
    """The holes of one column that are filled.

    column  what the fit knows about it
    place   its position in the table
    d       its position among the modelled columns; None for a constant column
    rows    [n] rows with a hole
    quoted  [n] whether the fill is written in quotes that it does not need: as most of the column's cells are
    blanks  [n] the holes as they stand; where a mask hides a cell, or its level counts as missing, what stands for a
            missing one
    copy    a constant number as the table spells it, if it does
    fewest  fewest decimals of its numbers, None where none is written
    decimal  the mark before them
    spelled  the texts of codes of levels that the table spells in another way than the fit
    around   the blanks before and after each text
    """

    column: ModelledColumn | ConstantColumn
    place: int
    d: int | None
    rows: Ints
    quoted: Bools
    blanks: list[bytes]
    copy: bytes | None
    fewest: int | None
    decimal: str = "."
    spelled: Mapping[int, str] = field(default_factory=dict)
    around: tuple[str, str] = BARE

    def without(self, stay: Bools) -> Holes:
        """The same but for the rows [N] whose holes stay."""
        kept = ~stay[self.rows]
        blanks = [blank for blank, keep in zip(self.blanks, kept.tolist(), strict=True) if keep]
        return replace(self, rows=self.rows[kept], quoted=self.quoted[kept], blanks=blanks)

    def plain(self) -> Holes:
        """The same for a text in which `NA` is what is missing, with points in numbers and no needless quotes."""
        blanks, quoted = [b"NA"] * len(self.rows), np.zeros(len(self.rows), bool)
        column = self.column
        if isinstance(column, Number) and column.notation is not None:
            column = replace(column, notation=None, marks="")
        copy = None
        if isinstance(column, Constant):
            column = replace(column, notation=None)
            if self.copy is not None and abs(column.low) >= EXACT and re.fullmatch(rb"-?[0-9]+", self.copy):
                copy = self.copy  # of which a float64 may not be all digits
        around = self.around if isinstance(column, Levelled) else BARE
        return replace(self, column=column, blanks=blanks, quoted=quoted, copy=copy, decimal=".", around=around)

    def spell(self, codes: Floats) -> list[str]:
        """[n] texts of codes [n]."""
        column = self.column
        texts = column.cells(codes, self.fewest) if isinstance(column, Number) else column.spell(codes, self.fewest)
        if self.spelled:
            texts = [self.spelled.get(int(code), text) for code, text in zip(codes.tolist(), texts, strict=True)]
        return texts if self.around == BARE else [text.join(self.around) for text in texts]

    @property
    def _digits(self) -> bool:
        """Whether the column holds numbers of digits alone, with the table's decimal mark."""
        return isinstance(self.column, Number | Constant) and self.column.notation is None

    def among_texts(self, codes: Floats) -> list[str]:
        """[n] texts of codes [n], for a column that a typed file keeps as the texts of its cells."""
        if self.copy is not None:
            return [unquote(self.copy.decode())] * len(codes)
        texts = self.spell(codes)
        return [text.replace(".", self.decimal) for text in texts] if self._digits else texts

    def filled(self, draw: Floats) -> Holes:
        """The same but for the holes that stay in one draw [N, columns]: those without a value there."""
        if isinstance(self.column, ConstantColumn):
            return self
        stay = np.isnan(draw[:, self.d])
        return self.without(stay) if stay[self.rows].any() else self

    def values(self, draw: Floats) -> Floats:
        """[n] codes of the fills of one draw [N, columns] that has one for each, as the column can hold them."""
        if isinstance(self.column, ConstantColumn):
            return np.full(len(self.rows), self.column.code)
        held = self.column.held(draw[self.rows, self.d])
        return self.column.as_cells(held) if isinstance(self.column, Number) else held

    def texts(self, draw: Floats, delimiter: str) -> list[bytes]:
        """[n] raw cells of one draw [N, D], for a text with that delimiter; where a hole stays, it as it stands."""
        if len((own := self.filled(draw)).rows) == len(self.rows):
            return self._texts(draw, delimiter)
        fills = iter(own._texts(draw, delimiter))
        stay = np.isnan(draw[self.rows, self.d]).tolist()
        return [blank if stays else next(fills) for blank, stays in zip(self.blanks, stay, strict=True)]

    def _texts(self, draw: Floats, delimiter: str) -> list[bytes]:
        """As `texts`, where none stays."""
        if self.copy is not None:
            return [self.copy] * len(self.rows)
        cells = self.spell(self.values(draw))
        number = self._digits
        if number and self.decimal != ".":
            cells = [cell.replace(".", self.decimal) for cell in cells]
        if number and not self.quoted.any() and self.decimal != delimiter:
            return [cell.encode() for cell in cells]
        quotes = self.quoted.tolist()
        return [
            (quote(cell) if q else quote_if_needed(cell, delimiter)).encode()
            for cell, q in zip(cells, quotes, strict=True)
        ]


def absent(table: Table, schema: Schema) -> Bools:
    """[N, columns] which cells of the modelled columns say nothing to a model: those that are missing, levels that the
    fit has not seen, and what was computed from others of which some are missing (`columns/prorated.py`)."""
    out = np.zeros((table.N, len(schema.encoded)), bool)
    for i, column in enumerate(schema.encoded):
        cells = table.column(column.name)
        out[:, i] = cells.missing | column.unseen(cells) if isinstance(column, Levelled) else cells.missing
    for name, rows in schema.silent(lambda column: table.column(column.name).coded(column)).items():
        out[:, schema.modelled.index(name)] |= rows
    return out


def forget_unseen(table: Table, schema: Schema) -> None:
    """Count levels that the fit has not seen as missing."""
    for column in schema.encoded:
        if isinstance(column, Levelled):
            table.forget(column.name, column.unseen(table.column(column.name)))


def avoid_codes(draws: Floats, table: Table, schema: Schema, places: Ints | None = None) -> dict[str, int]:
    """Move fills that would read as missing, because the user gave their text as a token for that, to a near one (see
    ModelledColumn.beside); how many, by column. `draws` [m, N, columns], of the rows at `places` [N] (None: of all),
    are changed."""
    moved: dict[str, int] = {}
    for d, column in enumerate(schema.encoded):
        if not (tokens := table.tokens(column.name)):
            continue
        missing = table.missing(column.name)
        rows = np.flatnonzero(missing if places is None else missing[places])
        fills = draws[:, rows, d]
        refused = partial(_is_token, tokens, column, table.precision(column.name))
        written = column.held(fills)  # which moves a value that is on no lattice, such as the end of a gap
        coded, unlike = refused(written), written != fills
        fills = np.where(coded, written, fills)
        coded[unlike] |= refused(fills[unlike])
        if coded.any():
            moved[column.name] = int(coded.sum())
            fills[coded] = column.beside(fills[coded], refused)
            draws[:, rows, d] = fills
    return moved


def in_precision(column: ModelledColumn | ConstantColumn, values: Floats, precision: np.dtype[np.floating]) -> Floats:
    """Numbers of a column as a table holds them that keeps it in some precision; where rounding to that leaves the
    bounds, the next number within."""
    if precision == np.float64:
        return values
    with np.errstate(over="ignore"):
        held = values.astype(precision)
        if isinstance(column, Number):
            least, most = column.ends
            wide = held.astype(np.float64)
            held = np.where((wide < least) & (values >= least), np.nextafter(held, precision.type(np.inf)), held)
            held = np.where((wide > most) & (values <= most), np.nextafter(held, precision.type(-np.inf)), held)
    return held.astype(np.float64)


def _is_token(
    tokens: Sequence[Tokens], column: ModelledColumn, precision: np.dtype[np.floating], codes: Floats
) -> Bools:
    """[..] whether codes [..] stand for a missing cell once they are written."""
    if isinstance(column, Number):
        codes = column.as_cells(codes)
        held = in_precision(column, codes, precision)
        read = [codes, held]
        if column.power:  # few digits, which may be those of a token where the value is not
            read.append(np.array([float(text) for text in column.spell(codes.ravel(), None)]).reshape(codes.shape))
        return np.asarray(np.any([some.in_numbers(each) for some in tokens for each in read], 0))
    texts = pa.array(column.spell(codes.ravel(), None), pa.large_string())
    return np.asarray(np.any([some.in_texts(texts).reshape(codes.shape) for some in tokens], 0))


LOOKED_AT = 1_000
"""Cells of a column that are looked at for quotes, and for the blanks and signs of numbers with units."""


@dataclass
class Style:
    """How one column of a table is written, from all of its rows.

    holes   whether it has a hole
    looked  how many of its observed cells were looked at for quotes and blanks: the first LOOKED_AT of them
    needless, bare  how many of these have quotes without need, and how many have none
    written  those of a column whose numbers have more than digits
    first   the first observed cell as it stands in a CSV text; of Parquet that of a number beyond those of float64
    token   the first hole of the file as it stands; None where there is none
    places  how many decimals its numbers are written with, None where none is written
    levels  of each code of a level the texts that stand for it, and how many cells hold each
    around  the blanks before and after every observed cell that was looked at (None: there is none), of texts
    """

    holes: bool = False
    looked: int = 0
    needless: int = 0
    bare: int = 0
    written: list[str] = field(default_factory=list)
    first: bytes | None = None
    token: bytes | None = None
    places: Places | None = None
    levels: dict[int, Counter[str]] = field(default_factory=dict)
    around: tuple[str, str] | None = None

    @property
    def quoted(self) -> bool | None:
        """Whether fills are in quotes that they do not need: as most cells are, of those that need none; where all
        do, they are. None where no cell was looked at."""
        if not self.looked:
            return None
        return self.needless > self.bare or self.needless + self.bare == 0


def find_styles(tables: Iterable[Table], schema: Schema) -> dict[str, Style]:
    """The styles of the modelled and the constant columns, from a table that may come in blocks of rows."""
    columns: list[ModelledColumn | ConstantColumn] = [*schema.encoded, *schema.constants]
    styles = {column.name: Style() for column in columns}
    for table in tables:
        csv = table.csv if isinstance(table, CsvTable) else None
        for column in columns:
            if column.name in table.names:
                style = styles[column.name]
                _look(style, table, csv, column)
                if isinstance(column, Levelled):
                    _look_at_levels(style, table, column)
    return styles


def _look_at_levels(style: Style, table: Table, column: Levelled) -> None:
    texts, places = table.distinct(column.name)
    counts = np.bincount(places[places >= 0], minlength=len(texts)).tolist()
    for text, count in zip(texts, counts, strict=True):
        code = column.place(text)
        if count and not np.isnan(code):
            style.levels.setdefault(int(code), Counter())[text] += count


def _look(style: Style, table: Table, csv: CsvText | None, column: ModelledColumn | ConstantColumn) -> None:
    name = column.name
    missing, place = table.missing(name), table.place(name)
    seen = np.flatnonzero(~missing)[: LOOKED_AT - style.looked]
    style.looked += len(seen)
    if isinstance(column, Number) and column.notation is not None:
        style.written += table.column(name).texts(seen).tolist()
    if len(seen) and (csv is not None or table.textual(name) or table.dictionary(name)):
        found = {_around(text) for text in table.some_text(name, seen)} | ({style.around} - {None})
        style.around = found.pop() if len(found) == 1 else BARE
    if csv is None:
        style.bare += len(seen)
        if isinstance(column, Constant) and abs(column.low) >= EXACT and style.first is None and len(seen):
            style.first = table.some_text(name, seen[:1])[0].encode()
    elif len(seen):
        if style.first is None:
            style.first = _raw(csv, int(seen[0]), place)
        held = _in_quotes(csv, place, seen)
        texts = [unquote(_raw(csv, row, place).decode()) for row in seen[held].tolist()]
        style.needless += sum(quote_if_needed(text, csv.delimiter) == text for text in texts)
        style.bare += int(len(seen) - held.sum())
    style.holes = style.holes or bool(missing.any())
    if csv is not None and style.token is None:
        rows = np.flatnonzero(table.blank(name))[:1]
        style.token = _raw(csv, int(rows[0]), place) if len(rows) else None
    spelled = table.spelling(name)
    if spelled is not None:
        places = spelled.places or Places(spelled.fewest, 0, spelled.most, 0, 0, 0, 0)
        style.places = places if style.places is None else style.places.and_in(places)


def _around(text: str) -> tuple[str, str]:
    """The blanks before and after what a cell holds."""
    start, end = len(text) - len(text.lstrip()), len(text.rstrip())
    return (text[:start], text[end:]) if end else BARE


def find_holes(table: Table, schema: Schema, styles: Mapping[str, Style]) -> list[Holes]:
    """The holes of the modelled and the constant columns of a table; where it is a block of a larger one, `styles`
    are those of the whole, and a column without a hole here has its entry when it has one elsewhere."""
    csv = table.csv if isinstance(table, CsvTable) else None
    order = {name: d for d, name in enumerate(schema.modelled)}
    out = []
    columns: list[ModelledColumn | ConstantColumn] = [*schema.encoded, *schema.constants]
    for column in columns:
        style = styles[column.name]
        if not style.holes:
            continue
        place = table.place(column.name)
        rows = np.flatnonzero(table.missing(column.name))
        blanks, copy = [b"NA"] * len(rows), style.first if isinstance(column, Constant) else None
        if csv is not None:
            blanks = _blanks(csv, place, rows, ~table.blank(column.name)[rows], style.token)
        quoted = np.full(len(rows), bool(style.quoted))
        if style.quoted is None and csv is not None:
            quoted = _in_quotes(csv, place, rows)
        spelled = column.spellings(style.levels) if isinstance(column, Levelled) else {}
        d, decimal = order.get(column.name), table.decimal
        if isinstance(column, Number) and column.notation is not None and style.written:
            column = replace(column, notation=column.notation.styled(style.written))
        fewest = None if style.places is None else style.places.everywhere
        if isinstance(column, Number) and style.places is not None and column.fixed != style.places.fixed:
            column = replace(column, fixed=style.places.fixed)
        around = style.around or BARE
        out.append(Holes(column, place, d, rows, quoted, blanks, copy, fewest, decimal, spelled, around))
    return out


def _in_quotes(csv: CsvText, place: int, rows: Ints) -> Bools:
    """[n] whether the raw cells of some rows (indices [n]) are in quotes."""
    data = np.frombuffer(csv.text, np.uint8)
    begin, end = np.minimum(csv.bounds[rows, place], len(data) - 1), csv.bounds[rows, place + 1] - 1
    return np.asarray((data[begin] == QUOTE) & (end > begin), bool)


def _raw(csv: CsvText, row: int, place: int) -> bytes:
    return csv.text[csv.bounds[row, place] : csv.bounds[row, place + 1] - 1]


def _blanks(csv: CsvText, place: int, rows: Ints, hidden: Bools, token: bytes | None) -> list[bytes]:
    """The raw cells of holes; in place of those that hold something (a mask hides them, or they count as missing) the
    column's first missing token, else `NA`."""
    cells = [_raw(csv, row, place) for row in rows.tolist()]
    if not hidden.any():
        return cells
    stand_in = b"NA" if token is None else token
    return [stand_in if h else cell for cell, h in zip(cells, hidden.tolist(), strict=True)]
