"""Infer what the columns of a table are (check.py checks a new table against a fitted schema)."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, NoReturn, get_args

import numpy as np

from vgi_cli.columns.base import Carried, Column, Empty, Encoding, ModelledColumn, Request, Role, Transform
from vgi_cli.columns.bounds import asked_for
from vgi_cli.columns.categorical import Categorical
from vgi_cli.columns.datetime import Moment, century_note, duration_note, midnight_note, several_note
from vgi_cli.columns.lattice import lying_on
from vgi_cli.columns.lookups import Lookup
from vgi_cli.columns.number import Constant, Number
from vgi_cli.columns.numerals import Bools, plain
from vgi_cli.columns.schema import Schema, infer_column, parse_kind
from vgi_cli.columns.wording import (
    SHOWN,
    Alarm,
    alike,
    are,
    capped,
    columns_said,
    different,
    hole_notes,
    is_limit,
    kind_flag,
    named,
    plain_number,
    shortened,
    token_flags,
    typed,
)
from vgi_cli.encoding.absent import NONE, levels_beside_holes
from vgi_cli.encoding.check import IMPUTED, BareRows, Holes
from vgi_cli.encoding.codes import suspected_codes, without_codes
from vgi_cli.encoding.comparisons import comparisons_among
from vgi_cli.encoding.exceptions import excepted_words, without_excepted
from vgi_cli.encoding.headers import headless, refuse_headers, split_by_blanks
from vgi_cli.encoding.key_exceptions import excepted_key_words
from vgi_cli.encoding.keys import answering_keys, gaps_by_keys, keys_among
from vgi_cli.encoding.local_parts import local_parts
from vgi_cli.encoding.mostly_empty import mostly_empty_among
from vgi_cli.encoding.nearly import Exceptions, counted, exceptions_among, nearly_words
from vgi_cli.encoding.nested import nested_among
from vgi_cli.encoding.orders import orders_among
from vgi_cli.encoding.pairs import pairs_among
from vgi_cli.encoding.proportional import proportional
from vgi_cli.encoding.prorated import prorated_among, prorated_words
from vgi_cli.encoding.quantities import as_quantity, quantities_among, quantity_words
from vgi_cli.encoding.redundant import (
    Redundant,
    candidates,
    coded_candidates,
    codes_of,
    looked_for,
    redundant,
    redundant_notes,
)
from vgi_cli.encoding.relations import relations_among
from vgi_cli.encoding.sharp import sharp_among
from vgi_cli.encoding.silent_keys import silent_key_words
from vgi_cli.encoding.skips import Skipped, skipped, skips_among, thresholds_among, unanswered_among, unasked_among
from vgi_cli.encoding.spreads import spreads_among
from vgi_cli.encoding.straight import torn
from vgi_cli.encoding.structural_zeros import structural_zeros_among
from vgi_cli.encoding.sums import CodedRows
from vgi_cli.encoding.suspects import suspects
from vgi_cli.encoding.texts import looks_written, read_as_numbers
from vgi_cli.encoding.unshown_parts import unshown_lines
from vgi_cli.errors import InputError, RefusedColumns, UsageError, nearest
from vgi_cli.table.base import Table

PLAIN = Encoding()
MOST_PILES = 3
"""Columns of a table in which a pile is a level: how the numbers go with so many levels of two a mixture can learn
within its components (models/gaussian/shifted.py); with more of them room on the line of the numbers says more."""
PILE = 0.2
"""Share of a column's cells from which on a value that is given room is named to the user."""
FEWEST_TIMES, NEARLY = 20, 0.9
"""Fewest datetimes, and the share of them that differ from all others, that may be the times of the records."""


