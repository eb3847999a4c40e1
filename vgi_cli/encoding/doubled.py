"""Rows that were entered twice: the same in all cells as an earlier one, or of a key that all others have to
themselves.

Rows that happen to be alike are none. By chance rows that agree in all columns but one are far more frequent than rows
that agree in all, wherever the other columns leave that one open; copies of rows are alike in all at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from vgi_cli.columns.base import Carried, Column, ModelledColumn
from vgi_cli.columns.number import Number
from vgi_cli.columns.numerals import Bools, Ints, value_places
from vgi_cli.columns.schema import Schema
from vgi_cli.columns.wording import capped, first_names, typed
from vgi_cli.encoding.redundant import codes_of
from vgi_cli.table.base import Table

FEWEST_ROWS, MOST_CELLS, MOST_COLUMNS = 20, 4_000_000, 200
"""Rows of a table in which it is looked for, and cells and columns at most."""
NEARLY = 4
"""So many times as many are copies as rows that agree with another one in all columns but one, whichever that is."""
SURELY = np.log(100.0)
"""Nats, beyond one for each pair of rows, that the cells of a copy say if columns were independent."""
NAMED_ROWS = 3
"""Copies that a line names."""
HARDLY_TWICE = 0.9
"""Share of the values of a key that are in one row alone, at least, where those in several are slips."""


def doubled(table: Table, schema: Schema, called: Callable[[str], bool]) -> list[str]:
    """A line on rows that are copies of others, and one on each key whose values are in one row each but for a few:
    ids, texts that are carried and whole numbers whose name is `called` that of a key."""
    if not FEWEST_ROWS <= table.N or table.N * len(schema.columns) > MOST_CELLS:
        return []
    keys = [column for column in schema.columns if column.name in schema.ids or _is_key(column, called)]
    numbered = [(key, own) for key in keys if (own := _places(table, key)) is not None and _names_rows(own)]
    keyed = np.any([own >= 0 for _, own in numbered], 0) if numbered else np.zeros(table.N, bool)
    copy_of = _copies(table, schema, keyed)
    copies = np.flatnonzero(copy_of >= 0)
    lines = [_of_copies(copies, copy_of)] if len(copies) else []
    rest = np.ones(table.N, bool)
    rest[copies] = False
    return [*lines, *capped(list(_shared(table, numbered, rest)))]


def _is_key(column: Column, called: Callable[[str], bool]) -> bool:
    key = isinstance(column, Carried) or (isinstance(column, Number) and column.whole)
    return key and column.role == "data" and called(column.name)


def _places(table: Table, column: Column) -> Ints | None:
    """[N] the number of the value of each row in a column, -1 where it is missing; None where cells cannot be told
    apart."""
    if isinstance(column, ModelledColumn):
        return value_places(codes_of(table, column))
    cells = table.column(column.name)
    return cells.distinct.places.astype(np.int64) if cells.levelled else None


def _names_rows(own: Ints) -> bool:
    """Whether most values of a column, by their number in each row [N], are in one row alone."""
    counts = np.bincount(own[own >= 0], minlength=1)
    return int((counts == 1).sum()) >= HARDLY_TWICE * max(int((counts > 0).sum()), 1)


def _copies(table: Table, schema: Schema, keyed: Bools) -> Ints:
    """[N] of each row that is a copy of an earlier one that one, -1 of others; `keyed` [N]: rows with a key."""
    none = np.full(table.N, -1)
    telling = [column for column in schema.columns if isinstance(column, ModelledColumn | Carried)]
    if not 2 <= len(telling) <= MOST_COLUMNS:
        return none
    hashes: dict[bytes, npt.NDArray[np.uint64]] = {}  # by which rows are alike: of what says the same twice once
    nats, generator = np.zeros(table.N), np.random.default_rng(0)
    for column in telling:
        own = _places(table, column)
        if own is None:
            return none
        alike = _first_of(own).tobytes()
        if alike not in hashes:
            counts = np.bincount(own[own >= 0], minlength=1)
            hashes[alike] = generator.integers(2**64, size=len(counts) + 1, dtype=np.uint64)[own]
            nats += np.where(own >= 0, -np.log(np.maximum(counts, 1)[own] / table.N), 0.0)
    first = _first_of(whole := np.stack(list(hashes.values())).sum(0))
    again = first < np.arange(table.N)
    surely = int((again & (nats >= np.log(table.N**2 / 2) + SURELY)).sum())
    nearly = sum(int(_agree(whole - own).sum() - again.sum()) for own in hashes.values()) if surely else 0
    others = nats >= np.log(table.N) if surely > NEARLY * nearly else False  # where some were, less says it of others
    return np.where(again & (keyed | others), first, -1)


def _first_of(keys: npt.NDArray[np.integer]) -> Ints:
    """[N] of each row the first one with its key."""
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    return np.asarray(first[inverse])


def _agree(keys: npt.NDArray[np.integer]) -> Bools:
    """[N] whether an earlier row has the same key."""
    return _first_of(keys) < np.arange(len(keys))


def _of_copies(copies: Ints, copy_of: Ints) -> str:
    some = [f"row {row + 1:,} as row {copy_of[row] + 1:,}" for row in copies[:NAMED_ROWS].tolist()]
    which = first_names(some) if len(copies) <= NAMED_ROWS else f"{', '.join(some)} …"
    one = len(copies) == 1
    return (
        f"{len(copies):,} row{'s' * (not one)} {'is' if one else 'are'} the same in all cells as an earlier one "
        f"({which}): if {'it was' if one else 'they were'} entered twice, remove {'it' if one else 'them'}, since "
        f"{'it counts' if one else 'they count'} twice"
    )


def _shared(table: Table, keys: Sequence[tuple[Column, Ints]], rest: Bools) -> Iterator[str]:
    """A line of each key, with the numbers of its values [N], some of which several of the rows have that are no
    copies."""
    for column, own in keys:
        rows = np.flatnonzero(rest & (own >= 0))
        counts = np.bincount(own[rows], minlength=1)
        twice, values = int((counts > 1).sum()), int((counts > 0).sum())
        if not twice or len(rows) < FEWEST_ROWS:
            continue
        first = _first_of(own[rows])
        place = int((first < np.arange(len(rows))).argmax())  # of the first row whose value an earlier one has
        earlier, later = int(rows[first[place]]), int(rows[place])
        cell = table.column(column.name).texts(np.array([earlier]))[0]
        where = f"'{cell}' in rows {earlier + 1:,} and {later + 1:,}"
        if isinstance(column, ModelledColumn):
            flags = f"`{typed('--id', column.name)}` or `{typed('--exclude', column.name)}`"
            what = f"it is modelled as a quantity ({flags} if it is a key)"
        else:
            what = "each row is filled as if by itself"
        yield (
            f"{twice:,} of the {values:,} values of '{column.name}' {'is' if twice == 1 else 'are'} in several rows "
            f"({where}), all others in one: look whether these rows are what they should be; {what}"
        )
