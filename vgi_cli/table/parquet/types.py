"""The Arrow types of filled columns: those of the input; wider ones, with a line that says so, where a fill does not
fit in."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from decimal import Context, Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vgi_cli.columns.base import ConstantColumn, ModelledColumn
from vgi_cli.columns.boolean import Boolean
from vgi_cli.columns.datetime import ConstantMoment, Moment
from vgi_cli.columns.levelled import Levelled, key_of, number_of
from vgi_cli.columns.number import Constant, Number
from vgi_cli.columns.numerals import EXACT, Floats, plain
from vgi_cli.errors import InputError
from vgi_cli.table.fills import Holes, in_precision
from vgi_cli.table.pandas_notes import told_to_pandas
from vgi_cli.table.parquet.table import is_number, is_text, tick_of, type_called, what_of

FLOATING = (pa.float16(), pa.float32(), pa.float64())
FRACTION = 17
"""Digits after the point of a decimal that stands in for whole numbers beyond those of float64."""
_WHOLE = re.compile(r"0|-?[1-9][0-9]*")
_SMALL = 127
"""Texts that a dictionary with places of one byte has room for."""
_CONTEXT = Context(prec=400)


def fitted_type(column: ModelledColumn | ConstantColumn) -> pa.DataType:
    """The type that the cells of a column had in the fit; of a fit of texts (CSV) that of what the texts say: texts, or
    truth values where they are `true` and `false`, whole numbers, or numbers."""
    kind = None if column.stored is None else type_called(column.stored)
    if kind is not None:
        if pa.types.is_dictionary(kind) and isinstance(column, Levelled) and len(column.texts) > _SMALL:
            return pa.dictionary(pa.int32(), kind.value_type, kind.ordered)
        return kind
    if isinstance(column, Number):
        return pa.int64() if column.whole else pa.float64()
    if isinstance(column, Boolean) and {key_of(level).casefold() for level in column.levels} == {"false", "true"}:
        return pa.bool_()
    if isinstance(column, Levelled):
        values = [number_of(key_of(level)) for level in column.texts]
        known = [value for value in values if value is not None]
        if len(known) == len(values):
            return pa.int64() if all(value == round(value) for value in known) else pa.float64()
    if isinstance(column, Constant):
        return pa.int64() if column.low == round(column.low) and abs(column.low) < EXACT else pa.float64()
    return pa.string()


class Extent:
    """What the type of one column must hold.

    fitted     the type that its cells had in the fit
    empty      whether no cell was observed
    low, high  the least and the greatest fill
    broken     a fill that is not whole, None where all are
    largest    the largest size of an observed number, of a column of 64 bits
    texts      the distinct texts of a dictionary with few places for them
    text       a fill that is not known as a number, None where all are
    whole      whether all such fills are written as integers are: levels of more digits than a float64 has
    few        whether it is a dictionary with few places for texts

    It is shown all cells that are observed (`see`), then the fills (`add`).
    """

    def __init__(self, column: ModelledColumn | ConstantColumn) -> None:
        self.fitted, self.empty = fitted_type(column), True
        self.low, self.high = np.inf, -np.inf
        self.broken: float | None = None
        self.largest = 0
        self.few = False
        self.texts: set[str] = set()
        self.text: str | None = None
        self.whole = True

    def see(self, hole: Holes, observed: pa.ChunkedArray) -> None:
        """Look at some rows of the column, as they are; to be told of all of them before their fills."""
        self.empty &= len(hole.rows) == len(observed)
        if observed.type in (pa.int64(), pa.uint64()):
            ends = pc.min_max(observed).as_py()
            self.largest = max(self.largest, -(ends["min"] or 0), ends["max"] or 0)
        if pa.types.is_dictionary(observed.type) and observed.type.index_type.bit_width < 32:
            self.few = True
            self.texts.update(map(str, observed.cast(observed.type.value_type).unique().drop_null().to_pylist()))

    def add(self, hole: Holes, draw: Floats) -> None:
        """Look at the fills of some rows [n] from one draw [n, D]."""
        hole = hole.filled(draw)
        codes = hole.values(draw)
        values = hole.column.numbers(codes)
        if values is None:
            texts = hole.spell(np.unique(codes))
            self.whole = self.whole and all(map(_WHOLE.fullmatch, texts))
            if len(codes) and self.text is None:
                self.text = hole.spell(codes[:1])[0]
            values = np.array(texts if self.whole else [], np.float64)
        self.low = min(self.low, float(values.min(initial=np.inf)))
        self.high = max(self.high, float(values.max(initial=-np.inf)))
        broken = np.flatnonzero(values != np.rint(values))
        if len(broken) and self.broken is None:
            self.broken = float(values[broken[0]])
        if self.few:
            self.texts.update(hole.spell(np.unique(codes)))

    @property
    def farthest(self) -> float:
        """The fill of the largest size."""
        return self.low if -self.low > self.high else self.high


def filled_types(schema: pa.Schema, extents: Mapping[str, Extent], say: Callable[[str], None]) -> pa.Schema:
    """The types of a table whose holes are filled; columns without a hole keep theirs. `say` is told, one line each,
    which change and why. InputError where no type holds the fills.

    extents  what each column with holes must hold, by its name
    """
    changed: dict[str, tuple[pa.DataType, str]] = {}
    for name, extent in extents.items():
        given = schema.field(name).type
        kind, why = wide_enough(given, extent)
        if kind is None:
            message = f"column '{name}': no type holds its numbers and the fill {plain(extent.farthest)}"
            raise InputError(message, "cast the column to double in the file")
        if kind != given:
            changed[name] = kind, why
    filled = schema
    for name, (kind, why) in changed.items():
        field = schema.field(name)
        filled = filled.set(schema.get_field_index(name), field.with_type(kind))
        say(f"column '{name}' is written as {kind}, not {field.type}: {why}")
    return told_to_pandas(filled, {name: kind for name, (kind, _) in changed.items()})


def replaceable(kind: pa.DataType) -> pa.DataType:
    """The type in which Arrow can replace cells of a column."""
    if pa.types.is_dictionary(kind):
        return replaceable(kind.value_type)
    if pa.types.is_string_view(kind):
        return pa.large_string()
    if pa.types.is_duration(kind):
        return pa.int64()
    if pa.types.is_decimal(kind) and kind.bit_width < 128:
        return pa.decimal128(kind.precision, kind.scale)
    return kind


def cells(hole: Holes, values: Floats, kind: pa.DataType) -> pa.Array:
    """The fills [n] of a column in a type that is wide enough."""
    if isinstance(hole.column, Moment | ConstantMoment) and what_of(kind) is not None:
        ticks = pa.array(hole.column.clock.ticks_in(values, tick_of(kind)), pa.int64())
        return (ticks.cast(pa.int32()) if kind.bit_width == 32 else ticks).cast(kind)
    numbers = hole.column.numbers(values)
    if pa.types.is_boolean(kind) and numbers is not None:
        return pa.array(numbers != 0, kind)
    if numbers is None:
        return pa.array(hole.spell(values), pa.large_string()).cast(kind)
    if pa.types.is_decimal(kind):
        most, column = _most(kind), hole.column
        plainly = isinstance(column, Number | Constant) and column.notation is None
        texts = column.spell(values, 0) if plainly else map(plain, numbers.tolist())
        return pa.array([_decimal(text, kind, most) for text in texts], kind)
    if pa.types.is_floating(kind):
        held = in_precision(hole.column, numbers, np.dtype(kind.to_pandas_dtype()))
        return pa.array(held, pa.float64()).cast(kind, safe=False)
    if pa.types.is_integer(kind):
        if isinstance(hole.column, Constant) and abs(hole.column.low) >= EXACT and hole.copy is not None:
            return pa.array([int(hole.copy)] * len(numbers), kind)
        limits = np.iinfo(kind.to_pandas_dtype())
        return pa.array([min(int(v), limits.max) for v in numbers.tolist()], kind)
    return pa.array(hole.among_texts(values), kind)


def wide_enough(given: pa.DataType, fills: Extent) -> tuple[pa.DataType | None, str]:
    """The type, or the next one that holds the fills (None: there is none), and why it has to change."""
    if (
        fills.empty
        and given != fills.fitted
        and not (is_number(given) and is_number(fills.fitted))
        and not is_text(given)
    ):
        return wide_enough(fills.fitted, fills)[0] or pa.float64(), "it was empty"
    if fills.text is not None and not (fills.whole and pa.types.is_integer(given)):
        return _with_text(given, fills)
    if math.isinf(fills.low):  # no hole
        return given, ""
    why = f"the fill {plain(fills.farthest)} does not fit in"
    if pa.types.is_integer(given):
        if fills.broken is not None:
            return _fractional(fills), f"the fill {plain(fills.broken)} is not whole"
        return _integer(given, fills), why
    if pa.types.is_floating(given):
        wide = FLOATING[FLOATING.index(given) :]
        return next(kind for kind in wide if _finite(fills.farthest, kind)), why
    if pa.types.is_decimal(given):
        return _decimal_type(given, given.scale, fills.farthest), why
    return _dictionary(given, fills)


def _dictionary(given: pa.DataType, fills: Extent) -> tuple[pa.DataType, str]:
    """A dictionary with places for all texts; another type as it is."""
    if pa.types.is_dictionary(given) and len(fills.texts) > np.iinfo(given.index_type.to_pandas_dtype()).max:
        wide = pa.dictionary(pa.int32(), given.value_type, given.ordered)
        return wide, f"the fills make {len(fills.texts)} different texts of it"
    return given, ""


def _with_text(given: pa.DataType, fills: Extent) -> tuple[pa.DataType, str]:
    """The type of a column some of whose fills are texts."""
    number = pa.types.is_integer(given) or pa.types.is_floating(given) or pa.types.is_decimal(given)
    if number:
        return pa.string(), f"the fill '{fills.text}' is no number"
    return _dictionary(given, fills)


def _integer(given: pa.DataType, fills: Extent) -> pa.DataType | None:
    """The type, else int64, else a decimal."""
    for kind in (given,) if given == pa.uint64() else (given, pa.int64()):
        limits = np.iinfo(kind.to_pandas_dtype())
        # From 2^53 on the float64 next to the greatest number may lie above it: it stands for that number.
        if limits.min <= fills.low and (fills.high <= limits.max or fills.high == float(limits.max)):
            return kind
    return _decimal_type(pa.decimal128(20, 0), 0, fills.farthest)


def _fractional(fills: Extent) -> pa.DataType | None:
    """double, unless it would change observed numbers."""
    if fills.largest <= EXACT:
        return pa.float64()
    return _decimal_type(pa.decimal128(20 + FRACTION, FRACTION), FRACTION, fills.farthest)


def _finite(value: float, kind: pa.DataType) -> bool:
    with np.errstate(over="ignore"):
        return bool(np.isfinite(np.asarray(value).astype(kind.to_pandas_dtype())))


def _decimal_type(given: pa.DataType, scale: int, value: float) -> pa.DataType | None:
    """The given decimal type, or a wider one of that scale that holds a number."""
    if abs(value) <= float(_most(given)):
        return given
    digits = _rounded(plain(value), scale).adjusted() + 1 + scale
    if digits <= 38:
        return pa.decimal128(digits, scale)
    return pa.decimal256(digits, scale) if digits <= 76 else None


def _most(kind: pa.DataType) -> Decimal:
    """The greatest number of a decimal type."""
    return Decimal(10**kind.precision - 1).scaleb(-kind.scale, _CONTEXT)


def _decimal(text: str, kind: pa.DataType, most: Decimal) -> Decimal:
    """A number at the scale of a decimal type; the float64 next to the greatest number may lie above it."""
    value = _rounded(text, kind.scale)
    return max(min(value, most), most.copy_negate())  # the minus sign would round


def _rounded(text: str, scale: int) -> Decimal:
    return Decimal(text).quantize(Decimal(1).scaleb(-scale), context=_CONTEXT)