def infer_schema(
    table: Table,
    *,
    ids: Sequence[str] = (),
    exclude: Sequence[str] = (),
    kinds: Mapping[str, str] | None = None,
    unbounded: Sequence[str] = (),
    bounds: Mapping[str, str] | None = None,
    encoding: Encoding = PLAIN,
    rows: Bools | None = None,
) -> tuple[Schema, list[str]]:
    """The schema of a table to fit, and what the user should know about it, one line each.

    ids, exclude  columns to carry (ids also key the randomness)
    kinds         for columns that are not what they look like: one of the `words` of a kind, and its detail (`integer`,
                  `carry`, `ordinal:low,mid,high`)
    bounds        limits of the fills by column (`all`: of every one, unless one is called that): see columns/bounds.py
    unbounded     columns (or `all`) without any limit: the same as `none` there
    encoding      transform `linear` standardises, `normal` also bends each column towards a normal distribution; spikes
                  `split`: a value that piles up at an end of a column is a level of its own (columns/form.py),
                  `room`: it has room on the line of the others; relations `keep`: what fills keep to is looked for
                  (encoding/relations.py)
    rows          [N] which rows the statistics come from (range, scale, knots, spikes, repeats); None: all

    What a column is comes from all rows: its kind, its levels and bounds, and how its numbers are written (whole,
    decimals, the spacing of a rounded column). These are properties of the record, not of the law of the values, and
    every row must fit them: a spacing of 5 found among `rows` would give a 3 elsewhere a probability that belongs to
    other values. A column without a value among `rows` counts as empty, one without two as constant. How a kind reads
    its cells is said in its file of columns/.

    Raises UsageError for names and kinds that cannot be meant, InputError for columns that cannot be used.
    """
    kinds = dict(kinds or {})
    inferred = _inferred(table, Said(ids, exclude, kinds, unbounded, bounds, encoding, rows))
    schema, quantities, found, skips, apart = inferred
    excepted, keys = (exceptions_among(table, schema) if apart is None else apart).left(schema)
    twins = without_excepted(redundant(found, schema), excepted)
    doubts = [*suspects(table, schema, kinds, skips), *redundant_notes(twins, schema)]
    if encoding.relations == "keep" and looked_for(table, schema):
        doubts += capped(local_parts(table, schema))
    doubts += capped(unshown_lines(table, schema))
    exceptions = [*nearly_words(table, schema), *excepted_words(excepted, table, schema)]
    doubts += capped([*exceptions, *excepted_key_words(keys, schema)])
    doubts += capped(silent_key_words(table, schema))
    doubts += prorated_words(table, schema)
    return schema, _notes(table, schema, rows is not None, kinds) + quantities + doubts


class Said(NamedTuple):
    """What is said of the columns of a table: the arguments of `infer_schema`, of the same names."""

    ids: Sequence[str] = ()
    exclude: Sequence[str] = ()
    kinds: Mapping[str, str] = {}
    unbounded: Sequence[str] = ()
    bounds: Mapping[str, str] | None = None
    encoding: Encoding = PLAIN
    rows: Bools | None = None


NOTHING = Said()


def schema_alone(table: Table, said: Said = NOTHING) -> Schema:
    """The schema of `infer_schema`, without what the user should know, which takes a good part of the time; errors are
    as there."""
    return _inferred(table, said).schema


class _Inferred(NamedTuple):
    """What was inferred of a table.

    schema      its columns, with what fills keep to
    quantities  lines on the columns that are numbers, though they look like codes
    found       what may be computed from other columns
    skips       where columns have no cell
    apart       what a few rows contradict; None: that was not looked for
    """

    schema: Schema
    quantities: list[str]
    found: list[Redundant]
    skips: list[Skipped]
    apart: Exceptions | None


def _inferred(table: Table, said: Said) -> _Inferred:
    """What is inferred of a table, but for what the user should know."""
    keep = said.encoding.relations == "keep"
    columns = _columns_of(table, said)
    schema, quantities = columns.schema, list[str]()
    if keep and looked_for(table, schema):
        computed = quantities_among(table, schema, columns.quantities())
        columns.read_as_numbers(computed)
        schema = columns.schema
        quantities = capped(quantity_words(computed, schema))
    found = candidates(table, schema) if looked_for(table, schema) else []
    skips = skipped(table, schema)
    apart: Exceptions | None = None
    if keep:
        alone, schema = schema, _keeping(table, schema, found, skips)
        if looked_for(table, alone):
            apart = exceptions_among(table, schema, lambda part: _between(part, alone))
            if apart.clean is not table:
                found, skips = candidates(apart.clean, alone), skipped(apart.clean, alone)
                schema = counted(table, _keeping(apart.clean, alone, found, skips))
    schema = replace(schema, mostly_empty=mostly_empty_among(table, schema, skips))
    return _Inferred(schema, quantities, found, skips, apart)


