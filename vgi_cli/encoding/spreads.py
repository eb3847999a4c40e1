"""How well the columns of sums and products are known from the rest of a row, measured in a table that is fitted.

Where several cells of a relation are missing, one is computed from the others, which stay as they were drawn. In a row
with a duplicate measurement of a product the product is known well, its factors are not: one of these is to be
computed. If a model knew the relation exactly, it would not matter which one; it knows it nearly.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vgi_cli.columns.numerals import Bools, Floats, Ints
from vgi_cli.columns.places import evenly
from vgi_cli.columns.relations import Relation
from vgi_cli.columns.schema import Schema
from vgi_cli.columns.spreads import Spread
from vgi_cli.encoding.redundant import as_number, codes_of
from vgi_cli.encoding.summands import adds_up
from vgi_cli.table.base import Table

FEWEST, ROWS = 30, 2_000
"""Rows with both cells by which it is asked how much one column says of another one: fewest, and most, evenly spread.
"""
SAYS, MOST = 0.7, 10
"""Another column says something of cells that lie so much nearer to each other beside it, as a share; of so many of
these it is kept, those first that say most."""
TERMS = 3
"""Columns of a relation, fewest: of two columns each is known as well as the other."""


def spreads_among(table: Table, schema: Schema) -> tuple[Spread, ...]:
    """The spreads of the columns of sums and products of a table that is fitted."""
    asked = {(name, one.how == "product") for one in schema.relations if measured(one) for name in one.names}
    if not asked:
        return ()
    codes = {column.name: codes_of(table, column) for column in schema.encoded}
    shuffled = np.random.default_rng(0).permutation(table.N)  # rows that follow each other may be alike
    return tuple(
        found
        for column in schema.encoded
        for logs in (False, True)
        if (column.name, logs) in asked and (as_number(column) is not None or adds_up(column))
        if (found := _spread(column.name, logs, codes, shuffled)) is not None
    )


def measured(relation: Relation) -> bool:
    """Whether it is asked which of the columns of a relation are known best."""
    return relation.how in ("sum", "product") and len(relation.names) >= TERMS and not relation.percent


def _spread(name: str, logs: bool, codes: dict[str, Floats], shuffled: Ints) -> Spread | None:
    """The spread of a column by the codes [N] of all; None where it has too few cells."""
    with np.errstate(divide="ignore", invalid="ignore"):
        own = codes[name][shuffled] / 1.0
        own = np.log(np.abs(own)) if logs else own
    seen = np.flatnonzero(np.isfinite(own))
    if len(seen) < FEWEST or not np.abs(own[seen]).max() < np.sqrt(np.finfo(float).max):
        return None
    apart = _distance(own[_some(seen)])
    beside = dict[str, float]()
    for other, values in codes.items():
        both = seen[np.isfinite(values[shuffled[seen]])]
        if other != name and len(both) >= FEWEST:
            both = _some(both)
            beside[other] = _distance(own[both][values[shuffled[both]].argsort(kind="stable")])
    least = sorted((size, other) for other, size in beside.items() if size < SAYS * apart)[:MOST]
    return Spread(name=name, logs=logs, apart=apart, beside=tuple((other, size) for size, other in least))


def _some(rows: Ints) -> Ints:
    """ROWS of some rows, or all."""
    return np.asarray(rows[evenly(len(rows), ROWS)])


def _distance(values: Floats) -> float:
    """The mean distance of each value from the next one."""
    return float(np.abs(np.diff(values)).mean())


class TermSpread(NamedTuple):
    """The spread of a term of a relation: a weight times a cell, or the logarithm of a factor.

    apart   of two rows
    others  the places of other columns among those that are modelled, and ...
    beside  ... the spread in rows that are alike in these
    """

    apart: float
    others: Ints
    beside: Floats

    def of(self, missing: Bools) -> Floats:
        """[n] what is left of it in rows with some `missing` cells [n, columns], beside the column that says most of
        those which are observed."""
        left = np.where(missing[:, self.others], np.inf, self.beside)
        return np.asarray(np.minimum(left.min(1, initial=np.inf), self.apart))


def term_spreads(relation: Relation, schema: Schema) -> list[TermSpread]:
    """The spreads of the terms of a sum or a product, by their places in it; none where some are not known."""
    found = {one.name: one for one in schema.spreads if one.logs == (relation.how == "product")}
    if not measured(relation) or not set(relation.names) <= set(found):
        return []
    terms = []
    for name, weight in zip(relation.names, relation.weights, strict=True):
        one = found[name]
        others = np.array([schema.modelled.index(other) for other, _ in one.beside], int)
        beside = np.array([size for _, size in one.beside], float)
        terms.append(TermSpread(abs(weight) * one.apart, others, abs(weight) * beside))
    return terms
