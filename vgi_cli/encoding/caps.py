"""Columns that are another one cut off at a value: top-coded incomes, changes below zero counted as none, a fee with a
minimum."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np

from vgi_cli.columns.caps import Beyond
from vgi_cli.columns.number import Number
from vgi_cli.columns.numerals import Floats
from vgi_cli.columns.places import evenly
from vgi_cli.columns.relations import Relation
from vgi_cli.encoding.redundant import FIRST_LOOK, MOST_NOTED
from vgi_cli.encoding.sums import CodedRows
from vgi_cli.encoding.ties import line_of

FEWEST = 5
"""Rows that have both columns, of which the other one lies beyond the value, fewest."""
SURELY = 10.0
"""Nats by which these rows must speak for it: had the cells of the first column nothing to do with the other one there,
all of them would be its greatest with a probability of less than exp(-SURELY)."""
ROWS, SEEN, FEWEST_ALIKE = 4_000, 200, 20
"""Rows beyond the value by which it is estimated how far they lie there, and that are kept, evenly spread; and that are
asked at least what they are alike by."""


class _Found(NamedTuple):
    """A relation without what lies beyond the value, and how far the other column does in all rows together."""

    names: tuple[str, str]
    how: Literal["greatest", "least"]
    cap: float
    beyond: float


def caps_among(
    every: CodedRows, settled: Collection[str], enough: Callable[[Floats, int, float], bool]
) -> Iterator[Relation]:
    """The columns of numbers that are another one, but at most (at least) some value, in all rows that have both, but
    for `settled` ones; of several others the nearest. `enough`: whether so many rows speak for what took so many
    columns and so many nats of choice."""
    names = [name for name, column in every.columns.items() if isinstance(column, Number)]
    if not 1 < len(names) <= MOST_NOTED:
        return
    codes, choice = np.ascontiguousarray(every.codes(names).T), 2 * float(np.log(len(every.columns)))
    found: dict[str, _Found] = {}
    sides: tuple[tuple[Literal["greatest", "least"], int], ...] = (("least", 1), ("greatest", -1))
    for (how, sign), (i, j) in itertools.product(sides, itertools.permutations(range(len(names)), 2)):
        few, others = sign * codes[i, :FIRST_LOOK], sign * codes[j, :FIRST_LOOK]
        if names[i] in settled or (few > others).any() or len(np.unique(few[few < others])) > 1:
            continue
        first, other = sign * codes[i], sign * codes[j]
        whole = ~(np.isnan(first) | np.isnan(other))
        y, x = first[whole], other[whole]
        cap = float(np.nanmax(first)) if len(y) else np.nan
        below, beyond = x < cap, x[x > cap] - cap
        if len(beyond) < FEWEST or not (y == np.minimum(x, cap)).all():
            continue
        if not enough(y[below], 2, choice) or -len(beyond) * np.log(np.mean(y == cap)) < SURELY:
            continue
        if names[i] not in found or beyond.sum() < found[names[i]].beyond:
            found[names[i]] = _Found((names[i], names[j]), how, sign * cap + 0.0, float(beyond.sum()))
    for names_of, how, cap, _ in found.values():
        yield Relation(names=names_of, how=how, constant=cap, beyond=_beyond(every, names_of, how, cap))


def _beyond(every: CodedRows, names: tuple[str, str], how: Literal["greatest", "least"], cap: float) -> Beyond:
    """How far the second of two columns lies beyond a value at which the first one is cut off, by the columns that say
    most of it."""
    first, other = every.codes(names).T
    apart = (other - cap) * (1 if how == "least" else -1)
    rows = np.flatnonzero((apart > 0) & ~np.isnan(first))
    rows = rows[apart[rows].argsort(kind="stable")]
    rows = rows[evenly(len(rows), ROWS)]
    columns = {names[0]: every.columns[names[0]], **every.columns}  # the one that is cut off says nothing there
    others = {name: (one, every.codes([name])[rows, 0]) for name, one in columns.items() if name != names[1]}
    line = line_of(np.log(apart[rows]), np.zeros(len(rows), bool), others)
    said = line.of(lambda name: others[name][1][None], (1, len(rows)))[0]
    known = np.flatnonzero(~np.isnan(said))
    if not line.terms or len(known) < FEWEST_ALIKE:
        return Beyond(tuple(apart[rows[evenly(len(rows), SEEN)]].tolist()))
    known = known[said[known].argsort(kind="stable")]
    known = known[evenly(len(known), SEEN)]
    return Beyond(tuple(apart[rows[known]].tolist()), line, tuple(said[known].tolist()))


def cut_off_again(relations: Sequence[Relation]) -> list[set[str]]:
    """The pairs of columns of which one is the other, cut off twice or more on one side, as some relations say."""
    caps = {one.names[0]: one for one in relations if one.capped}
    found = list[set[str]]()
    for name, cap in caps.items():
        chain = [*cap.names]
        while (above := caps.get(chain[-1])) is not None and above.how == cap.how and above.names[1] not in chain:
            chain.append(above.names[1])
            found.append({name, chain[-1]})
    return found
