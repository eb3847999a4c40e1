"""Levels and numbers that stand beside no cell of a column they go with: a free plan, which has no code; a flight that
was cancelled, which has no delay.

Where both cells are missing, one is not computed from the other, nor are further cells from both: what the partner is
filled with decides nothing there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Self

import numpy as np

from vgi_cli.columns.blanks import undefined_in
from vgi_cli.columns.levelled import Levelled
from vgi_cli.columns.numerals import Bools, Floats
from vgi_cli.columns.relations import Relation
from vgi_cli.columns.schema import Schema
from vgi_cli.columns.skips import Skip, Threshold, Undefined
from vgi_cli.encoding.relations import departing


class Unpaired(NamedTuple):
    """What says of cells of a relation that they go with none of another one of its columns.

    relation  of any kind
    rules     questions asked of some rows alone, and numbers that leave the first column no value, with the place of
              the column that decides and those of the columns it decides about
    every     by place whether all levels (or keys) are known that the column has beside cells of all others
    """

    relation: Relation
    rules: tuple[tuple[int, Skip | Threshold | Undefined, tuple[int, ...]], ...]
    every: tuple[bool, ...]

    @classmethod
    def of(cls, relation: Relation, schema: Schema) -> Self | None:
        """Of a relation of a schema; None where each cell has a partner."""
        names = relation.names
        asked = (one for one in schema.rules if one.name in names and set(names) & set(one.others))
        own = (*asked, *undefined_in([relation]))
        rules = tuple((names.index(one.name), one, _places(names, one.others)) for one in own)
        every = tuple(_beside(relation, schema, place) for place in range(len(names)))
        return cls(relation, rules, every) if rules or any(every) else None

    def staying(self, values: Floats, filled: Bools) -> Bools:
        """[.., columns] which cells of values [.., columns] are not computed from the others: a cell goes with none of
        another column, which is `filled` [.., columns], and is not the cell itself."""
        columns = np.arange(values.shape[-1])
        stays = np.zeros(values.shape, bool)
        for alone, partners in self._alone(values):
            for partner in partners:
                stays |= (alone & filled[..., partner])[..., None] & (columns != partner)
        return stays

    def rows(self, values: Floats, missing: Bools) -> Bools:
        """[..] where a cell goes with none of another column, which is `missing` [.., columns]."""
        return np.asarray(self.staying(values, missing).any(-1))

    def _alone(self, values: Floats) -> Iterator[tuple[Bools, Sequence[int]]]:
        """[..] which cells of a column go with none of others, and the places of these."""
        for place, rule, partners in self.rules:
            yield rule.excludes(values[..., place]), partners
        for place in np.flatnonzero(self.every).tolist():
            partners = tuple(other for other in range(len(self.every)) if other != place)
            yield ~self._paired(values[..., place], place), partners

    def _paired(self, codes: Floats, place: int) -> Bools:
        """[..] which codes [..] of a column the relation knows beside the others."""
        if place and self.relation.how == "pairs":
            return np.isin(codes, self.relation.seen(place))
        return ~np.isnan(self.relation.said(codes)) if place else np.isin(codes, self.relation.coding)


def _places(names: Sequence[str], some: Sequence[str]) -> tuple[int, ...]:
    """The places of those columns that are among some."""
    return tuple(place for place, name in enumerate(names) if name in some)


def _beside(relation: Relation, schema: Schema, place: int) -> bool:
    """Whether a relation knows all levels (or keys) of its column at a place that have cells of the others beside them,
    and these may not be all that the column has."""
    columns = [schema.encoded[schema.modelled.index(name)] for name in relation.names]
    if relation.how == "levels" and place:
        return None in relation.codes
    column = columns[place]
    if not relation.coded or relation.how == "part" or not isinstance(column, Levelled):
        return False  # levels of parts that are seen once are not known
    if place and relation.how == "pairs":
        return len(relation.seen(place)) < column.level_counts[0]
    if place:  # numbers of levels are known of those alone that have several rows
        return isinstance(columns[0], Levelled) and None in relation.codes
    return len({*relation.codes} - {None}) < column.level_counts[0]


def departing_fills(
    relation: Relation, unpaired: Unpaired | None, values: Floats, missing: Bools, half: float
) -> Bools:
    """[..] where values [.., columns], some of which are `missing` [.., columns], depart from a relation, as of
    `departing`; what is filled in beside a cell that goes with none does not."""
    departs = departing(relation, values, half)
    return departs if unpaired is None else departs & ~unpaired.rows(values, missing)
