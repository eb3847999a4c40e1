"""Columns that go together by their ratio or as a product, so that their logarithms go along a line: the same quantity
measured twice with an error in per cent, a total that is about a price times a number, areas and diameters.

As they are such columns scatter widely about a line where they are large, and a model that has one scatter for all
fills small ones badly; of a product no line through the factors says anything like what their logarithms do.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from vgi_cli.columns.base import Column
from vgi_cli.columns.lattice import spikes_of_logs
from vgi_cli.columns.number import Number
from vgi_cli.columns.numerals import Bools, Floats
from vgi_cli.columns.scale import Scale, codec, log_ends
from vgi_cli.encoding.straight import FEWEST, MOST, all_numbers, correlations, observed_codes, sizes, some_rows
from vgi_cli.table.base import Table

CLOSE = 0.1
"""Columns go together where the logarithms of one or two leave at most this share of the variance of another's."""
BETTER = 0.2
"""Nats a row by which a column is described better by logarithms, at the least: as by a third less of its variance."""
SLACK = 0.05
"""Nats a row by which others of its group may be described worse: as well, but for chance."""
HALF = 0.5
"""Two columns are taken in place of one where they leave at most this part of what it leaves."""
TRIED = 5
"""Pairs of columns that are looked at in the rows that have them, of those that leave least by correlations, each of
which is of other rows."""
ALIKE = 0.98
"""Correlation, squared, of two columns of which the second hardly adds to what the first says."""
KNOWN = 1e-5
"""Share of its standard deviation up to which what is left of a column is how it is written: so close lines stay."""


def proportional(table: Table, columns: Sequence[Column], rows: Bools | None) -> list[int]:
    """The places of the columns of positive numbers that are taken as logarithms, since these go together.

    The rule. A column is regressed on the one or the two others whose logarithms leave least of its logarithm. These
    are a group where they leave CLOSE at most, and where each column of it is described as well as it now is by any
    one or two others, as they are encoded now or left straight, and that one better by BETTER. What is compared is the
    mean log density of the observed values, of normal errors about the line, in the units of the data: so an error that
    is the same at small values and at large ones speaks against logarithms, and an error in per cent for them. A column
    outside of the group that is described worse beside it joins it where it is as well off by logarithms; else nothing
    of the group is changed.

    rows  [N] which rows decide; None: all
    """
    numbers = [(i, one) for i, column in enumerate(columns) if (one := all_numbers(column)) is not None]
    if not 1 < len(numbers) <= MOST:
        return []
    some = some_rows(table, rows)
    now, straight, logs = (_Form(*np.empty((2, len(some), len(numbers)))) for _ in range(3))
    able = np.zeros(len(numbers), bool)
    for j, (i, number) in enumerate(numbers):
        codes = observed_codes(table, columns[i], some)
        ends = _ends(columns[i], codes)
        able[j] = ends is not None
        now.put(j, codes, number.scale)
        straight.put(j, codes, Scale(0.0, float(sizes(codes))))
        logs.put(j, codes, number.scale if ends is None else Scale(0.0, 1.0, logs=ends))
    found = _Search(now, straight, logs, able).found() if able.sum() > 1 else set()
    return [numbers[j][0] for j in sorted(found) if numbers[j][1].scale.logs is None or numbers[j][1].scale.knots]


def _ends(column: Column, codes: Floats) -> tuple[float, float] | None:
    """Between which values the logarithms of a column are taken, of which some are observed; None where they cannot be:
    it has no ratios, values that pile up on them too, or negative ones."""
    seen = codes[np.isfinite(codes)]
    if not isinstance(column, Number) or column.heaps or len(seen) < FEWEST:
        return None
    ends = log_ends(seen, column.step, True)
    return None if ends is None or spikes_of_logs(column.spikes, seen, column.step) else ends