def infer_columns(table: Table, said: Said, numbers: Collection[str] = ()) -> Schema:
    """The columns of a table to fit, without what holds between them, which takes most of the time of `infer_schema`;
    errors are as there. `numbers`: the columns that are quantities, though they look like codes (`quantities.py`)."""
    columns = _columns_of(table, said)
    columns.read_as_numbers(numbers)
    return columns.schema


def _columns_of(table: Table, said: Said) -> _Columns:
    """The columns of a table by themselves, as of `infer_columns`."""
    transform, rows, kinds = said.encoding.transform, said.rows, said.kinds
    if transform not in get_args(Transform):
        raise UsageError(f"unknown transform '{transform}'", nearest(transform, get_args(Transform)))
    asked = asked_for(table.names, said.bounds or {}, said.unbounded)
    flags = {name: "--unbounded" if name in said.unbounded else "--bounds" for name, one in asked.items() if one.named}
    _check_flags(table, said.ids, said.exclude, kinds, flags)
    columns = _Columns(table, transform)
    for name in table.names:
        kind, detail = parse_kind(name, kinds[name]) if name in kinds else (None, None)
        columns.add(
            name,
            _role(table, name, said.ids, said.exclude, kinds),
            Request(kind, asked.get(name), said.encoding, rows, detail),
        )
    columns.refuse()
    columns.keep_levels()
    columns.encode_otherwise(transform, rows)
    _check_modelled(table, columns.schema, flags, rows is not None)
    return columns


def _role(table: Table, name: str, ids: Sequence[str], exclude: Sequence[str], kinds: Collection[str]) -> Role:
    """The role of a column of a table; `kinds`: the columns whose kind is named."""
    if name in ids:
        return "id"
    if name in exclude:
        return "exclude"
    return "index" if name in table.index and name not in kinds else "data"


@dataclass
class _Columns:
    """The columns of a table that were inferred so far, which are modelled by a transform.

    found     what they are, in the order of the table
    requests  by name their roles, and what they were inferred by
    refused   by name why others cannot be used
    """

    table: Table
    transform: Transform
    found: list[Column] = field(default_factory=list)
    requests: dict[str, tuple[Role, Request]] = field(default_factory=dict)
    refused: dict[str, InputError] = field(default_factory=dict)

    def add(self, name: str, role: Role, request: Request) -> None:
        """Infer the next column. InputError where the table's names are none; a column that cannot be used is kept for
        `refuse`."""
        refuse_headers(self.table, name)
        self.requests[name] = role, request
        try:
            self.found.append(self._inferred(name))
        except InputError as error:
            self.refused[name] = error

    def refuse(self) -> None:
        """InputError where some columns cannot be used."""
        if self.refused:
            _refuse(self.table, self.refused)

    def keep_levels(self) -> None:
        """Infer those columns again in which a word that usually means missing is a level; the table keeps it as one
        from then on."""
        names = levels_beside_holes(self.table, self.found)
        for i, column in enumerate(self.found):
            if column.name in names:
                self.table.keep_levels(column.name, [NONE])
                self.found[i] = self._inferred(column.name)

    def encode_otherwise(self, transform: Transform, rows: Bools | None) -> None:
        """Infer those columns again whose encoding by themselves does not suit the table: with piles as levels in too
        many of them, those that straight lines go through only as they are, and those that go together by their ratio;
        `rows` [N]: those that statistics come from."""
        for i in _too_many_piles(self.table, self.found):
            self._anew(i, spikes="room")
        if transform != "none":
            for i, width in sharp_among(self.table, self.found, rows):
                self._anew(i, sharp=width)
            for i, logs in torn(self.table, self.found, rows, logs=transform != "normal"):
                self._anew(i, transform="linear", logs=logs)
            for i in proportional(self.table, self.found, rows):
                self._anew(i, transform="linear", logs=True)

    def quantities(self) -> dict[str, Number]:
        """By name what those columns that were taken for categories would be as numbers, where they hold such."""
        tried = {one.name: as_quantity(self.table, one, *self.requests[one.name]) for one in self.found}
        return {name: number for name, number in tried.items() if number is not None}

    def read_as_numbers(self, names: Collection[str]) -> None:
        """Take some of those columns for numbers."""
        for i, column in enumerate(self.found):
            if column.name in names:
                number = as_quantity(self.table, column, *self.requests[column.name])
                self.found[i] = column if number is None else replace(number, stored=column.stored)

    @property
    def schema(self) -> Schema:
        """The columns, without what holds between them."""
        return Schema(tuple(self.found), self.transform)

    def _anew(self, i: int, **changes: Any) -> None:
        """Infer a column again, to be encoded otherwise."""
        name = self.found[i].name
        role, request = self.requests[name]
        self.requests[name] = role, request._replace(encoding=request.encoding._replace(**changes))
        self.found[i] = self._inferred(name)

    def _inferred(self, name: str) -> Column:
        column = infer_column(self.table.column(name), *self.requests[name])
        return replace(column, stored=self.table.stored(name))


