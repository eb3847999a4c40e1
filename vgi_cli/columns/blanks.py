"""Questions that a row is not asked: which holes of a column stay, by what the completed row says in another one.

A hole of a skip pattern (cigarettes a day, of who does not smoke) stands for no value that was lost. A fitted table may
suggest such patterns (`encoding/skips.py`); the user says which of them hold.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np

from vgi_cli.columns.base import ModelledColumn
from vgi_cli.columns.datetime import Moment, instant
from vgi_cli.columns.levelled import Levelled, number_of
from vgi_cli.columns.naming import level_of, names_in, place_of
from vgi_cli.columns.number import Number
from vgi_cli.columns.numerals import Bools, Floats, Ints, plain
from vgi_cli.columns.relations import Relation
from vgi_cli.columns.schema import Schema
from vgi_cli.columns.skips import Threshold, Unanswered, Undefined, alike_skips
from vgi_cli.columns.wording import comma_names, typed
from vgi_cli.errors import UsageError

FLAG = "--leave-blank"
FORMS = "for example cigarettes:smoker=no or 'income:age<18'"
_RELATIONS: Mapping[str, Callable[[Any, Any], Any]] = MappingProxyType(
    {"<=": operator.le, ">=": operator.ge, "!=": operator.ne, "<": operator.lt, ">": operator.gt, "=": operator.eq}
)
"""By how they are written, those of two characters first."""


_Gate = tuple[Sequence[int], int]
Rule: TypeAlias = Unanswered | Threshold | Undefined
"""What says of cells of some columns, by a cell of another one, that nothing belongs there."""


class Blank(NamedTuple):
    """Holes that stay.

    said      the words, as `cigarettes:smoker=no`
    columns   places of the columns with these holes, among the modelled ones
    other     the place of the column that decides
    relation  of `<= >= != < > =`
    code      what the code of a row's cell in that column is compared with
    """

    said: str
    columns: tuple[int, ...]
    other: int
    relation: str
    code: float

    def holds(self, codes: Floats) -> Bools:
        """[..] of completed rows, by their codes [..] in the other column."""
        return _RELATIONS[self.relation](codes, self.code)  # type: ignore[no-any-return]


def read_blanks(texts: Sequence[str], schema: Schema, decimal: str | None = None) -> list[Blank]:
    """What `--leave-blank` says of a fitted table, `COL:OTHER=LEVEL`, `COL:OTHER<NUMBER` and the like each; several
    columns have commas between them, as in CSV. `decimal`: the mark before the decimals of the table (None: a point).
    UsageError for what has no meaning there."""
    return [_read(text, schema, decimal) for text in texts]


def blank_flags(others: Sequence[str], conditions: Sequence[str]) -> str:
    """`--leave-blank 'cigarettes,brand:smoker=no'`, as a shell takes it, for each condition: the flags by which the
    holes of some columns stay."""
    return " ".join(typed(FLAG, f"{comma_names(others)}:{condition}") for condition in conditions)


def level_conditions(column: Levelled, places: Sequence[int]) -> list[str]:
    """What says of a row that its level is one of those at some places: `smoker=no` for each, or `work!=employed` where
    that is the only other one."""
    levels = column.spell(np.array(places, np.float64), None)
    asked = [float(place) for place in range(column.level_counts[0]) if place not in places]
    if len(levels) > 1 and len(asked) == 1:
        return [f"{column.name}!={column.spell(np.array(asked), None)[0]}"]
    return [f"{column.name}={level}" for level in levels]


def limit_condition(column: ModelledColumn, rule: Threshold) -> str:
    """What says of a row that its number is beyond the limit of a column: `age<18`."""
    return f"{rule.name}{'<' if rule.side == 'below' else '>'}{column.spell(np.array([rule.limit]), None)[0]}"


def unanswered_in(schema: Schema) -> list[Unanswered | Threshold]:
    """What a fit found of questions that were not asked: levels and numbers beside which there is no answer."""
    known = schema.unanswered or [  # of runs of earlier versions
        Unanswered(same[0].name, tuple(one.level for one in same), same[0].others) for same in alike_skips(schema.skips)
    ]
    return [*known, *schema.thresholds]


def undefined_in(relations: Iterable[Relation]) -> list[Undefined]:
    """What some relations say of cells that have no value, but where a number is written in their place."""
    return [
        Undefined(one.names[place], one.names[:1], value, one.how == "log")
        for one in relations
        for place, value in (one.without_value.items() if one.otherwise is None else ())
    ]


def undefined_at(schema: Schema) -> list[Undefined]:
    """Those of a fitted table at whose numbers a fill may lie."""
    every = {column.name: cast(Number, column) for column in schema.encoded}
    rules = undefined_in(schema.relations)
    return [
        one for one in rules if every[one.name].low <= one.value and (one.below or one.value <= every[one.name].high)
    ]


def without_value_in(schema: Schema) -> list[Rule]:
    """What says of cells that nothing belongs there: a fit's questions that were not asked, and arithmetic."""
    return [*unanswered_in(schema), *undefined_in(schema.relations)]


