"""Levels whose group is known: a genotype of which the count of one allele is observed, a town of a known state.

A model that knows the group as a number, or as one of many cells of the row, draws some levels of other groups. Such
rows are drawn anew (`Selected`), so that a level is as likely as the model says it is among those of its group.
"""

from __future__ import annotations

import numpy as np

from vgi_cli.columns.numerals import Bools, Floats
from vgi_cli.columns.relations import Relation
from vgi_cli.columns.schema import Schema

ELSEWHERE = 1e-6
"""How likely a level of another group is taken for, beside one of the group that is known: of rows none of whose draws
has such levels those are kept that have most of them, and no cells that never go together."""
SAME = 1e-4
"""By this share of its deviation a number may be off the one that levels have, once it was encoded."""


def levels_in_groups(schema: Schema) -> list[Relation]:
    """The relations of a schema of which levels of the second column belong to those of the first one, or have one
    number of it, several to each."""
    pooled = {column.name for column in schema.encoded if column.pooled}
    return [one for one in schema.relations if one.of_levels and pooled.isdisjoint(one.names)]


def group_probability(x: Floats, missing: Bools, schema: Schema) -> Floats:
    """[n, R] how likely completed encoded rows x [n, R, D] are by the groups of levels that are observed, up to a
    factor of the row: 1 where each level that is missing belongs to its own one, less by ELSEWHERE for each that does
    not; missing [R, D]. What no level of the fit belongs to says nothing."""
    at = dict(zip(schema.modelled, schema.layout.slices, strict=True))
    columns = {column.name: column for column in schema.encoded}
    out = np.ones(x.shape[:2])
    for one in levels_in_groups(schema):
        first, second = one.names
        rows = np.flatnonzero(missing[:, at[second].start] & ~missing[:, at[first].start])
        if not len(rows) or not len(x):
            continue
        group = columns[first].decode(x[0, rows, at[first]])
        away = np.abs(group[:, None] - np.where(np.isnan(one.coding), np.inf, one.coding))
        near = away.min(1, keepdims=True)
        own = (away == near) | (near > SAME * columns[first].deviation)
        levels = columns[second].decode(x[:, rows, at[second]]).astype(int)
        out[:, rows] *= np.where(own[np.arange(len(rows)), levels], 1.0, ELSEWHERE)
    return out