def _keeping(table: Table, schema: Schema, found: Sequence[Redundant], skips: Sequence[Skipped]) -> Schema:
    """The schema with what fills keep to, looked for in tables that are small enough, and there beside cells that may
    stand for missing ones; `found`: what may be computed from other columns, `skips`: where columns have no cell."""
    looked = looked_for(table, schema)
    relations = relations_among(table, schema, found)
    bare = without_codes(table, replace(schema, relations=relations)) if looked else table
    orders = orders_among(table, schema, relations, bare) if looked else ()
    lookups: tuple[Lookup, ...] = ()
    if looked:
        relations = nested_among(table, schema, relations)
        by_keys, lookups = keys_among(table, schema, relations)
        relations = (*relations, *by_keys)
        relations = (*relations, *pairs_among(table, schema, relations, lookups))
    kept = skips_among(table, schema, skips) if looked else ()
    schema = replace(schema, relations=relations, orders=orders, skips=kept, lookups=lookups)
    schema = replace(schema, thresholds=thresholds_among(table, schema, kept, bare) if looked else ())
    zeros = structural_zeros_among(table, schema, bare) if looked else ()
    compared = comparisons_among(table, schema, bare) if looked else ()
    spreads = spreads_among(table, schema)
    schema = replace(schema, unasked=unasked_among(table, schema), structural_zeros=zeros, spreads=spreads)
    prorated = prorated_among(CodedRows.of(table, schema), relations) if looked else ()
    schema = replace(schema, comparisons=compared, prorated=prorated)
    return gaps_by_keys(table, replace(schema, unanswered=unanswered_among(table, schema, skips, kept)))


def _between(part: Table, schema: Schema) -> Schema:
    """What holds between columns of a schema in some rows of its table, without codes for missing cells; but for what
    follows from keys, and which cells go with no others: a part says little of rare ones."""

    def constant(column: Column) -> bool:
        codes = codes_of(part, column) if isinstance(column, ModelledColumn) else None
        return codes is not None and not np.nanmin(codes, initial=np.inf) < np.nanmax(codes, initial=-np.inf)

    schema = replace(schema, columns=tuple(column for column in schema.columns if not constant(column)))
    relations = relations_among(part, schema, coded_candidates(part, schema), computed=False)
    orders = orders_among(part, schema, relations, part)
    relations = nested_among(part, schema, relations)
    schema = replace(schema, relations=(*relations, *pairs_among(part, schema, relations, ())), orders=orders)
    return replace(schema, comparisons=comparisons_among(part, schema, part))


