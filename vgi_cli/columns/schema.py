"""The kinds of columns by name, and the columns of a fitted table with their JSON form."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, fields
from functools import cache, cached_property
from typing import Any, Literal, NamedTuple, TypeVar, cast

from pydantic import TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as strict_dataclass

from vgi_cli.columns.base import (
    STRICT,
    Carried,
    Cells,
    Column,
    ConstantColumn,
    Empty,
    ModelledColumn,
    Request,
    Role,
    Transform,
)
from vgi_cli.columns.categorical import ConstantLevel
from vgi_cli.columns.comparisons import Comparison
from vgi_cli.columns.levelled import Levelled, listed
from vgi_cli.columns.lookups import Lookup
from vgi_cli.columns.number import Constant, as_written
from vgi_cli.columns.numerals import Bools, Floats
from vgi_cli.columns.orders import Order
from vgi_cli.columns.prorated import Prorated, silent_cells
from vgi_cli.columns.relations import Relation
from vgi_cli.columns.skips import Skip, Threshold, Unanswered, Unasked
from vgi_cli.columns.spreads import Spread
from vgi_cli.columns.structural_zeros import StructuralZeros
from vgi_cli.columns.wording import kind_flag
from vgi_cli.errors import InputError, RunError, UsageError, closest, did_you_mean, nearest
from vgi_cli.layout import Layout
from vgi_cli.registry.names import KINDS

T = TypeVar("T")

SCHEMA_FORMAT = 10
"""1: without spikes; 2: fills of all columns, unless `bounded` was false, stay in the observed range; 3: without
relations; 4: without notations; 5: without orders; 6: without heaps; 9: without parts of dates."""
_BLANK: dict[str, Any] = {
    **dict.fromkeys(("low", "high", "lower", "upper", "lattice")),
    "dequantise": False,
    "spikes": [],
    "levels": [],
    "scale": None,
    "sd": None,
    "decimals": 0,
    "digits": 17,
}
_BLANKED = (Carried, Constant, Empty)
"""Since format 3 these are written with all fields of a number: those that they do not have as in _BLANK."""

SYNONYMS = {
    **dict.fromkeys(("nominal", "factor", "category", "string", "str", "enum", "levels"), "categorical"),
    **dict.fromkeys(("float", "double", "real", "number", "continuous"), "numeric"),
    **dict.fromkeys(("int", "count"), "integer"),
    **dict.fromkeys(("bool", "logical", "binary"), "boolean"),
    **dict.fromkeys(("ordered", "likert", "scale"), "ordinal"),
    **dict.fromkeys(("text", "ignore", "skip", "drop", "exclude"), "carry"),
    "timestamp": "datetime",
}
"""What kinds are called elsewhere, in small letters."""


def kind_of(name: str) -> type[Column]:
    """The class of a kind."""
    kind: type[Column] = KINDS.load(name)
    return kind


def kind_words() -> tuple[str, ...]:
    """What may be said after `--column NAME=`."""
    return tuple(dict.fromkeys(word for name in reversed(list(KINDS)) for word in kind_of(name).words))


def kind_meant(word: str) -> str | None:
    """The kind that a misspelt word, or one of another program, is meant for; None where none is near."""
    return SYNONYMS.get(word.casefold()) or closest(word, kind_words())


class SaidKind(NamedTuple):
    """What is said of a column: the word of a kind, and what follows it and a colon."""

    kind: str
    detail: str | None = None


def parse_kind(name: str, text: str) -> SaidKind:
    """`ordinal:low,mid,high`, or a word alone, for a column. UsageError where it cannot be meant."""
    word, colon, detail = text.partition(":")
    said = f"--column {name}={text}"
    if word not in kind_words():
        meant = kind_meant(word)
        raise UsageError(f"{said}: unknown kind", nearest(word, kind_words()) if meant is None else did_you_mean(meant))
    if not colon:
        return SaidKind(word)
    problems = [kind_of(kind).check_detail(word, detail) for kind in KINDS if word in kind_of(kind).words]
    if None not in problems:
        raise UsageError(f"{said}: {problems[0]}", f"for example --column {name}={word}")
    return SaidKind(word, detail)


def split_kind(item: str) -> tuple[str, str] | None:
    """(name, text of the kind) of `NAME=KIND` or `NAME=KIND:DETAIL`, cut at the first `=` that the word of a kind
    follows: names and details may hold one; None where there is no such."""
    for at in (place for place, letter in enumerate(item) if letter == "="):
        if item[at + 1 :].partition(":")[0] in kind_words():
            return item[:at], item[at + 1 :]
    return None


def levels_by_column(kinds: Mapping[str, str], schema: Schema | None) -> dict[str, set[str]]:
    """The texts that are levels of columns, as far as they were listed (`kinds`: column -> `ordinal:low,mid,high`) or a
    fitted table had them."""
    found: dict[str, set[str]] = {}
    for name, text in kinds.items():
        word, _, detail = text.partition(":")
        takers = [kind_of(kind) for kind in KINDS if word in kind_of(kind).words]
        if any(issubclass(kind, Levelled) and kind.check_detail(word, detail) is None for kind in takers):
            found[name] = set(listed(detail))
    for column in () if schema is None else schema.columns:
        if isinstance(column, Levelled | ConstantLevel):
            texts = column.texts if isinstance(column, Levelled) else (column.level,)
            found.setdefault(column.name, set()).update(texts)
    return found


def infer_column(cells: Cells, role: Role, asked: Request) -> Column:
    """What a column is: of the kind that was asked for, else of the last of KINDS that takes it. InputError where its
    cells contradict what was asked."""
    if role != "data" or asked.kind in Carried.words:
        return Carried(cells.name, "carried", role)
    cells = as_written(cells, asked)
    known = [kind_of(name) for name in KINDS]
    kinds = [kind for kind in reversed(known) if asked.kind is None or asked.kind in kind.words]
    for kind in dict.fromkeys([cast(type[Column], Empty), *kinds]):
        column = kind.infer(cells, asked)
        if column is not None:
            return column
    raise InputError(
        f"{cells.label}: --column {cells.name}={asked.kind}, but its cells are none of that kind",
        f"`{kind_flag(cells.name, 'carry')}` carries the column as it is",
    )


@dataclass(frozen=True)
class Schema:
    """The columns of a fitted table in its order, the transform behind the codecs, and the relations between modelled
    columns, their orders, skips, thresholds, structural zeros and comparisons that fills keep to, what follows from
    columns that are carried, how well columns of relations are known from others, which questions rows may not have
    been asked, which columns are missing in most rows, unlike the others, those together that are missing in the same
    rows, and which scores are prorated."""

    columns: tuple[Column, ...]
    transform: Transform = "linear"
    format: int = SCHEMA_FORMAT
    relations: tuple[Relation, ...] = ()
    orders: tuple[Order, ...] = ()
    skips: tuple[Skip, ...] = ()
    thresholds: tuple[Threshold, ...] = ()
    unasked: tuple[Unasked, ...] = ()
    structural_zeros: tuple[StructuralZeros, ...] = ()
    lookups: tuple[Lookup, ...] = ()
    spreads: tuple[Spread, ...] = ()
    unanswered: tuple[Unanswered, ...] = ()
    mostly_empty: tuple[tuple[str, ...], ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    prorated: tuple[Prorated, ...] = ()

    @cached_property
    def encoded(self) -> tuple[ModelledColumn, ...]:
        """The modelled columns, in encoded order."""
        return tuple(c for c in self.columns if isinstance(c, ModelledColumn))

    @cached_property
    def modelled(self) -> tuple[str, ...]:
        """Names of the modelled columns, in encoded order."""
        return tuple(c.name for c in self.encoded)

    @cached_property
    def layout(self) -> Layout:
        """The modelled columns, each a block of its own."""
        levels = [n for c in self.encoded for n in c.level_counts]
        order = [c.ordered and n > 0 for c in self.encoded for n in c.level_counts]
        ordered = (i for i, holds in enumerate(order) if holds)
        return Layout.of(self.modelled, (c.width for c in self.encoded), levels, ordered)

    def silent(self, codes: Callable[[ModelledColumn], Floats]) -> dict[str, Bools]:
        """By columns the rows [N] in which their cells say nothing of what is missing beside them (`prorated.py`);
        `codes`: of a column [N], NaN where a cell is missing."""
        own = {column.name: column for column in self.encoded}
        return silent_cells(self.prorated, self.relations, lambda name: codes(own[name])) if self.prorated else {}

    @property
    def ids(self) -> tuple[str, ...]:
        """Names of the columns that key the randomness."""
        return tuple(c.name for c in self.columns if c.role == "id")

    @property
    def constants(self) -> tuple[ConstantColumn, ...]:
        """Columns with one observed value: their holes get it."""
        return tuple(c for c in self.columns if isinstance(c, ConstantColumn))

    @property
    def rules(self) -> tuple[Skip | Threshold, ...]:
        """Its skips, then its thresholds: what says where columns are asked for."""
        return (*self.skips, *self.thresholds)

    @property
    def pairs(self) -> tuple[Relation, ...]:
        """Its relations by which a column follows from two others together."""
        return tuple(one for one in self.relations if one.how == "pairs")

    @property
    def caps(self) -> tuple[Relation, ...]:
        """Its relations by which a column is another one that is cut off."""
        return tuple(one for one in self.relations if one.capped)

    def deciding(self, others: Collection[str]) -> list[Skip | Threshold]:
        """Of these the ones that say where all of some columns are asked for."""
        return [one for one in self.rules if set(others) <= set(one.others)]

    def to_json(self) -> str:
        """JSON text; numbers survive the round trip exactly."""
        raw = {
            "columns": [_plain(column) for column in self.columns],
            "transform": self.transform,
            "format": self.format,
            "relations": [_written(one) for one in self.relations],
            "orders": [_written(one) for one in self.orders],
            "skips": [_written(one) for one in self.skips],
            "thresholds": [_adapter(Threshold).dump_python(one, mode="json") for one in self.thresholds],
            "unasked": [_adapter(Unasked).dump_python(one, mode="json") for one in self.unasked],
            "structural_zeros": [
                _adapter(StructuralZeros).dump_python(one, mode="json") for one in self.structural_zeros
            ],
            "lookups": [_written(one) for one in self.lookups],
            "spreads": [_adapter(Spread).dump_python(one, mode="json") for one in self.spreads],
        }
        if self.unanswered:
            raw["unanswered"] = [_adapter(Unanswered).dump_python(one, mode="json") for one in self.unanswered]
        if self.mostly_empty:
            raw["mostly_empty"] = [list(names) for names in self.mostly_empty]
        if self.comparisons:
            raw["comparisons"] = [_written(one) for one in self.comparisons]
        if self.prorated:
            raw["prorated"] = [_adapter(Prorated).dump_python(one, mode="json") for one in self.prorated]
        return json.dumps(raw, indent=1, ensure_ascii=False, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str | bytes) -> Schema:
        """The schema of a run. RunError when the text is damaged or written by a newer program."""
        try:
            raw = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise RunError(f"schema.json: not JSON ({error})", "restore the run folder, or fit again") from None
        found = raw.get("format") if isinstance(raw, dict) else None
        if isinstance(found, int) and found > SCHEMA_FORMAT:
            raise RunError(
                f"schema.json: format {found} is newer than this program's {SCHEMA_FORMAT}",
                "upgrade vgi to read this run",
            )
        if found in (1, 2):
            raw = _of_format_2(raw)
        if found in range(3, SCHEMA_FORMAT):
            skips = [{key: value for key, value in one.items() if key != "blank"} for one in raw.get("skips", ())]
            raw = {**raw, "format": SCHEMA_FORMAT, "skips": skips}
        document = _checked(_adapter(_Document), raw)
        columns = tuple(_column_of(column, f"columns.{i}.") for i, column in enumerate(document.columns))
        once = len({c.name for c in columns}) == len(columns)
        if not once or any(c.role != "data" and not isinstance(c, Carried) for c in columns):
            raise _damaged("columns do not fit together")
        kept = {"relations": document.relations, "orders": document.orders, "skips": document.skips}
        kept |= {"thresholds": document.thresholds, "unasked": document.unasked}
        kept |= {"structural_zeros": document.structural_zeros, "lookups": document.lookups}
        kept |= {"spreads": document.spreads, "unanswered": document.unanswered}
        kept |= {"mostly_empty": document.mostly_empty, "comparisons": document.comparisons}
        kept |= {"prorated": document.prorated}
        schema = cls(columns, document.transform, **kept)
        if not all(_fits(one, schema) for one in schema.relations):
            raise _damaged("relations do not fit the columns")
        numbers = {column.name for column in schema.encoded if column.level_counts[-1] == 0}
        if not all({one.low, one.high} <= numbers for one in schema.orders):
            raise _damaged("orders do not fit the columns")
        if not all(one.ties is None or one.ties.names <= set(schema.modelled) for one in schema.orders):
            raise _damaged("ties of orders do not fit the columns")
        counts = {column.name: column.level_counts[-1] for column in schema.encoded}
        if not all(counts.get(one.name) == len(one.shares) and set(one.others) <= set(counts) for one in schema.skips):
            raise _damaged("skips do not fit the columns")
        if not all(
            max(one.levels) < counts.get(one.name, 0) and set(one.others) <= set(counts) for one in schema.unanswered
        ):
            raise _damaged("columns without answers do not fit the columns")
        if not all(set(names) <= set(counts) for names in schema.mostly_empty):
            raise _damaged("columns that are mostly empty do not fit the columns")
        if not all(one.name in numbers and set(one.others) <= set(counts) for one in schema.thresholds):
            raise _damaged("thresholds do not fit the columns")
        if not all(_decided(one, schema) for one in schema.unasked):
            raise _damaged("blank columns do not fit their skips")
        if not all(set(one.names) <= set(counts) for one in schema.structural_zeros):
            raise _damaged("structural zeros do not fit the columns")
        if not all(
            {one.first, one.second} <= numbers and _codes_fit(one.codes, counts.get(one.flag))
            for one in schema.comparisons
        ):
            raise _damaged("comparisons do not fit the columns")
        if not all({one.name, *one.others} <= set(counts) for one in schema.prorated):
            raise _damaged("scores do not fit the columns")
        carried = {column.name for column in columns if isinstance(column, Carried)}
        if not all(one.by in carried and _codes_fit(one.codes, counts.get(one.name)) for one in schema.lookups):
            raise _damaged("what follows from carried columns does not fit the columns")
        if not all({one.name, *(name for name, _ in one.beside)} <= set(counts) for one in schema.spreads):
            raise _damaged("spreads do not fit the columns")
        return schema


@strict_dataclass(frozen=True, config=STRICT)
class _Document:
    """What schema.json holds."""

    columns: tuple[dict[str, Any], ...]
    transform: Transform = "linear"
    format: Literal[10] = 10
    relations: tuple[Relation, ...] = ()
    orders: tuple[Order, ...] = ()
    skips: tuple[Skip, ...] = ()
    thresholds: tuple[Threshold, ...] = ()
    unasked: tuple[Unasked, ...] = ()
    structural_zeros: tuple[StructuralZeros, ...] = ()
    lookups: tuple[Lookup, ...] = ()
    spreads: tuple[Spread, ...] = ()
    unanswered: tuple[Unanswered, ...] = ()
    mostly_empty: tuple[tuple[str, ...], ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    prorated: tuple[Prorated, ...] = ()


def _written(kept: Relation | Order | Skip | Lookup | Comparison) -> dict[str, Any]:
    """What fills keep to as JSON, without what only relations have that cut off, and how many rows contradict it where
    none does."""
    adapter = next(_adapter(kind) for kind in (Relation, Order, Skip, Lookup, Comparison) if isinstance(kept, kind))
    raw: dict[str, Any] = adapter.dump_python(kept, mode="json")
    return {name: value for name, value in raw.items() if value or name not in ("beyond", "but")}


def _decided(one: Unasked, schema: Schema) -> bool:
    """Whether skips or thresholds say where some columns are asked for, and its shares are those of their levels."""
    rules = schema.deciding(one.others)
    levels = {len(rule.shares) for rule in rules if isinstance(rule, Skip)}
    return bool(rules) and (len(one.blank) == 1 or levels == {len(one.blank)})


@cache
def _adapter(kind: type[T]) -> TypeAdapter[T]:
    return TypeAdapter(kind)


def _checked(adapter: TypeAdapter[T], raw: Any, place: str = "") -> T:
    try:
        return adapter.validate_python(raw)
    except ValidationError as error:
        first = error.errors()[0]
        where = place + ".".join(map(str, first["loc"]))
        raise _damaged(f"{where.rstrip('.')}: {first['msg']}") from None


def _codes_fit(codes: Collection[float | None], levels: int | None) -> bool:
    """Whether codes are of a column with so many levels (0: of numbers; None: there is no such column)."""
    return levels is not None and (levels == 0 or set(codes) - {None} <= set(range(levels)))


def _fits(relation: Relation, schema: Schema) -> bool:
    """Whether the columns of a relation are modelled, and have the levels that it pairs."""
    columns = {column.name: column for column in schema.encoded}
    if not set(relation.names) <= set(columns):
        return False
    if relation.beyond is not None and not relation.beyond.names <= set(columns):
        return False
    counts = [columns[name].level_counts[-1] for name in relation.names]
    if relation.how in ("levels", "groups"):
        levels = 0 if relation.keys else len(relation.codes)
        return counts[1] == levels and _codes_fit(relation.codes, counts[0])
    if relation.how == "pairs":
        others = zip(zip(*relation.pairs, strict=True), counts[1:], strict=True)
        return _codes_fit(relation.codes, counts[0]) and all(_codes_fit(own, count) for own, count in others)
    if relation.how == "bands":
        kind, moment = (columns[name].kind for name in relation.names)
        if relation.until is not None and {"D": "date", "s": "datetime"}[str(relation.count)] != moment:
            return False
        numbers = counts[0] == 0 and (relation.until is None or kind in ("numeric", "integer"))
        return counts[1] == 0 and (numbers or set(relation.codes) - {None} <= set(range(counts[0])))
    if relation.how == "part":
        moments = columns[relation.names[1]].kind in ("date", "datetime")
        numbers = counts[0] == 0
        return (
            moments
            and (numbers or bool(relation.codes))
            and (numbers or set(relation.codes) - {None} <= set(range(counts[0])))
        )
    if relation.how == "completed":
        first, *dates = (columns[name].kind for name in relation.names)
        counted = [count for count, _ in relation.dates]
        return first in ("numeric", "integer") and counted == [{"date": "D", "datetime": "s"}.get(one) for one in dates]
    truths = relation.how == "sum" and not counts[0]
    return all(
        not count or (truths and columns[n].kind == "boolean") for n, count in zip(relation.names, counts, strict=True)
    )


def kinds_in(text: str) -> list[str]:
    """The kinds of columns that a schema.json names, as far as it is whole."""
    try:
        return [str(column["kind"]) for column in json.loads(text)["columns"]]
    except (ValueError, KeyError, TypeError, RecursionError):
        return []


def _damaged(what: str) -> RunError:
    return RunError(f"schema.json: damaged ({what})", "restore the run folder, or fit again")


def _column_of(raw: dict[str, Any], place: str) -> Column:
    """A column from its JSON object; what `place` it has, for messages."""
    kind = str(raw.get("kind"))
    if kind not in KINDS:
        raise _damaged(f"{place}kind: expected one of {', '.join(KINDS)}, got {raw.get('kind')!r}")
    cls = kind_of(kind)
    if cls in _BLANKED:
        own = {field.name for field in fields(cls)}
        raw = {key: value for key, value in raw.items() if key in own or key not in _BLANK or value != _BLANK[key]}
    column: Column = _checked(_adapter(cls), raw, place)
    return column


def _plain(column: Column) -> dict[str, Any]:
    """The JSON object of a column."""
    own: dict[str, Any] = _adapter(type(column)).dump_python(column, mode="json")
    for key in ("stored", "notation", "fixed", "single"):
        if key in own and own[key] is None:
            del own[key]
    if not isinstance(column, _BLANKED):
        return own
    head = {key: own[key] for key in ("name", "kind", "role", "stored", "notation") if key in own}
    return head | {key: own.get(key, value) for key, value in _BLANK.items()}


def _of_format_2(raw: dict[str, Any]) -> dict[str, Any]:
    """A schema of an earlier version in today's form, where it is whole."""
    columns = []
    for column in raw["columns"] if isinstance(raw.get("columns"), list) else []:
        if isinstance(column, dict) and isinstance(column.get("bounded", True), bool):
            column = dict(column)
            if column.pop("bounded", True) and column.get("kind") in ("numeric", "integer"):
                ends = {"lower": column.get("low"), "upper": column.get("high")}
                column |= {name: {"value": end, "why": "observed"} for name, end in ends.items() if end is not None}
        columns.append(column)
    return {**raw, "columns": columns, "format": SCHEMA_FORMAT}