def undefined_where(rule: Undefined, schema: Schema) -> tuple[str, str]:
    """`sales=0`, as a flag takes it, and the same in words, `'sales' is 0`: where a column has no value."""
    column = schema.encoded[schema.modelled.index(rule.name)]
    value, below = plain(rule.value), rule.below and cast(Number, column).low < rule.value
    return f"{rule.name}{'<=' if below else '='}{value}", f"'{rule.name}' is {value}{' or less' if below else ''}"


def flags_of(rule: Rule, schema: Schema) -> str:
    """The flags by which the holes stay that hold nothing, by the levels of a column, a threshold or arithmetic."""
    if isinstance(rule, Undefined):
        return blank_flags(rule.others, [undefined_where(rule, schema)[0]])
    column = schema.encoded[schema.modelled.index(rule.name)]
    if isinstance(rule, Threshold):
        return blank_flags(rule.others, [limit_condition(column, rule)])
    return blank_flags(rule.others, level_conditions(cast(Levelled, column), rule.levels))


def take_back(rules: Sequence[Blank], draws: Floats, observed: Floats, missing: Bools, schema: Schema) -> Ints:
    """Put NaN in place of the fills that are to stay blank, in draws [m, N, columns] of completed rows, in place. How
    many of each draw these are [rules + 1, m]: by each rule, and by all together.

    A column that decides and stays blank itself was not asked either, and so neither is what hangs on it, whatever its
    draw would say.

    observed  [N, columns] codes of the same rows, exact where a cell of a column that decides is observed
    missing   [N, columns]
    """
    says, blank = staying(rules, draws, observed, missing, schema)
    own = [
        (missing[:, rule.columns] & (said | blank[..., rule.other])[..., None]).sum((1, 2))
        for rule, said in zip(rules, says, strict=True)
    ]
    draws[blank] = np.nan
    return np.array([*own, blank.sum((1, 2))], np.int64)


def not_asked(gates: Sequence[_Gate], says: Sequence[Bools], missing: Bools, draws: int) -> Bools:
    """[draws, N, columns] which holes are of questions that a row is not asked.

    gates    places of some columns, and of the one that decides about them
    says     [draws, N] by each of these, whether its cell says so; a hole that is itself of a question that is not
             asked says so too, until nothing more hangs on one
    missing  [N, columns]
    """
    found, count = np.zeros((draws, *missing.shape), bool), -1
    while found.sum() != count:
        count = int(found.sum())
        for (columns, other), said in zip(gates, says, strict=True):
            found[..., columns] |= missing[:, columns] & (said | found[..., other])[..., None]
    return found


def staying(
    rules: Sequence[Blank], draws: Floats, observed: Floats, missing: Bools, schema: Schema
) -> tuple[list[Bools], Bools]:
    """Of draws [m, N, columns] of completed rows [m, N] by each of some rules whether its cell says so, and [m, N,
    columns] which holes stay blank. The other arguments as of `take_back`."""
    says = [rule.holds(_decided(rule.other, draws, observed, missing, schema)) for rule in rules]
    return says, not_asked([(rule.columns, rule.other) for rule in rules], says, missing, len(draws))


def _decided(place: int, draws: Floats, observed: Floats, missing: Bools, schema: Schema) -> Floats:
    """[m, N] codes of a column that decides, fills as it holds them. The arguments as of `take_back`."""
    filled = schema.encoded[place].held(draws[..., place])
    return np.where(missing[:, place], filled, observed[:, place])


def unasked_holes(rules: Sequence[Rule], draws: Floats, observed: Floats, missing: Bools, schema: Schema) -> Bools:
    """[m, N, columns] which holes of draws [m, N, columns] of completed rows are of questions that their row is not
    asked, by some rules of the fit. The other arguments as of `take_back`."""
    gates = _gates(rules, schema)
    codes = [_decided(other, draws, observed, missing, schema) for _, other in gates]
    says = [rule.excludes(own) for rule, own in zip(rules, codes, strict=True)]
    return not_asked(gates, says, missing, len(draws))