def _check_modelled(table: Table, schema: Schema, flags: Mapping[str, str], some: bool) -> None:
    """UsageError where limits (column -> flag) are those of a column that is not modelled, but for one that does not
    vary in the rows that are fitted (`some`: not all); InputError where nothing can be modelled."""
    for name, flag in flags.items():
        varies = not some or not isinstance(schema.columns[table.place(name)], Constant | Empty)
        if name not in schema.modelled and varies:
            message = f"{flag} {name}: the column is not modelled"
            raise UsageError(message, nearest(name, schema.modelled) if schema.modelled else None)
    if not schema.modelled and not schema.constants:
        _refuse_no_numbers(table, schema)


def _check_flags(
    table: Table, ids: Sequence[str], exclude: Sequence[str], kinds: Mapping[str, str], bounds: Mapping[str, str]
) -> None:
    """UsageError for names that the table does not have, and for what disagrees. `bounds`: column -> flag."""
    named = [("--id", name) for name in ids] + [("--exclude", name) for name in exclude]
    for flag, name in [
        *named,
        *(("--column", name) for name in kinds),
        *((flag, name) for name, flag in bounds.items()),
    ]:
        if name not in table.names:
            raise UsageError(f"{flag} {name}: {table.label} has no such column", nearest(name, table.names))
    for name, kind in kinds.items():
        parse_kind(name, kind)
        if kind != "carry" and (name in ids or name in exclude):
            flag = "--id" if name in ids else "--exclude"
            raise UsageError(f"--column {name}={kind} disagrees with {flag} {name}", "drop one of them")
    for name in ids:
        if name in exclude:
            raise UsageError(f"--id {name} disagrees with --exclude {name}", "an id is carried already: drop --exclude")


def _refuse(table: Table, refused: Mapping[str, InputError]) -> NoReturn:
    """The first of several columns that cannot be used, and the names of the others."""
    first, *others = refused
    error = refused[first]
    if not others:
        raise RefusedColumns(error.message, error.hint, refused) from None
    hints = alike([(name, one.hint) for name, one in refused.items() if one.hint])
    shown = [f"{_first_names(group)}: {_for_all(table, group)}" for group in hints[:SHOWN]]
    left = sum(map(len, hints[SHOWN:]))
    more = [f"and {left} more column{'s' if left > 1 else ''} in other ways"] * (left > 0)
    more += _other_limits(table, refused)
    message = f"{error.message}; {_with_cells(table, others)} cannot be used either"
    raise RefusedColumns(message, "; ".join([*shown, *more]), refused) from None


def _for_all(table: Table, group: Sequence[tuple[str, str]]) -> str:
    """The hint of the first column of a group of which each has the same one, with flags that make what means missing
    so in all of them; a text that no other column holds, in the whole table."""
    names, hint = [name for name, _ in group], group[0][1]
    said = columns_said(names, table.names)
    for flag in re.findall(r"`(--na-values .*?)`", hint) if len(names) > 1 else ():
        tokens = [word.removeprefix(f"{names[0]}=") for word in shlex.split(flag)[1::2]]
        if said is not None:
            hint = hint.replace(flag, token_flags(said, tokens))
        elif not _held_by_others(table, names, tokens):
            hint = hint.replace(flag, " ".join(typed("--na-values", token) for token in tokens))
    return hint


def _held_by_others(table: Table, names: Collection[str], tokens: Collection[str]) -> bool:
    """Whether a column of texts without a number, none of those with these names, holds one of some tokens."""
    others = (table.column(name) for name in table.names if name not in names and table.textual(name))
    texts = (different(cells, ~cells.missing) for cells in others if not cells.numbers.number.any())
    return any(not set(tokens).isdisjoint(held) for held in texts)


