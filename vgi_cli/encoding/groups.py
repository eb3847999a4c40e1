"""Groups of rows: the visits of a patient, the patients of a clinic, the pupils of a school.

Models take rows for independent. What the rows of a group have in common is kept where the column that names the group
is one of categories; where it is carried, or taken for a quantity, it is lost, and that is said here.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from vgi_cli.columns.base import Carried
from vgi_cli.columns.levelled import MOST_NAMED, Levelled
from vgi_cli.columns.lookups import Lookup
from vgi_cli.columns.notation import quantities
from vgi_cli.columns.number import Number
from vgi_cli.columns.numerals import Floats
from vgi_cli.columns.places import evenly
from vgi_cli.columns.schema import Schema
from vgi_cli.columns.wording import Alarm, first_names, folded, kind_flag, named, typed
from vgi_cli.table.base import Table

FEWEST_ROWS, MOST_ROWS = 20, 1_000_000
"""Rows of a table, and up to so many, in which groups are looked for."""
SO_MANY = 2
"""How many rows with the same ids are many."""
SO_ALIKE, UNEVEN = 3.0, 0.3
"""Rows of a group, on average, from which on a text that is carried may name groups, and the standard deviation of
their sizes as a share of the mean up to which it does, whether or not these are alike in anything."""
LOOKED_AT, COMPARED = 50_000, 50
"""Rows, and columns, in which it is looked whether groups are alike; so many columns may name some."""
RANKED = 20_000
"""Cells, every so many, among which a cell has its rank."""
MANY_GROUPS = 1_000
"""Of so many groups some with all their rows are looked at, of fewer evenly spread rows."""
FEWEST_GROUPS = 10
"""Of whole numbers, which are compared with their neighbours; fewer with a curve. Of one of several columns of ids."""
FEWEST_CODES, OFF_CURVE, OF_ALL, CHANCE_CODES = 4, 0.3, 0.05, 1e-5
"""Least number of values that may be codes; what a parabola leaves of the variance between their means, at least, as a
share of it and of the whole variance; and the probability of that where there is such a curve, in some column."""
CHANCE_STEPS = 1e-3
"""The probability that means which only go up, or only down, leave so much, in some column; so with means of counts
that follow a parabola but for that of none."""
CHANCE, CHANCE_EVEN, CHANCE_BLOCKS = 1e-7, 1e-3, 0.05
"""Probability that some column shows groups that are alike where none are; of groups of nearly one size; of groups of
one size whose rows follow each other, as hardly a quantity has them."""
JUMBLED = 0.6
"""Least ratio of von Neumann of the sizes of groups of different sizes; those of a quantity change little by little."""
REGRESSED, MOST_TERMS, TERMS_A_GROUP = 10_000, 20, 2
"""Rows, and levels of a column, up to which it is asked whether other columns explain what rows of a group have in
common; the number of groups is so many times that of the terms at least."""
DECIDED = 0.02
"""Least share of the variance within groups of a column that these do not decide."""
MOST_MISSING = 0.3
"""Share of the cells of a column of whole numbers that may be missing where it names groups."""
HEAPED, OF_CELLS = 5, 0.05
"""A value of so many times the cells that the values of its column have in the middle, and of this share of all cells,
piles up: what such rows have in common is no evidence of names."""
APART = 1.1
"""So many times as many subjects as values, at least, where a number is the same in all rows of each subject: names of
subjects name them one by one."""
SINGLE = 0.5
"""Share of the values of a number that belong to one key alone, from which on it is no name beside that of the key."""
ROWS_EACH = 1.5
"""Rows of such a subject, on average, at least."""
STRETCH = 500
"""Rows of a large table that follow each other, of those that are looked at."""
CURVED = 0.3
"""Ratio of von Neumann of the means of another column below which these follow a curve along the numbers."""
COUNTED = 0.95
"""Share of the numbers from 1 on that occur in an enumeration."""

NAME = re.compile(
    r"(?i)(?:patient|subject|participant|person|respondent|client|customer|user|student|pupil|animal|household|site|cent"
    r"re|center|clinic|hospital|ward|doctor|physician|surgeon|therapist|school|class|teacher|village|district|plot|batch"
    r"|store|shop|company|firm|cluster|cage|litter|tank)(?:[ _.-]?(?:id|no|nr|num|number|code|key))?"
)
"""Names of columns that name groups."""

Places = npt.NDArray[np.int64]


class Alike(NamedTuple):
    """How alike the rows of a group are in a column: an analysis of variance of its ranks, one way.

    name     of the column
    means    [G] of the groups, NaN without a row
    counts   [G] their rows
    between  sum of squares between groups
    error    mean square within them
    """

    name: str
    means: Floats
    counts: Places
    between: float
    error: float

    @property
    def free(self) -> tuple[int, int]:
        """Degrees of freedom between groups and within."""
        groups = int((self.counts > 0).sum())
        return groups - 1, int(self.counts.sum()) - groups

    @property
    def ratio(self) -> float:
        """F."""
        return self.between / self.free[0] / self.error

    @property
    def p(self) -> float:
        """The probability of such an F, or a larger one, without groups."""
        return _tail(*self.free, self.ratio)

    @property
    def icc(self) -> float:
        """Intraclass correlation: the share of the variance that lies between groups."""
        n = self.counts.sum()
        size = (n - np.square(self.counts).sum() / n) / self.free[0]
        return float((self.ratio - 1) / (self.ratio - 1 + size))

    def off_curve(self, *, first_apart: bool = False) -> tuple[float, float, float]:
        """What a parabola along the numbers of groups leaves of the variance between them: as a share of it, and of the
        whole variance; and the probability of that, or more, where their means follow one. `first_apart`: but for the
        first mean, which may lie anywhere."""
        used = self.counts > 0
        weight = np.sqrt(self.counts[used])
        curve = np.vander(np.linspace(-1.0, 1.0, len(used))[used], 3)
        if first_apart:
            curve = np.column_stack([curve, np.arange(len(curve)) == 0])
        curve, y = curve * weight[:, None], self.means[used] * weight
        return self._off(curve @ np.linalg.lstsq(curve, y, rcond=None)[0] / weight, curve.shape[1])

    def off_monotone(self) -> tuple[float, float, float]:
        """The same of means that only go up with the numbers of groups, or only down, by any steps; the probability is
        at most that."""
        used = self.counts > 0
        means, counts = self.means[used], self.counts[used]
        return min(self._off(sign * isotonic(sign * means, counts), 1) for sign in (1, -1))

    def _off(self, fitted: Floats, terms: int) -> tuple[float, float, float]:
        """The same of the means [groups with rows] of a curve with so many terms."""
        between, within = self.free
        free, used = between + 1 - terms, self.counts > 0
        if free < 1 or not self.between > 0:
            return 0.0, 0.0, 1.0
        left = float((self.counts[used] * np.square(self.means[used] - fitted)).sum())
        whole = self.between + within * self.error
        return left / self.between, left / whole, _tail(free, within, left / free / self.error)


def isotonic(means: Floats, counts: Places) -> Floats:
    """The means [G] nearest to these, by least squares with so many rows each [G], that do not go down."""
    totals, rows = np.append(0.0, np.cumsum(counts * means)), np.append(0, np.cumsum(counts))
    start, end = np.arange(len(means))[:, None], np.arange(len(means))
    runs = (totals[1:] - totals[start]) / np.maximum(rows[1:] - rows[start], 1)
    least = np.minimum.accumulate(np.where(start <= end, runs, np.inf)[:, ::-1], 1)[:, ::-1]  # from one group on
    return np.asarray(np.maximum.accumulate(least, 0)[end, end])


def _tail(between: int, within: int, ratio: float) -> float:
    """The probability of such a ratio of mean squares, or a larger one, by chance."""
    from scipy.special import fdtrc  # takes a while to import

    return float(fdtrc(between, within, ratio))


def repeated(ranked: Ranked) -> list[str]:
    """A line where rows share their ids or the names of their groups, and where whole numbers work like names or
    codes."""
    table, schema = ranked.table, ranked.schema
    if not FEWEST_ROWS <= table.N <= MOST_ROWS:
        return []
    numbered = [*ranked.numbered.items(), *ranked.coded.items()]
    if not schema.ids:
        return folded([*_carried(ranked), *numbered])
    lines = []
    if (found := shared_ids(table, schema.ids, schema.lookups)) is not None:
        names, keys = found
        line = (
            f"{table.N:,} rows have {keys:,} different values of {named('column', names)} (--id): "
            f"{_lost(schema, 'one', names)}; a table with one row for each and its cells side by side keeps it"
        )
        lines.append((names[0], line))
    return folded([*lines, *numbered])


def shared_ids(table: Table, ids: Sequence[str], lookups: Sequence[Lookup] = ()) -> tuple[Sequence[str], int] | None:
    """The ids that many rows share, and how many different ones there are: all columns of ids together; else those of
    a part of them, where these are no few names of large parts of the table: from which most columns follow (the region
    of a country, in a table of countries and years), by the `lookups` of a schema, or else with the most different ones
    (the firms of a table of firms and years, the patients of one of sites, patients and visits). None where rows share
    none."""
    names = [name for name in ids if name in table.names and table.column(name).levelled]
    if not names:
        return None

    def keys(some: Sequence[str]) -> int:
        places = np.stack([table.column(name).distinct.places for name in some], 1)
        known = ~np.stack([table.missing(name) for name in some], 1).any(1)
        return len(np.unique(places[known], axis=0))

    def follow(some: Sequence[str]) -> int:
        return len({one.name for one in lookups if one.by in some})

    if len(names) == len(ids) and 0 < SO_MANY * (count := keys(names)) <= table.N:
        return names, count
    parts = [[name] for name in names] + [[one for one in names if one != name] for name in names]
    counts = [(part, keys(part)) for part in parts if 0 < len(part) < len(ids)]
    able = [(part, count) for part, count in counts if count >= FEWEST_GROUPS and SO_MANY * count <= table.N]
    return max(able, key=lambda found: (follow(found[0]), found[1]), default=None)


class Ranked:
    """A table whose columns of numbers and truth values are compared by the ranks of their cells: one far value must
    not decide. `said`: columns whose kind the user named."""

    def __init__(self, table: Table, schema: Schema, said: Collection[str] = ()) -> None:
        self.table, self.schema, self._said = table, schema, said

    @cached_property
    def columns(self) -> list[tuple[str, npt.NDArray[np.float32]]]:
        """Name and ranks [N], from 0 to 1, NaN of a missing cell, of the first columns."""
        out = []
        for column in [c for c in self.schema.encoded if isinstance(c, Number) or _two(c)][: COMPARED + 1]:
            values = column.codes(self.table.column(column.name))
            seen = values[np.isfinite(values)]
            some = np.sort(seen[:: len(seen) // RANKED + 1])
            ranks = (np.searchsorted(some, values) / max(len(some), 1)).astype(np.float32)
            ranks[~np.isfinite(values)] = np.nan
            out.append((column.name, ranks))
        return out

    @cached_property
    def coded(self) -> dict[str, str]:
        """A line of each column of few whole numbers that is modelled as a quantity and works like codes: the means of
        another column by them follow no curve."""
        lines: dict[str, str] = {}
        if not FEWEST_ROWS <= self.table.N <= MOST_ROWS:
            return lines
        for column, places, distinct in self.whole_numbers():
            few, counts = len(distinct) < FEWEST_GROUPS, bool(distinct[0] == 0)
            if few and (found := like_codes(self, column.name, places, counts=counts)) is not None:
                line = f"the means of '{found.name}' by them follow no curve"
                flag = f"`{kind_flag(column.name, 'categorical')}` models levels without an order"
                what = f"column '{column.name}' is modelled as a quantity, but its numbers work like codes"
                lines[column.name] = Alarm(f"{what}: {line}: {flag}")
        return lines

    @cached_property
    def numbered(self) -> dict[str, str]:
        """A line of each column of whole numbers that is modelled as a quantity and works like names."""
        if not FEWEST_ROWS <= self.table.N <= MOST_ROWS:
            return {}
        return dict(_numbered(self))

    def whole_numbers(self) -> Iterator[tuple[Number, Places, Floats]]:
        """Columns of whole numbers that may be names: with the number of the value of each row [N], -1 where it has
        none, and the values in order."""
        numbers = [c for c in self.schema.encoded if isinstance(c, Number) and c.whole and c.notation is None]
        for column in [c for c in numbers if c.name not in self._said][:COMPARED]:
            values = column.codes(self.table.column(column.name))
            seen = ~np.isnan(values)
            if not seen.any() or values[seen].min() < 0:
                continue
            distinct, place = np.unique(values[seen], return_inverse=True)
            if FEWEST_CODES <= len(distinct) <= seen.sum() / SO_MANY:
                places = np.full(len(values), -1, np.int64)
                places[seen] = place
                yield column, places, distinct


def _carried(ranked: Ranked) -> Iterator[tuple[str, str]]:
    """Texts that are carried and name groups of rows that are alike, or of nearly one size; measurements name none,
    but where their rows follow each other (the room of each patient: `3/12`)."""
    table = ranked.table
    for column in ranked.schema.columns:
        if not isinstance(column, Carried) or column.role != "data" or column.name not in table.names:
            continue
        cells = table.column(column.name)
        if not (cells.textual and cells.levelled):
            continue
        texts, places = cells.distinct
        counts = np.bincount(places[places >= 0])
        held = np.flatnonzero(counts)
        counts = counts[held]
        if len(counts) < FEWEST_ROWS or SO_MANY * len(counts) > counts.sum():
            continue
        even = counts.std() <= UNEVEN * counts.mean()
        apart = not even or _blocks(places) > len(counts)
        if apart and quantities([texts[i] for i in held[:LOOKED_AT].tolist()]):
            continue
        chance = _chance(places, counts)
        found = alike(ranked, column.name, places, chance)
        if found is not None and _explained(ranked, column.name, places, found, chance):
            found = None
        if found is None and not (even and counts.mean() >= SO_ALIKE):
            continue
        groups = f"names {len(counts):,} groups of {counts.mean():.3g} rows each on average"
        if found is not None:
            common = f"{_likeness(found)}: that is not modelled, each is filled as if by itself"
        else:
            common = _lost(ranked.schema, "one group", [column.name])
        line = f"column '{column.name}' {groups}: {common} (`{typed('--id', column.name)}` if it is a key)"
        if len(counts) <= MOST_NAMED:
            line += f"; `{kind_flag(column.name, 'categorical')}` models it"
        else:
            line += "; a table with one row for each group and its cells side by side keeps it"
        yield column.name, Alarm(line) if found is not None else line


def _lost(schema: Schema, group: str, keys: Sequence[str]) -> str:
    """What becomes of what rows of a group have in common, but for what follows from one of some columns of `keys`."""
    told = [one for one in schema.lookups if one.by in keys]
    follow = first_names(list(dict.fromkeys(f"'{one.name}'" for one in told)))
    by = first_names(list(dict.fromkeys(f"'{one.by}'" for one in told)))
    but = f"but for {follow}, which follow{'s' * (len(told) == 1)} from {by}, " if told else ""
    return f"{but}what rows of {group} have in common is not modelled, each is filled as if by itself"


def _numbered(ranked: Ranked) -> Iterator[tuple[str, str]]:
    """Whole numbers that are modelled as quantities and work like names (`_names`), since rows with the same number are
    alike in some column and rows with neighbouring numbers are not, or have a name of groups."""
    for column, places, distinct in ranked.whole_numbers():
        if len(distinct) < FEWEST_GROUPS or (places < 0).mean() > MOST_MISSING:
            continue
        counts = np.bincount(places[places >= 0])
        even = counts.std() <= UNEVEN * counts.mean()
        if not even and von_neumann(np.log(counts)) < JUMBLED:
            continue
        found = alike(ranked, column.name, places, _chance(places, counts))
        if found is not None and not (_unordered(found) and _names(ranked, column.name, places, distinct)):
            found = None
        if found is not None and _of_a_key(ranked.schema, column.name):
            found = None
        models = f"`{kind_flag(column.name, 'categorical')}` models what rows of one have in common"
        flag = models if len(distinct) <= MOST_NAMED else f"`{typed('--id', column.name)}` carries it"
        quantity = f"column '{column.name}' is modelled as a quantity, but"
        if found is not None:
            likeness = f"{_likeness(found)}, and neighbouring numbers are not"
            yield column.name, Alarm(f"{quantity} its numbers work like names: {likeness}: {flag}")
        elif NAME.fullmatch(column.name) is not None:
            yield column.name, f"{quantity} its name is one of groups of rows: {flag}"


def _of_a_key(schema: Schema, name: str) -> bool:
    """Whether a number follows from a key or a level, most of its values from one alone: the size of a school, which
    has its name already. The doctors of patients have several each."""
    every = [one.coding for one in schema.relations if one.how in ("levels", "groups") and one.names[0] == name]
    every += [np.array(one.codes) for one in schema.lookups if one.name == name]
    return any((np.unique(codes, return_counts=True)[1] == 1).mean() >= SINGLE for codes in every)


def _names(ranked: Ranked, by: str, places: Places, distinct: Floats) -> bool:
    """Whether numbers (places [N], of values distinct [G]) are names by more than that rows of one are alike, as it is
    of a quantity too that is the same in all rows of a subject (its age), that piles up at a value (all are followed up
    to the end), or that goes along with another column in a curve.

    Subjects are runs of rows with the same number, or what another column names that decides it. Where there are more
    of them than numbers, and these are no enumeration from 1 on, subjects of one number have to be alike too.
    """
    rest = _without_heaps(_some(places))
    if not _still_alike(ranked, by, rest):
        return False
    known = np.flatnonzero(rest >= 0)
    runs = np.full(len(rest), -1)
    runs[known] = np.cumsum(np.diff(rest[known], prepend=-1) != 0) - 1
    used = len(np.unique(rest[known]))
    curved = (one for one in analyses(ranked, by, places) if one.p <= CHANCE)
    if runs.max() + 1 > APART * used and any(von_neumann(one.means[one.counts > 1]) < CURVED for one in curved):
        return False
    if distinct[0] == 1 and len(distinct) >= COUNTED * distinct[-1]:
        return True
    subjects = [runs, *_keys(ranked, by, rest)]
    apart = [one for one in subjects if APART * used < one.max() + 1 <= len(known) / ROWS_EACH]
    return all(_still_alike(ranked, by, rest, one) for one in apart)


def _some(places: Places) -> Places:
    """Numbers of values [N], -1 of most rows of a large table: all rows of some values stay, or stretches of rows."""
    N, G = len(places), int(places.max()) + 1
    if N <= LOOKED_AT:
        return places
    if G >= MANY_GROUPS:
        return np.where(places < G * LOOKED_AT // N, places, -1)
    starts = np.linspace(0, N - STRETCH, LOOKED_AT // STRETCH).astype(np.int64)
    rows = (starts[:, None] + np.arange(STRETCH)).reshape(-1)
    out = np.full(N, -1)
    out[rows] = places[rows]
    return out


def _without_heaps(places: Places) -> Places:
    """Numbers of values [N], -1 where these pile up."""
    counts = np.bincount(places[places >= 0])
    heaped = (counts > HEAPED * np.median(counts)) & (counts > OF_CELLS * counts.sum())
    return np.where((places >= 0) & heaped[places], -1, places)


def _keys(ranked: Ranked, by: str, places: Places) -> Iterator[Places]:
    """Of columns that name subjects, each of which has one number of those [N] of a column, the numbers of subjects
    [N], -1 of none."""
    table = ranked.table
    for name in table.names[: COMPARED + 1]:
        cells = table.column(name)
        if name == by or not cells.levelled:
            continue
        own = np.where(cells.missing | (places < 0), -1, cells.distinct.places)
        known = np.flatnonzero(own >= 0)
        if not len(known):
            continue
        _, subject = np.unique(own[known], return_inverse=True)
        last = np.zeros(int(subject.max()) + 1, np.int64)
        last[subject] = places[known]
        if (last[subject] == places[known]).all():
            out = np.full(len(places), -1)
            out[known] = subject
            yield out


def _still_alike(ranked: Ranked, by: str, places: Places, subjects: Places | None = None) -> bool:
    """Whether rows of one number (places [N]) are alike, and neighbouring numbers are not; of rows the means of
    `subjects` [N], where these are given."""
    rows = np.flatnonzero(places >= 0 if subjects is None else (places >= 0) & (subjects >= 0))
    if not len(rows):
        return False
    used, group = np.unique(places[rows], return_inverse=True)
    unit = np.arange(len(rows)) if subjects is None else np.unique(subjects[rows], return_inverse=True)[1]
    of = np.zeros(int(unit.max()) + 1, np.int64)
    of[unit] = group
    found = []
    for name, ranks in ranked.columns:
        if name == by:
            continue
        x, seen = ranks[rows].astype(np.float64), np.isfinite(ranks[rows])
        held = np.bincount(unit[seen], minlength=len(of))
        total = np.bincount(unit[seen], x[seen], minlength=len(of))
        means = np.divide(total, held, out=np.full(len(of), np.nan), where=held > 0)
        if (one := _analysis(name, means, of, len(used))) is not None:
            found.append(one)
    counts = np.bincount(of)
    chance = _chance(of, counts)
    return any(one.p * len(found) <= chance and _unordered(one) for one in found)


def _chance(places: Places, counts: Places) -> float:
    """How little probable likeness by chance must be, for groups of rows places [N] of such sizes."""
    if counts.std() > UNEVEN * counts.mean():
        return CHANCE
    return CHANCE_BLOCKS if counts.std() == 0 and _blocks(places) == len(counts) else CHANCE_EVEN


def _blocks(places: Places) -> int:
    """In how many runs of rows of one group the rows stand."""
    return 1 + int(np.count_nonzero(np.diff(places)))


def _likeness(found: Alike) -> str:
    return f"rows of one are alike in '{found.name}' (intraclass correlation {found.icc:.2f})"


def _unordered(found: Alike) -> bool:
    """Whether the means of neighbouring groups differ as those of any two do: von Neumann's ratio is nearer to 1 than
    to what it is where they follow a smooth curve, next to the share of chance in them, 1 / F."""
    means = found.means[found.counts > 1]
    return len(means) >= FEWEST_GROUPS and von_neumann(means) > 0.5 * (1 + 1 / found.ratio)


def von_neumann(values: Floats) -> float:
    """Half the mean square difference of neighbours over the variance: 1 on average where the order says nothing, less
    where values change little by little; 0 where all are equal."""
    variance = values.var(ddof=1)
    return float(np.square(np.diff(values)).mean() / (2 * variance)) if variance > 0 else 0.0


def alike(ranked: Ranked, by: str, places: Places, chance: float) -> Alike | None:
    """The column of numbers or truth values in which rows of the same group, by its number places [N] (-1: of none),
    are most alike; None where, in no column, they are more alike than with the probability `chance` without groups."""
    found = analyses(ranked, by, places)
    able = [one for one in found if one.p * len(found) <= chance]
    return max(able, key=lambda one: one.ratio, default=None)


def _explained(ranked: Ranked, by: str, places: Places, found: Alike, chance: float) -> bool:
    """Whether rows of the same group are alike in a column by what the other modelled columns of the row say of it:
    what a linear regression on these leaves is not alike, on the values of those that follow from the group, too. Only
    asked of small tables with more groups than terms by far, where the terms cannot stand for the groups."""
    if len(places) > REGRESSED:
        return False
    own = dict(ranked.columns)[found.name].astype(np.float64)
    terms = [np.ones((len(own), 1))]
    for name, ranks in ranked.columns:
        if name not in (by, found.name):
            terms += [_terms(ranks), _levels_of(ranks, places)]
    for column in ranked.schema.encoded:
        if isinstance(column, Levelled) and not _two(column) and len(list(column.levels)) <= MOST_TERMS:
            codes = column.codes(ranked.table.column(column.name))
            terms.append((codes[:, None] == np.arange(len(list(column.levels)))).astype(np.float64))
    x, seen = np.concatenate(terms, 1), np.isfinite(own)
    if TERMS_A_GROUP * x.shape[1] > (found.counts > 0).sum():
        return False
    left = np.full(len(own), np.nan)
    left[seen] = own[seen] - x[seen] @ np.linalg.lstsq(x[seen], own[seen], rcond=None)[0]
    rest = _analysis(found.name, left, places, len(found.counts))
    return rest is not None and rest.p > chance


def _terms(ranks: npt.NDArray[np.float32]) -> Floats:
    """[N, 3] what a column of ranks [N] gives a regression: a parabola, and where a cell is missing."""
    missing = np.isnan(ranks)
    x = np.where(missing, 0.0, ranks - 0.5).astype(np.float64)
    return np.stack([x, x**2, missing.astype(np.float64)], 1)


def _levels_of(ranks: npt.NDArray[np.float32], places: Places) -> Floats:
    """[N, values] which value a cell is of a column of ranks [N] of which each group, by its number places [N], has one
    (the dose of a well), however the others go along with it; none of a column of many values, or of several each."""
    known = np.flatnonzero(np.isfinite(ranks) & (places >= 0))
    values, value = np.unique(ranks[known], return_inverse=True)
    last = np.full(int(places.max()) + 1, -1)
    last[places[known]] = value
    if len(values) > MOST_TERMS or (last[places[known]] != value).any():
        return np.zeros((len(ranks), 0))
    return np.asarray(ranks[:, None] == values, np.float64)


def like_codes(ranked: Ranked, by: str, places: Places, *, counts: bool) -> Alike | None:
    """The column whose means by the values of another one are farthest from a curve, and do not just go up or down by
    steps; None where none are far. `counts`: the values begin with 0, as counts do, and what holds of none may differ
    from what holds of some."""
    analysed, able = analyses(ranked, by, places), []
    for one in analysed:
        off, share, p = one.off_curve()
        steps = [one.off_monotone(), *([one.off_curve(first_apart=True)] if counts else [])]
        sure = p * len(analysed) <= CHANCE_CODES and off > OFF_CURVE and share > OF_ALL
        if sure and all(rest > OF_ALL and q * len(analysed) <= CHANCE_STEPS for _, rest, q in steps):
            able.append((share, one))
    return max(able, key=lambda pair: pair[0], default=(0.0, None))[1]


def analyses(ranked: Ranked, by: str, places: Places) -> list[Alike]:
    """Of all columns but `by` and those that it all but decides: a clinic has one town, and that says nothing of its
    patients."""
    N, G = len(places), int(places.max()) + 1
    rows: Places | slice = slice(None)
    if N > LOOKED_AT and G >= MANY_GROUPS:
        rows = np.flatnonzero(places < G * LOOKED_AT // N)
    elif N > LOOKED_AT:
        rows = evenly(N, LOOKED_AT)
    groups, out = places[rows], []
    for name, ranks in ranked.columns:
        if name != by and (one := _analysis(name, ranks[rows].astype(np.float64), groups, G)) is not None:
            out.append(one)
    return out


def _analysis(name: str, x: Floats, groups: Places, G: int) -> Alike | None:
    """Of values [N] of a column in G groups [N]; None where these are too small, or all but decide it."""
    seen = np.isfinite(x) & (groups >= 0)
    x, at = x[seen], groups[seen]
    counts = np.bincount(at, minlength=G)
    used = counts > 0
    if used.sum() < 2 or len(x) < SO_MANY * used.sum():
        return None
    means = np.divide(np.bincount(at, x, minlength=G), counts, out=np.full(G, np.nan), where=used)
    within = float(np.square(x - means[at]).sum())
    between = float((counts[used] * np.square(means[used] - x.mean())).sum())
    if within <= DECIDED * (within + between):
        return None
    return Alike(name, means, counts, between, within / (len(x) - int(used.sum())))


def _two(column: object) -> bool:
    return isinstance(column, Levelled) and column.level_counts == (2,)
