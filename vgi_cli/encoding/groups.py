"""Groups of rows: the visits of a patient, the patients of a clinic, the pupils of a school.

Models take rows for independent. What the rows of a group have in common is kept where the column that names the group
is one of categories; where it is carried, or taken for a quantity, it is lost, and that is said here.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from vgi_cli.columns.base import Carried
from vgi_cli.columns.levelled import MOST_NAMED, Levelled
from vgi_cli.columns.number import Number
from vgi_cli.columns.numerals import Floats
from vgi_cli.columns.schema import Schema
from vgi_cli.columns.wording import Alarm, folded, kind_flag, named, typed
from vgi_cli.table.base import Table

FEWEST_ROWS, MOST_ROWS = 20, 1_000_000
"""Rows of a table, and up to so many, in which groups are looked for."""
SO_MANY = 2
"""How many rows with the same ids are many."""
SO_ALIKE, UNEVEN = 3.0, 0.3
"""Rows of a group, on average, from which on a text that is carried may name groups, and the standard deviation of
their sizes as a share of the mean up to which it does, whether or not these are alike in anything."""
LOOKED_AT, COMPARED = 100_000, 50
"""Rows, evenly spread, and columns in which it is looked whether groups are alike."""
FEWEST_GROUPS = 10
"""Of whole numbers, which are compared with their neighbours."""
CHANCE, CHANCE_EVEN, CHANCE_BLOCKS = 1e-7, 1e-3, 0.05
"""Probability that some column shows groups that are alike where none are; of groups of nearly one size; of groups of
one size whose rows follow each other, as hardly a quantity has them."""
JUMBLED = 0.6
"""Least ratio of von Neumann of the sizes of groups of different sizes; those of a quantity change little by little."""
MOST_MISSING = 0.1
"""Share of the cells of a column of whole numbers that may be missing where it names groups."""

NAME = re.compile(
    r"(?i)(?:patient|subject|participant|person|respondent|client|customer|user|student|pupil|animal|household|site|cent"
    r"re|center|clinic|hospital|ward|doctor|physician|surgeon|therapist|school|class|teacher|village|district|plot|batch"
    r"|store|shop|company|firm|cluster|cage|litter|tank)(?:[ _.-]?(?:id|no|nr|num|number|code|key))?"
)
"""Names of columns that name groups."""

Places = npt.NDArray[np.int64]


class Alike(NamedTuple):
    """In which column the rows of a group are most alike.

    name   of that column
    icc    intraclass correlation: the share of its variance that lies between groups
    ratio  F of the analysis of variance
    means  [G] of the groups
    """

    name: str
    icc: float
    ratio: float
    means: Floats


def repeated(table: Table, schema: Schema, said: Collection[str] = ()) -> list[str]:
    """A line where rows share their ids or the names of their groups. `said`: columns whose kind the user named."""
    if not FEWEST_ROWS <= table.N <= MOST_ROWS:
        return []
    lines = [(name, line) for name, line in _numbered(table, schema, said)]
    if not schema.ids:
        return folded([*_carried(table, schema), *lines])
    ids = [table.column(name) for name in schema.ids if name in table.names]
    if ids and all(cells.levelled for cells in ids):
        keys = len(np.unique(np.stack([cells.distinct[1] for cells in ids], 1), axis=0))
        if SO_MANY * keys <= table.N:
            lines.append(
                (
                    schema.ids[0],
                    f"{table.N:,} rows have {keys:,} different values of {named('column', schema.ids)} (--id): what "
                    "rows of one have in common is not modelled, each is filled as if by itself; a table with one row "
                    "for each and its cells side by side keeps it",
                )
            )
    return folded(lines)


def _carried(table: Table, schema: Schema) -> Iterator[tuple[str, str]]:
    """Texts that are carried and name groups of rows that are alike, or of nearly one size."""
    for column in schema.columns:
        if not isinstance(column, Carried) or column.role != "data" or column.name not in table.names:
            continue
        cells = table.column(column.name)
        if not (cells.textual and cells.levelled):
            continue
        places = cells.distinct.places.astype(np.int64)
        counts = np.bincount(places[places >= 0])
        counts = counts[counts > 0]
        if len(counts) < FEWEST_ROWS or SO_MANY * len(counts) > counts.sum():
            continue
        even = counts.std() <= UNEVEN * counts.mean()
        found = alike(table, schema, column.name, places, _chance(places, counts))
        if found is None and not (even and counts.mean() >= SO_ALIKE):
            continue
        groups = f"names {len(counts):,} groups of {counts.mean():.3g} rows each on average"
        lost = "is not modelled, each is filled as if by itself"
        if found is not None:
            common = f"{_likeness(found)}: that {lost}"
        else:
            common = f"what rows of one group have in common {lost}"
        line = f"column '{column.name}' {groups}: {common} (`{typed('--id', column.name)}` if it is a key)"
        if len(counts) <= MOST_NAMED:
            line += f"; `{kind_flag(column.name, 'categorical')}` models it"
        else:
            line += "; a table with one row for each group and its cells side by side keeps it"
        yield column.name, Alarm(line) if found is not None else line


def _numbered(table: Table, schema: Schema, said: Collection[str]) -> Iterator[tuple[str, str]]:
    """Whole numbers that are modelled as quantities and work like names, since rows with the same number are alike in
    some column and rows with neighbouring numbers are not, or have a name of groups."""
    for column in schema.encoded:
        if not isinstance(column, Number) or not column.whole or column.name in said or column.notation is not None:
            continue
        values = column.codes(table.column(column.name))
        seen = ~np.isnan(values)
        if (~seen).mean() > MOST_MISSING or not seen.any() or values[seen].min() < 0:
            continue
        distinct, place = np.unique(values[seen], return_inverse=True)
        if not FEWEST_GROUPS <= len(distinct) <= seen.sum() / SO_MANY:
            continue
        places = np.full(len(values), -1, np.int64)
        places[seen] = place
        counts = np.bincount(place)
        even = counts.std() <= UNEVEN * counts.mean()
        if not even and von_neumann(np.log(counts)) < JUMBLED:
            continue
        found = alike(table, schema, column.name, places, _chance(places, counts))
        models = f"`{kind_flag(column.name, 'categorical')}` models what rows of one have in common"
        flag = models if len(distinct) <= MOST_NAMED else f"`{typed('--id', column.name)}` carries it"
        quantity = f"column '{column.name}' is modelled as a quantity, but"
        if found is not None and _unordered(found):
            likeness = f"{_likeness(found)}, and neighbouring numbers are not"
            yield column.name, Alarm(f"{quantity} its numbers work like names: {likeness}: {flag}")
        elif NAME.fullmatch(column.name) is not None:
            yield column.name, f"{quantity} its name is one of groups of rows: {flag}"


def _chance(places: Places, counts: Places) -> float:
    """How little probable likeness by chance must be, for groups of rows places [N] of such sizes."""
    if counts.std() > UNEVEN * counts.mean():
        return CHANCE
    blocks = 1 + np.count_nonzero(np.diff(places))
    return CHANCE_BLOCKS if counts.std() == 0 and blocks == len(counts) else CHANCE_EVEN


def _likeness(found: Alike) -> str:
    return f"rows of one are alike in '{found.name}' (intraclass correlation {found.icc:.2f})"


def _unordered(found: Alike) -> bool:
    """Whether the means of neighbouring groups differ as those of any two do: von Neumann's ratio is nearer to 1 than
    to what it is where they follow a smooth curve, next to the share of chance in them, 1 / F."""
    means = found.means[np.isfinite(found.means)]
    return len(means) >= FEWEST_GROUPS and von_neumann(means) > 0.5 * (1 + 1 / found.ratio)


def von_neumann(values: Floats) -> float:
    """Half the mean square difference of neighbours over the variance: 1 on average where the order says nothing, less
    where values change little by little; 0 where all are equal."""
    variance = values.var(ddof=1)
    return float(np.square(np.diff(values)).mean() / (2 * variance)) if variance > 0 else 0.0


def alike(table: Table, schema: Schema, by: str, places: Places, chance: float) -> Alike | None:
    """The column of numbers or truth values in which rows of the same group, by its number places [N] (-1: of none),
    are most alike by a one-way analysis of variance of its ranks; None where, in no column, they are more alike than
    with the probability `chance` if there were no groups."""
    from scipy.special import fdtrc  # takes a while to import

    rows = np.linspace(0, table.N - 1, min(table.N, LOOKED_AT)).astype(np.int64)
    best: Alike | None = None
    columns = [c for c in schema.encoded if c.name != by and (isinstance(c, Number) or _two(c))][:COMPARED]
    for column in columns:
        values = column.codes(table.column(column.name))[rows]
        groups = places[rows]
        seen = np.isfinite(values) & (groups >= 0)
        x, at = values[seen], groups[seen]
        x = np.searchsorted(np.sort(x), x) / max(len(x), 1)  # ranks: one far value must not decide
        count = np.bincount(at)
        used = count > 0
        G, n = int(used.sum()), len(x)
        if G < 2 or n < 2 * G:
            continue
        total = np.bincount(at, x)
        means = np.divide(total, count, out=np.full(len(count), np.nan), where=used)
        between = float((count[used] * np.square(means[used] - x.mean())).sum())
        within = float(np.square(x - means[at]).sum())
        if not within > 0:
            continue  # decided by the group: that is a relation, and no likeness
        ratio = between / (G - 1) / (within / (n - G))
        if fdtrc(G - 1, n - G, ratio) * len(columns) > chance or (best is not None and ratio <= best.ratio):
            continue
        size = (n - np.square(count).sum() / n) / (G - 1)
        several = np.where(count > 1, means, np.nan)
        best = Alike(column.name, (ratio - 1) / (ratio - 1 + size), ratio, several)
    return best


def _two(column: object) -> bool:
    return isinstance(column, Levelled) and column.level_counts == (2,)