def _other_limits(table: Table, refused: Mapping[str, InputError]) -> list[str]:
    """Beside columns that cannot be used for their detection limits, how many others hold some, which are texts."""

    def limits(name: str) -> list[str]:
        cells = table.column(name)
        wrong = ~cells.missing & ~cells.numbers.number if cells.textual else np.zeros(table.N, bool)
        own = different(cells, wrong) if wrong.any() and cells.numbers.number.any() else []
        return own if all(map(is_limit, own)) else []

    first = next((found[0] for name in refused if (found := limits(name))), None)
    count = 0 if first is None else sum(bool(limits(name)) for name in table.names if name not in refused)
    if not count:
        return []
    words = "columns hold" if count > 1 else "column holds"
    return [
        f"{count} more {words} limits like '{shortened(str(first))}' among numbers, and would not be modelled as such"
    ]


def _first_names(group: Sequence[tuple[str, str]]) -> str:
    """`'a', 'b' and 3 more`: the columns of which a line says the same."""
    more = f" and {len(group) - SHOWN} more" if len(group) > SHOWN else ""
    return ", ".join(f"'{name}'" for name, _ in group[:SHOWN]) + more


def _with_cells(table: Table, names: Sequence[str]) -> str:
    """`columns 'a' ('<0.5'), 'b'`: columns that cannot be used, with the first cell that is no number, where that is
    why."""
    shown = []
    for name in names[:SHOWN]:
        cells = table.column(name)
        wrong = ~cells.missing & ~cells.numbers.number if cells.textual else np.zeros(table.N, bool)
        cell = shortened(str(cells.texts(np.flatnonzero(wrong)[:1])[0]).strip()) if wrong.any() else None
        shown.append(f"'{name}'" if cell is None else f"'{name}' ('{cell}')")
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"column{'s' if len(names) > 1 else ''} {', '.join(shown)}{more}"


def _too_many_piles(table: Table, columns: Sequence[Column]) -> list[int]:
    """The columns whose pile is a level though MOST_PILES others have more cells on theirs."""
    cells = {
        i: int((column.on_pile(column.codes(table.column(column.name))) & ~table.missing(column.name)).sum())
        for i, column in enumerate(columns)
        if isinstance(column, Number) and column.pile is not None
    }
    return sorted(cells, key=lambda i: (-cells[i], i))[MOST_PILES:]


def _piles(table: Table, column: Number) -> list[tuple[float, float]]:
    """The spikes of a column that are worth a word, and the share of the observed cells that each holds."""
    values = column.codes(table.column(column.name))[~table.missing(column.name)] if column.piles else np.empty(0)
    shares = [(value, float(lying_on(values, value, column.resolution or 0.0).mean())) for value in column.piles]
    return [(value, share) for value, share in shares if share >= PILE]


def _level_note(column: Number) -> str:
    """What becomes of a column of which few values with gaps between them occur."""
    what = f"column '{column.name}' holds only {', '.join(map(plain, column.levels))}"
    return f"{what}: filled with these values; `{kind_flag(column.name, 'integer')}` to allow those between"


def _refuse_no_numbers(table: Table, schema: Schema) -> NoReturn:
    """InputError: what the columns are, and what would make numbers of them."""

    def words(column: Column) -> str:
        if column.role != "data":
            return column.role
        return "empty" if isinstance(column, Empty) else "text" if table.textual(column.name) else "carried"

    found = [f"'{c.name}' ({words(c)})" for c in schema.columns[:5]]
    more = len(schema.columns) - 5
    hint = "found " + ", ".join(found) + (f" and {more} more" if more > 0 else "")
    for column in schema.columns:
        carried = isinstance(column, Carried) and column.role == "data"
        if carried and looks_written(table.column(column.name), units=True):
            hint = f"column '{column.name}' has no plain numbers: {plain_number(table.decimal)}"
    if split_by_blanks(table):
        hint += "; are its columns set apart by blanks? `--delimiter ' '`"
    raise InputError(f"{table.label}: no column that can be modelled", hint)