class _Form(NamedTuple):
    """Columns as they are encoded.

    x     [n, columns] encoded values, NaN where a cell is missing
    rise  [n, columns] log of their derivative by the value
    """

    x: Floats
    rise: Floats

    def put(self, j: int, codes: Floats, scale: Scale) -> None:
        """Encode a column of values [n]."""
        one = codec(scale)
        self.x[:, j] = one.encode(codes)
        self.rise[:, j] = one.log_det(self.x[:, j])

    def closest(self, r: Floats, j: int, among: Bools, part: float) -> tuple[tuple[int, ...], float]:
        """The other column `among` some [columns] that leaves least of a column, or the two of these, if they leave at
        most a `part` of that; and the share of the variance that is left. r: the correlations."""
        others = [k for k in np.flatnonzero(among).tolist() if k != j]
        a, b = r[j, others], r[np.ix_(others, others)]
        apart = np.triu(np.square(b) < ALIKE, 1)
        shared = np.where(apart, 1 - np.square(b), np.inf)
        said = (np.square(a[:, None]) + np.square(a) - 2 * a[:, None] * a * b) / shared
        most = np.argsort(-said, axis=None)[:TRIED].tolist()
        places = [divmod(place, len(others)) for place in most]
        tried: list[tuple[int, ...]] = [(others[int(np.square(a).argmax())],)]
        tried += [(others[i], others[k]) for i, k in places if apart[i, k]]
        left = [self._left(j, by) for by in tried]
        least = int(np.argmin(left))
        chosen = least if left[least] <= part * left[0] else 0
        return tried[chosen], left[chosen]

    def seen(self, j: int, by: Sequence[int]) -> Bools:
        """[n] which rows have a column and some others."""
        return np.asarray(np.isfinite(self.x[:, [j, *by]]).all(1))

    def density(self, j: int, by: Sequence[int], rows: Bools) -> float:
        """The mean log density of the values of a column in some rows [n] about the line through others, but for a
        constant; infinite where these all but determine it."""
        y = self.x[rows, j]
        left = self._off(j, by, rows).std()
        return float(self.rise[rows, j].mean() - np.log(left)) if left > KNOWN * y.std() else np.inf

    def _left(self, j: int, by: Sequence[int]) -> float:
        """The share of the variance of a column that others leave in the rows that have all of them; 1 of too few."""
        rows = self.seen(j, by)
        own = self.x[rows, j].var() if rows.sum() >= FEWEST else 0.0
        return float(self._off(j, by, rows).var() / own) if own > 0 else 1.0

    def _off(self, j: int, by: Sequence[int], rows: Bools) -> Floats:
        """How far the values of a column in some rows lie from the line through others."""
        y, x = self.x[rows, j], self.x[rows][:, list(by)]
        y, x = y - y.mean(), x - x.mean(0)
        return np.asarray(y - x @ np.linalg.lstsq(x, y, rcond=None)[0])


class _Search:
    """The search for columns that are taken as logarithms, by how they are encoded `now`, left as they are and as
    logarithms; `able` [columns]: of which there are some."""

    def __init__(self, now: _Form, straight: _Form, logs: _Form, able: Bools) -> None:
        self.now, self.straight, self.logs, self.able = now, straight, logs, able
        self.r_now, self.r_logs = correlations(now.x), correlations(logs.x)
        self.best = cache(self._best)

    def found(self) -> set[int]:
        """The places of the columns."""
        found = set[int]()
        for j in np.flatnonzero(self.able).tolist():
            by, left = self.logs.closest(self.r_logs, j, self.able, HALF)
            if j in found or left > CLOSE or not self._gain(j, by) >= BETTER:
                continue
            group = {j, *by}
            if all(self._gain(k, sorted(group - {k})) >= -SLACK for k in by):
                found = self._settled(found | group) or found
        return found

    def _best(self, j: int) -> tuple[int, ...]:
        """The others that now say most of a column."""
        return self.now.closest(self.r_now, j, np.ones_like(self.able), 1.0)[0]

    def _gain(self, j: int, by: Sequence[int]) -> float:
        """Nats a row by which the logarithms of some others describe a column better than any others now do, or would
        if nothing was bent."""
        other = self.best(j)
        rows = self.logs.seen(j, by) & self.now.seen(j, other)
        if rows.sum() < FEWEST:
            return -np.inf
        forms = (self.now, self.straight)
        return self.logs.density(j, by, rows) - max(form.density(j, one, rows) for form in forms for one in (by, other))

    def _settled(self, found: set[int]) -> set[int] | None:
        """Some columns, and those that are described worse by BETTER as they are beside the logarithms of these, but as
        well by their own. None where another one is."""
        settled = set(found)
        while losing := self._losing(settled):
            among = np.isin(np.arange(len(self.able)), sorted(settled))
            for j in losing:
                if not (self.able[j] and self._gain(j, self.logs.closest(self.r_logs, j, among, HALF)[0]) >= -SLACK):
                    return None
            settled.update(losing)
        return settled

    def _losing(self, found: set[int]) -> list[int]:
        """The other columns that are described worse by BETTER where some are logarithms."""
        taken = np.isin(np.arange(len(self.able)), sorted(found))
        mixed = _Form(np.where(taken, self.logs.x, self.now.x), self.now.rise)
        losing = []
        for j in np.flatnonzero(~taken).tolist():
            by = self.best(j)
            rows = self.now.seen(j, by)
            if taken[list(by)].any() and rows.sum() >= FEWEST:
                worse = self.now.density(j, by, rows) - mixed.density(j, by, rows)
                losing += [j] * (worse > BETTER)
        return losing
