"""Keys that say nothing of a column which follows from them: no row of theirs has a value of it. Fills are drawn row by
row, and those of such rows differ, which somebody who read that the column follows from the key would not expect.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from vgi_cli.columns.numerals import Bools, Ints, value_places
from vgi_cli.columns.schema import Schema
from vgi_cli.columns.wording import named
from vgi_cli.encoding.keys import told_by_keys
from vgi_cli.encoding.redundant import codes_of
from vgi_cli.table.base import Table


class _Following(NamedTuple):
    """A column that follows from a key: its name, the key's, which rows [N] have neither a value nor are told one, and
    the number of the key of each row [N] (-1: none)."""

    name: str
    by: str
    open: Bools
    places: Ints


def silent_key_words(table: Table, schema: Schema) -> list[str]:
    """A line on each key of which some values that have several rows say nothing of columns that follow from it."""
    found: dict[str, dict[str, int]] = {}
    for one in _following(table, schema):
        rows = np.bincount(one.places[one.open & (one.places >= 0)])
        if count := int((rows > 1).sum()):
            found.setdefault(one.by, {})[one.name] = count
    return [_words(by, names) for by, names in found.items()]


def _following(table: Table, schema: Schema) -> Iterator[_Following]:
    """The columns of a table that follow from whole cells of carried columns, and from numbers."""
    columns = {column.name: column for column in schema.encoded}
    told = told_by_keys(table, schema) if schema.lookups else np.empty((0, 0))
    for lookup in schema.lookups:
        cells = table.column(lookup.by)
        if lookup.first is None and cells.levelled:
            places = np.where(cells.missing, -1, cells.distinct[1])
            unsaid = np.isnan(told[:, schema.modelled.index(lookup.name)])
            yield _Following(lookup.name, lookup.by, table.missing(lookup.name) & unsaid, places)
    for relation in schema.relations:
        if relation.how == "groups" and relation.keys:
            name, by = relation.names
            codes = codes_of(table, columns[by])
            unsaid = np.isnan(relation.said(codes))
            yield _Following(name, by, table.missing(name) & unsaid, value_places(codes))


def _words(by: str, names: dict[str, int]) -> str:
    follow, most = "follows" if len(names) == 1 else "follow", max(names.values())
    count = f"{'up to ' * (len(set(names.values())) > 1)}{most:,} of these {'has' if most == 1 else 'have'}"
    return (
        f"{named('column', list(names))} {follow} from '{by}', but {count} several rows and no value in any: their "
        f"fills differ from row to row (fill a table with one row for each '{by}' first where that matters)"
    )
