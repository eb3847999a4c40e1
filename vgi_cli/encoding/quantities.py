"""Numbers with wide gaps between them that are quantities, though they look like codes: a number of pieces in
packs of 1, 6, 12 and 24, by which a price is multiplied; rates of 7 and 19 percent; months of a loan. What is computed
from them says so.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping

import numpy as np

from vgi_cli.columns.base import Column, Request, Role
from vgi_cli.columns.categorical import Categorical
from vgi_cli.columns.levelled import numeric
from vgi_cli.columns.number import Number, as_written
from vgi_cli.columns.relations import Relation
from vgi_cli.columns.schema import Schema
from vgi_cli.columns.wording import kind_flag
from vgi_cli.encoding.ages import terms_among
from vgi_cli.encoding.redundant import codes_of, numeric_candidates, relation_words
from vgi_cli.encoding.relations import relation_of, share_relations
from vgi_cli.encoding.sums import CodedRows, Way
from vgi_cli.table.base import Table

FEWEST_COLUMNS = 3
"""Columns of what is computed: between two of them levels say the same."""
WAYS: tuple[Way, ...] = ("exact", "rounded")


def as_quantity(table: Table, column: Column, role: Role, asked: Request) -> Number | None:
    """What a column whose kind nobody named would be as one of numbers, where its plain numbers were taken for
    categories; None of any other. The values that it holds are the only ones that there are, where they have gaps."""
    if not isinstance(column, Categorical) or asked.kind is not None or role != "data":
        return None
    cells = as_written(table.column(column.name), asked)
    if cells.dictionary or not numeric(cells) or not np.isfinite(cells.numbers.values[~cells.missing]).all():
        return None
    found = Number.infer(cells, asked)
    return found if isinstance(found, Number) else None


def quantities_among(table: Table, schema: Schema, numbers: Mapping[str, Number]) -> dict[str, Relation]:
    """Of columns that were taken for categories and may be `numbers`, by name: those that are part of what is computed
    in every row, a product of two columns or more, a sum to which they are added as they are, by more rows than chance
    explains, or a date that is another one and so many months or years; and that."""
    if not numbers:
        return {}
    tried = Schema(tuple(numbers.get(column.name, column) for column in schema.columns), schema.transform)
    every = CodedRows.of(table, tried)
    columns = [column for column in tried.encoded if isinstance(column, Number)]
    codes = {column.name: codes_of(table, column) for column in columns}
    settled: dict[str, Relation] = {}
    for way, one in itertools.product(WAYS, numeric_candidates(columns, codes)):
        if one.how not in ("sum", "product") or numbers.keys().isdisjoint((one.name, *one.by)) or one.name in settled:
            continue
        relation = relation_of(every, one, way)
        if relation is not None and _computes(relation, numbers):
            settled[one.name] = relation
    found: dict[str, Relation] = {}
    shares = [relation for relation in share_relations(every, settled) if _computes(relation, numbers)]
    for relation in [*settled.values(), *shares]:
        for name in relation.names:
            if name in numbers and (numbers[name].whole or _is_plain(relation)):
                found.setdefault(name, relation)
    terms = terms_among(table, tried)
    return {**{name: one for name, one in terms.items() if name in numbers}, **found}


def quantity_words(found: Mapping[str, Relation], schema: Schema) -> list[str]:
    """A line on each of these columns."""
    return [
        f"column '{name}' is taken for numbers, though they are few, as codes are, since "
        f"{relation_words(relation, schema)}: `{kind_flag(name, 'categorical')}` if they are codes"
        for name, relation in found.items()
    ]


def _is_plain(relation: Relation) -> bool:
    """Whether no constant but a power of ten stands before what is computed: any other could make up for two fractions
    that are nearly the same."""
    return relation.how == "sum" or abs(math.remainder(math.log10(relation.constant), 1.0)) < 1e-9


def _computes(relation: Relation, numbers: Mapping[str, Number]) -> bool:
    """Whether a relation computes something from quantities: a code may be composed of others, each times a power of
    ten."""
    if len(relation.names) < FEWEST_COLUMNS or set(relation.names) <= set(numbers):
        return False
    weights = dict(zip(relation.names, relation.weights, strict=True))
    return relation.how == "product" or all(abs(weights[name]) == 1 for name in relation.names if name in numbers)