def unasked_when_drawn(schema: Schema) -> Callable[[Floats], Bools] | None:
    """Of rows x [.., D] in which every cell was drawn, encoded, which cells [.., D] are of questions that their row is
    not asked, by the rules of the fit; None where there are no rules."""
    rules = without_value_in(schema)
    if not rules:
        return None
    gates = _gates(rules, schema)
    slices = schema.layout.slices
    of_column = np.repeat(np.arange(len(slices)), [own.stop - own.start for own in slices])

    def found(x: Floats) -> Bools:
        codes = [schema.encoded[other].decode(x[..., slices[other]]).reshape(1, -1) for _, other in gates]
        says = [rule.excludes(own) for rule, own in zip(rules, codes, strict=True)]
        every = np.ones((codes[0].shape[1], len(slices)), bool)
        cells = not_asked(gates, says, every, 1)[0]
        return np.asarray(cells[:, of_column].reshape(x.shape))

    return found


def _gates(rules: Sequence[Rule], schema: Schema) -> list[_Gate]:
    """The places of the columns of some rules, and of the one that decides about them."""
    return [([schema.modelled.index(other) for other in one.others], schema.modelled.index(one.name)) for one in rules]


class CellsNotAsked(NamedTuple):
    """Cells of questions that a row is not asked.

    cells   [N, columns] which these are
    behind  [N, columns] those that no rule says of, but the question before which is not asked either
    flags   those that leave them blank
    """

    cells: Bools
    behind: Bools
    flags: tuple[str, ...]


def unasked_cells(rules: Sequence[Rule], codes: Floats, missing: Bools, filled: Bools, schema: Schema) -> CellsNotAsked:
    """Which cells that are `filled` [N, columns] are of questions that their row is not asked, by some rules.

    codes    [N, columns], NaN where a cell of a column that decides says nothing
    missing  [N, columns] which cells no answer was read from
    """
    gates = _gates(rules, schema)
    says = [rule.excludes(codes[:, other]) for rule, (_, other) in zip(rules, gates, strict=True)]
    every = not_asked(gates, [said[None] for said in says], missing, 1)[0]
    told, flags = np.zeros(missing.shape, bool), dict[str, None]()
    for rule, said, (columns, other) in zip(rules, says, gates, strict=True):
        told[:, columns] |= missing[:, columns] & said[:, None]
        rows = said | every[:, other]
        if (missing[:, columns] & filled[:, columns] & rows[:, None]).any():
            flags[flags_of(rule, schema)] = None
    cells = every & filled
    return CellsNotAsked(cells, cells & ~told, tuple(flags))


def _read(text: str, schema: Schema, decimal: str | None) -> Blank:
    where = f"{FLAG} {text}"
    ends = [at for at, letter in enumerate(text) if letter == ":"]
    cuts = [(names_in(text[:at], schema.modelled), said) for at in ends if (said := list(_conditions(text[at + 1 :])))]
    if not cuts:
        raise UsageError(f"{FLAG}: expected COL:OTHER=LEVEL or COL:OTHER<NUMBER, got '{text}'", FORMS)
    names, said = next((cut for cut in cuts if cut[0] and set(cut[0]) <= set(schema.modelled)), cuts[0])
    if not names:
        raise UsageError(f"{where}: no column is named before the colon", FORMS)
    columns = tuple(place_of(where, [(name, None)], schema)[0] for name in names)
    name, relation, value = next((one for one in said if one[0] in schema.modelled), said[0])
    other, _ = place_of(where, [(name, None)], schema)
    if other in columns:
        raise UsageError(f"{where}: column '{name}' decides about its own holes", "name another column after the colon")
    return Blank(text, columns, other, relation, _code(where, relation, value, schema.encoded[other], decimal))


def _conditions(text: str) -> Iterator[tuple[str, str, str]]:
    """The ways to cut a condition into a name, a relation and a value."""
    at = 0
    while at < len(text):
        sign = next((sign for sign in _RELATIONS if text.startswith(sign, at)), None)
        if sign is not None:
            yield text[:at].strip(), sign, text[at + len(sign) :].strip()
        at += len(sign or " ")


def _code(where: str, relation: str, value: str, column: ModelledColumn, decimal: str | None) -> float:
    """What codes of a column are compared with. UsageError for what it cannot hold, and for an order that it lacks."""
    if isinstance(column, Levelled):
        if relation not in ("=", "!=") and not column.ordered:
            raise UsageError(
                f"{where}: the levels of column '{column.name}' have no order",
                f"compare them with = or !=, for example {column.name}={column.texts[0]}",
            )
        return level_of(where, value, column)
    code: float | None = None
    if isinstance(column, Moment):
        code = instant(column.clock, value)
    elif isinstance(column, Number):
        plain = None if column.notation is None else column.notation.plain(value)
        written = value.replace(",", ".") if decimal == "," and "." not in value else value
        code = number_of(written if plain is None else plain)
    if code is None or not math.isfinite(code):
        raise UsageError(f"{where}: column '{column.name}' holds no value like '{value}'", f"it has {column.summary}")
    return code
