"""Levels and numbers that stand beside no cell of the column they go with: a free plan, which has no code.

Where both cells are missing, one is not computed from the other: what the partner is filled with decides nothing there.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np

from vgi_cli.columns.base import ModelledColumn
from vgi_cli.columns.levelled import Levelled
from vgi_cli.columns.numerals import Bools, Floats
from vgi_cli.columns.relations import Relation
from vgi_cli.columns.schema import Schema
from vgi_cli.columns.skips import Skip, Threshold
from vgi_cli.encoding.relations import departing

PAIRED = ("levels", "groups")
"""Relations of two columns of which one may have no cell beside a level or a number of the other one."""


class Unpaired(NamedTuple):
    """What says of a cell of two columns, of which levels (or keys) of one say the other, that none goes with it.

    relation  one to one, or in groups
    rules     questions asked of some rows alone, with the place (0 or 1) of the column that decides
    every     by place whether all levels are known that the column has beside a cell of the other one
    """

    relation: Relation
    rules: tuple[tuple[int, Skip | Threshold], ...]
    every: tuple[bool, bool]

    @classmethod
    def of(cls, relation: Relation, schema: Schema) -> Self | None:
        """Of a relation of a schema; None where each cell has a partner, or the relation is of another kind."""
        if relation.how not in PAIRED:
            return None
        names, both = relation.names, [schema.encoded[schema.modelled.index(name)] for name in relation.names]
        rules = tuple(
            (names.index(one.name), one)
            for one in schema.rules
            if one.name in names and names[1 - names.index(one.name)] in one.others
        )
        levels = isinstance(both[0], Levelled) and not relation.keys
        every = levels and not _all_used(relation, both[0]), relation.how == "levels" or levels
        if not rules and not every[0] and not (every[1] and None in relation.codes):
            return None
        return cls(relation, rules, every)

    def cells(self, values: Floats) -> Bools:
        """[.., 2] which of two cells [.., 2] go with none of the other column."""
        alone = np.zeros(values.shape, bool)
        for place, rule in self.rules:
            alone[..., place] |= rule.excludes(values[..., place])
        if self.every[0]:
            alone[..., 0] |= ~np.isin(values[..., 0], self.relation.coding)
        if self.every[1]:
            alone[..., 1] |= np.isnan(self.relation.said(values[..., 1]))
        return alone

    def rows(self, values: Floats, missing: Bools) -> Bools:
        """[..] where one of two cells [.., 2] goes with none of the other column, which is `missing` [.., 2]."""
        return np.asarray((self.cells(values) & missing[..., ::-1]).any(-1))


def _all_used(relation: Relation, column: ModelledColumn) -> bool:
    """Whether each level of the first column of a relation stands beside some cell of the second one."""
    return isinstance(column, Levelled) and len({*relation.codes} - {None}) == column.level_counts[0]


def departing_fills(
    relation: Relation, unpaired: Unpaired | None, values: Floats, missing: Bools, half: float
) -> Bools:
    """[..] where values [.., columns], some of which are `missing` [.., columns], depart from a relation, as of
    `departing`; what is filled in beside a cell that goes with none does not."""
    departs = departing(relation, values, half)
    return departs if unpaired is None else departs & ~unpaired.rows(values, missing)
