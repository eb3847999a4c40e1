"""Columns of whole numbers that are all different and fill their range, in no order: keys (numbers of members, of
runners) that would be modelled as quantities, unless the other columns say what they are, as times do of a rank."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from vgi_cli.columns.base import ModelledColumn
from vgi_cli.columns.datetime import Moment
from vgi_cli.columns.number import Number
from vgi_cli.columns.numerals import Floats, mean_ranks, plain
from vgi_cli.columns.schema import Schema
from vgi_cli.columns.wording import are, named, typed
from vgi_cli.table.base import Table

FEWEST_ROWS = 20
"""Fewest observed cells: fewer, of a range that is hardly wider, may well be different by chance."""
WIDER = 1.2
"""A range of whole numbers that is not so many times as wide as there are values is filled by them."""
RELATED, CHANCE = 0.3, 4.0
"""A rank correlation with another column from which on a column is no key, if it is so many standard errors of one by
chance, 1 / sqrt(n), away from 0."""


def shuffled_keys(table: Table, schema: Schema, besides: Collection[str]) -> list[str]:
    """One line on the columns that look like keys whose rows are in no order; `besides`: columns of which that, or
    their kind, is said already."""
    told = {one.names[0] for one in schema.relations}
    columns = [
        column
        for column in schema.encoded
        if isinstance(column, Number)
        and column.whole
        and column.notation is None
        and column.name not in besides
        and column.name not in told
    ]
    keys = {}
    for column in columns:
        codes = column.codes(table.column(column.name))
        if fills_its_range(codes[np.isfinite(codes)]):
            keys[column.name] = codes
    names = _unrelated(table, schema.encoded, keys)
    if not names:
        return []
    own = keys[names[0]][np.isfinite(keys[names[0]])]
    least, most = (plain(float(end)) for end in (own.min(), own.max()))
    one = len(names) == 1
    what = f"no value occurs twice, {least} to {most} have hardly a gap, and no other column goes with them"
    if not one:
        what = "none of them holds a value twice, or has more than a few gaps, and no other column goes with them"
    rule = f"`{typed('--id', names[0])}` or `{typed('--exclude', names[0])}` if {'it is a key' if one else 'they are'}"
    return [f"{named('column', names)} {are(names)} modelled, but may be {'a key' if one else 'keys'}: {what}: {rule}"]


def fills_its_range(values: Floats) -> bool:
    """Whether some whole numbers, none missing, are all different, and next to none between them is left out."""
    if len(values) < FEWEST_ROWS or not values.max() - values.min() < WIDER * len(values):
        return False
    return len(np.unique(values)) == len(values)


def _unrelated(table: Table, columns: Sequence[ModelledColumn], keys: dict[str, Floats]) -> list[str]:
    """Those of some columns whose codes go with no column of numbers, times or durations but among themselves: dates go
    with keys that were given out one after the other, too."""
    left = {name: _ranks(codes) for name, codes in keys.items()}
    for column in columns:
        if not left:
            break
        timed = isinstance(column, Moment) and column.clock.what in ("time", "duration")
        if column.name in keys or not (timed or isinstance(column, Number)):
            continue
        other = _ranks(column.codes(table.column(column.name)))
        left = {name: own for name, own in left.items() if not _related(own, other)}
    return list(left)


def _ranks(codes: Floats) -> Floats:
    """Places of finite codes among each other, those of equal ones their mean; NaN elsewhere."""
    known = np.isfinite(codes)
    places = np.full(len(codes), np.nan)
    places[known] = mean_ranks(codes[known])
    return places


def _related(a: Floats, b: Floats) -> bool:
    """Whether the ranks of two columns go together, in the rows that have both."""
    both = np.isfinite(a) & np.isfinite(b)
    n = int(both.sum())
    if n < FEWEST_ROWS:
        return False
    a, b = a[both] - a[both].mean(), b[both] - b[both].mean()
    size = float(np.sqrt((a @ a) * (b @ b)))
    return size > 0 and abs(float(a @ b)) / size >= max(RELATED, CHANCE / np.sqrt(n))
