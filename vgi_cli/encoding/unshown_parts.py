"""Parts of a sum that do not vary in the rows which show it: a rare species that is 0 in all complete rows, say.

Whether such a column is a part is not told by the rows that have all cells. Rows that lack other parts often tell it:
what they leave of the total has to be what the missing parts come to elsewhere. Where they do not, its name may.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np

from vgi_cli.columns.number import Number
from vgi_cli.columns.numerals import Bools, Floats
from vgi_cli.columns.relations import Relation
from vgi_cli.columns.schema import Schema
from vgi_cli.encoding.redundant import FEWEST, half_digit, relation_words
from vgi_cli.encoding.summands import adds_up
from vgi_cli.encoding.sums import TIE, CodedRows
from vgi_cli.table.base import Table

CLEAR = 3.0
"""Nats by which rows that lack other parts decide (20 to 1); of a column with any name more, by the choice of it."""


class Unshown(NamedTuple):
    """A column that does not vary in the rows that have all cells of a sum and its own, but does elsewhere.

    name    of the column
    value   what it is in these rows
    nats    by which the rows that lack other parts speak for its being a part; below 0 against that
    family  whether its name is that of each part but for numbers
    """

    name: str
    value: float
    nats: float
    family: bool

    def verdict(self, columns: int) -> Literal["in", "out", "open"]:
        """Whether it is a part, by the rows, or by its name where they do not tell; `columns`: among how many it was
        found."""
        if self.family:
            return "in" if self.nats > -CLEAR else "out"
        if self.nats >= CLEAR + np.log(columns):
            return "in"
        return "out" if self.nats < CLEAR else "open"


def with_unshown_parts(relation: Relation, every: CodedRows) -> Relation | None:
    """A sum with the parts that do not vary in the rows that show it; None where it is open whether it has such."""
    done: set[str] = set()
    while True:
        left = (one for one in _unshown(relation, every) if one.name not in done)
        one = max(left, key=lambda one: (one.family, one.nats), default=None)
        if one is None:
            return relation
        done.add(one.name)
        verdict = one.verdict(len(every.columns))
        if verdict == "open":
            return None
        if verdict == "in":
            relation = _with(relation, one, every)


def unshown_lines(table: Table, schema: Schema) -> list[str]:
    """A line on each part of a sum that its rows do not show, and on each column that is none though its name is like
    those of the parts: which was chosen, and why."""
    every, lines = CodedRows.of(table, schema), list[str]()
    for relation in (one for one in schema.relations if _may_lack(one, every)):
        words = relation_words(relation, schema)
        own = [one for name in relation.names[1:] if (one := _taken(relation, name, every)) is not None]
        lines += [f"column '{one.name}' is taken for a part of {words}: {_why(one)}" for one in own]
        others = [one for one in _unshown(relation, every) if one.family]
        lines += [f"column '{one.name}' is taken for no part of {words}: {_why(one)}" for one in others]
    return lines


def _taken(relation: Relation, name: str, every: CodedRows) -> Unshown | None:
    """What the rows say of a part of a sum which does not vary in those that show it; None of another one."""
    codes, place = every.codes(relation.names), relation.names.index(name)
    shown = codes[~np.isnan(codes).any(1), place]
    if not len(shown) or np.ptp(shown) > 0:
        return None
    names = tuple(other for other in relation.names if other != name)
    constant = relation.constant - relation.weights[1] * float(shown[0])
    without = replace(relation, names=names, weights=relation.weights[:-1], constant=constant)
    return next(_among([name], without, every), None)


def _why(one: Unshown) -> str:
    """Why a column is taken for a part, or not."""
    same = f"it is {one.value:g} in all rows that have all of these cells, and "
    if abs(one.nats) >= CLEAR:
        return f"{same}what rows that lack other parts leave of the total says so"
    return f"{same}its name is like those of the other parts"


def _may_lack(relation: Relation, every: CodedRows) -> bool:
    """Whether a relation is a sum of several numbers with one weight, so that a further part has that too."""
    plain = relation.how == "sum" and len(relation.names) > 2 and not relation.slack and not relation.apart
    return plain and np.ptp(relation.weights[1:]) <= TIE and all(_adds(name, every) for name in relation.names)


def _adds(name: str, every: CodedRows) -> bool:
    return isinstance(every.columns[name], Number) or adds_up(every.columns[name])


def _unshown(relation: Relation, every: CodedRows) -> Iterator[Unshown]:
    """The columns that may be parts of a sum which its rows do not show."""
    if _may_lack(relation, every):
        yield from _among([name for name in every.columns if name not in relation.names], relation, every)


def _among(names: Iterable[str], relation: Relation, every: CodedRows) -> Iterator[Unshown]:
    """Those of some columns that do not vary in the rows which show a sum, and do elsewhere; and what rows say of
    them."""
    codes = every.codes(relation.names)
    whole = ~np.isnan(codes).any(1)
    for name in (name for name in names if _adds(name, every)):
        own = every.codes([name])[:, 0]
        shown = own[whole & ~np.isnan(own)]
        if len(shown) < FEWEST or np.ptp(shown) > 0:
            continue
        away = own - shown[0]
        rows = ~np.isnan(away) & (away != 0)
        if rows.any():
            family = len({_stem(other) for other in (name, *relation.names[1:])}) == 1 and _stem(name) != name
            nats = _nats(relation, away, rows & ~np.isnan(codes[:, 0]), every)
            yield Unshown(name, float(shown[0]), nats, family)


def _stem(name: str) -> str:
    """A name without its numbers."""
    return re.sub(r"\d+", "#", name)


def _nats(relation: Relation, own: Floats, rows: Bools, every: CodedRows) -> float:
    """By how many nats some `rows` [N] that lack parts of a sum speak for a further one, of which `own` [N] is how far
    it is from what it is elsewhere: the missing ones come to what is left as often as in the rows that have them."""
    codes, weight = every.codes(relation.names), relation.weights[1]
    lacking = np.isnan(codes[:, 1:])
    off = half_digit(every.columns[relation.names[0]]) if relation.rounded else 0.0
    digits = [half_digit(every.columns[name]) for name in relation.names[1:]]
    nats = 0.0
    for pattern in np.unique(lacking[rows], axis=0):
        if not pattern.any():
            continue
        same = rows & (lacking == pattern).all(1)
        seen = np.sort(codes[:, 1:][:, pattern].sum(1))
        seen = seen[~np.isnan(seen)]
        if len(seen) < FEWEST:
            continue
        known = np.where(pattern, 0.0, codes[same, 1:]).sum(1)
        left = (relation.constant - codes[same, 0]) / weight - known
        near = off / abs(weight) + max(digit for digit, open_ in zip(digits, pattern, strict=True) if open_)
        nats += float((_often(left - own[same], seen, near) - _often(left, seen, near)).sum())
    return nats


def _often(values: Floats, seen: Floats, near: float) -> Floats:
    """[n] the logarithm of how often sorted numbers that were `seen` are as near as that to values [n]; where none is,
    but between the least and the greatest one, as if one were; beyond them less."""
    near = near + TIE * max(abs(seen[0]), abs(seen[-1]))
    count = np.searchsorted(seen, values + near, side="right") - np.searchsorted(seen, values - near)
    inside = (values >= seen[0] - near) & (values <= seen[-1] + near)
    return np.asarray(np.log(np.maximum(count, np.where(inside, 1.0, 1 / (len(seen) + 1))) / len(seen)))


def _with(relation: Relation, one: Unshown, every: CodedRows) -> Relation:
    """A sum with a further part, its parts in the order of the table."""
    names: Iterable[str] = {one.name, *relation.names[1:]}
    weight = relation.weights[1]
    return replace(
        relation,
        names=(relation.names[0], *(name for name in every.columns if name in names)),
        weights=(*relation.weights, weight),
        constant=relation.constant + weight * one.value,
    )