def _notes(table: Table, schema: Schema, some: bool, said: Collection[str]) -> list[str]:
    """`some`: whether statistics come from some of the rows only; `said`: columns whose kind the user named."""
    notes = []
    fitted = " in the rows that are fitted" if some else ""
    D = len(schema.modelled)
    constants = schema.constants
    empty = [c.name for c in schema.columns if isinstance(c, Empty)]
    numbers = [c for c in schema.encoded if isinstance(c, Number)]
    notes += headless(table, schema)
    for line in table.unmet_tokens():
        told = f"{line} (--na-values)"
        notes.append(Alarm(told) if isinstance(line, Alarm) else told)
    if table.N == 1:
        notes.append(f"{table.label} has one row")
    if D == 1:
        notes.append(f"one column to model: '{schema.modelled[0]}'")
    if D + len(constants) > table.N > 1:
        notes.append(f"more columns to model ({D + len(constants)}) than rows ({table.N})")
    if constants:
        names = named("column", [c.name for c in constants])
        notes.append(f"{names} {are(constants)} constant{fitted}: holes get the constant")
    few = [column for column in numbers if column.levels or column.piles]
    coded = suspected_codes(table, replace(schema, columns=tuple(few)))
    shares = [(c, value, share) for c in few for value, share in _piles(table, c) if value not in coded[c.name]]
    piles = [f"{value:g} of '{c.name}' ({share:.0%})" for c, value, share in shares]
    if piles:
        more = f" and {len(piles) - SHOWN} more" if len(piles) > SHOWN else ""
        notes.append(f"values that pile up, drawn as often as they occur: {', '.join(piles[:SHOWN])}{more}")
    notes += capped([_level_note(c) for c in few if c.levels and coded[c.name].isdisjoint(c.levels)])
    notes += read_as_numbers(table, numbers)
    moments = [c for c in schema.encoded if isinstance(c, Moment)]
    notes += capped([note for column in moments if (note := several_note(column)) is not None])
    notes += capped([note for column in moments if (note := century_note(column)) is not None])
    notes += capped([note for column in moments if (note := midnight_note(column)) is not None])
    clocks = [duration_note(c, table.column(c.name)) for c in moments if c.name not in said]
    notes += capped([note for note in clocks if note is not None])
    pooled = [c for c in schema.encoded if isinstance(c, Categorical) and c.pooled]
    notes += capped([_pooled_note(column) for column in pooled])
    notes += _times_of_records(table, schema, said)
    if empty:
        notes.append(f"{named('column', empty)} {are(empty)} empty{fitted}: carried, nothing to learn from")
    notes += Holes(schema).add(table).notes()
    holes = table.absent(schema.modelled)
    rows = np.asarray(holes.all(1))
    bare = (
        BareRows().add(rows, answering_keys(table, schema, rows)).notes(f"not used by the fit, {IMPUTED}") if D else []
    )
    return notes + hole_notes(table.label, D > 0, int(holes.any(1).sum()), bare)


def _times_of_records(table: Table, schema: Schema, said: Collection[str]) -> list[str]:
    """Datetimes of which nearly none occurs twice: in later tables they lie where the fit has seen nothing."""
    lines = []
    for column in schema.encoded:
        if isinstance(column, Moment) and column.clock.what == "datetime" and column.name not in said:
            values = column.codes(table.column(column.name))
            observed = values[np.isfinite(values)]
            if len(observed) >= FEWEST_TIMES and len(np.unique(observed)) >= NEARLY * len(observed):
                lines.append(
                    f"column '{column.name}' differs in nearly every row, like the time of a record: in later tables "
                    f"it lies outside the range of the fit; `{typed('--exclude', column.name)}` if fills should not "
                    "depend on it"
                )
    return capped(lines)


def _pooled_note(column: Categorical) -> str:
    """A line on a column whose rare levels are modelled as one, and on what that costs."""
    return (
        f"column '{column.name}': {len(column.rare):,} rare levels of {len(column.texts):,} are pooled, so fills need "
        f"not keep to what its levels say of other columns, nor are these said to follow from it (where it is carried, "
        f"`{kind_flag(column.name, 'carry')}`, they are)"
    )
