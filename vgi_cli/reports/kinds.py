"""Does a column look as if its kind were wrong: a key, a code, a mark for missing cells, numbers as categories?"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from vgi_cli.columns.base import ModelledColumn
from vgi_cli.columns.levelled import Levelled, number_of
from vgi_cli.columns.number import Number
from vgi_cli.columns.numerals import Bools, Floats, Ints, plain
from vgi_cli.encoding.shuffled import fills_its_range
from vgi_cli.encoding.spellings import NINES

FEWEST_ROWS = 30
"""Observed cells from which on a column is judged."""
MOST_CODES, CELLS_A_CODE = 60, 4
"""Different whole numbers of a column that may be a code, at most, and cells of a number from which on it is looked
at."""
CODE_GAIN = 0.25
"""What a column explains of another one as labels beyond what it explains as a quantity (a cubic, or the mean of the
values next to each), as a share of that column's variance: from here on it is called a code."""
CHANCE = 4.0
"""Standard deviations of the adjusted share that L labels explain of n cells by chance, sqrt(2 (L - 1)) / (n - L), that
are taken off: there may be hundreds of other columns to be explained, and few rows."""
ALIKE = 1e-9
"""Gains of two columns that differ by less are the same but for rounding: the first of these is named."""
NARROW = 1e-6
"""Share of a column's variance that the cells have which are looked at, from which on sums over the whole column are
exact enough."""
TOGETHER = 1 << 22
"""Cells of other columns that are looked at together, at most."""
MANY_LEVELS = 15
"""Levels that are all numbers, from which on categories without an order are called wrong."""


CELLS_A_VALUE, FEWEST_HELD, MOST_HELD = 10, 3, 0.95
"""A column has few values that nearly all repeat, as list prices do, where it has so many cells for each of them, and
values that so many cells hold have this share of its cells."""
KEY = "its values number the rows: a key, which nothing can predict"
PREDICTED = 0.5
"""Skill of hidden cells from which on a column is none: a rank that follows from times numbers the rows, too."""


class Suspicions(NamedTuple):
    """Of each column why its kind may be wrong, in words; None: nothing says so. `whole`: whether there was time for
    all."""

    found: list[str | None]
    whole: bool


def suspicions(
    columns: Sequence[ModelledColumn],
    codes: Floats,
    numeric: Bools,
    values: Iterable[Floats],
    go_on: Callable[[float], bool] = lambda share: True,
    told: Collection[str] = (),
) -> Suspicions:
    """Why the kinds of columns may be wrong.

    codes    [n, columns] of some rows, NaN at a hole
    numeric  [columns] which hold numbers
    values   of each column the observed codes in all rows
    go_on    is told the share that is done, and says whether there is time for more
    told     columns whose cells other columns determine, so that none of their values stands for missing
    """
    found: list[str | None] = []
    perhaps = []
    for column, own in zip(columns, values, strict=True):
        found.append(_alone(column, own, column.name in told))
        if found[-1] is None and isinstance(column, Number) and column.whole and len(own) >= FEWEST_ROWS:
            perhaps.append(len(found) - 1)
    explained, whole = _explained_as_labels(perhaps, codes, numeric, go_on)
    for place, other in explained.items():
        name = columns[other].name
        found[place] = f"as labels its values explain '{name}', as a quantity they do not: perhaps a code"
    return Suspicions(found, whole)


def unless_predicted(suspicion: str | None, skill: float | None) -> str | None:
    """A suspicion, but not that of a key of a column whose hidden cells the fit predicts with such a skill."""
    return None if suspicion == KEY and skill is not None and skill >= PREDICTED else suspicion


def _alone(column: ModelledColumn, values: Floats, explained: bool) -> str | None:
    """What a column says of its kind without the others (but for whether these determine it); `values`: its observed
    codes."""
    if len(values) < FEWEST_ROWS:
        return None
    if isinstance(column, Levelled):
        numbers = [number_of(text) for text in column.texts]
        if not column.ordered and len(numbers) >= MANY_LEVELS and all(number is not None for number in numbers):
            return f"its {len(numbers)} categories are all numbers, of which the model sees neither order nor distance"
        return None
    if not isinstance(column, Number):
        return None
    if column.whole and fills_its_range(values):
        return KEY
    if not explained and (mark := _mark(values)) is not None:
        return f"{plain(mark)} stands far from all other values and is repeated: perhaps a mark for missing cells"
    return None


def _mark(values: Floats) -> float | None:
    """A value that two cells or more hold, at least three times the range of all others away from them. Of few values
    that nearly all repeat one may well be far away: there only one that is written as such marks are."""
    distinct, counts = np.unique(values, return_counts=True)
    if len(distinct) < 4:
        return None
    held = counts[counts >= FEWEST_HELD].sum() >= MOST_HELD * counts.sum()
    listed = held and CELLS_A_VALUE * len(distinct) <= counts.sum()
    for end, rest in ((0, distinct[1:]), (-1, distinct[:-1])):
        gap = abs(distinct[end] - rest[0 if end == 0 else -1])
        value = float(distinct[end])
        usual = listed and value > 0 and NINES.fullmatch(plain(value)) is None
        if counts[end] >= 2 and gap > 3 * (rest[-1] - rest[0]) and not usual:
            return value
    return None


class _Labels(NamedTuple):
    """The few whole numbers of a column as labels: `values` [L] ascending, and `rows` [L, n], a sparse matrix of 1
    where a row has the label."""

    values: Floats
    rows: Any


def _labels(own: Floats) -> _Labels | None:
    """The labels of a column's codes [n], NaN at a hole; None: they are too few, or too many."""
    from scipy import sparse

    known = np.flatnonzero(np.isfinite(own))
    values, places = np.unique(own[known], return_inverse=True)
    if not 4 <= len(values) <= MOST_CODES:
        return None
    shape = len(values), len(own)
    return _Labels(values, sparse.csr_array((np.ones(len(known)), (places, known)), shape=shape))


def _explained_as_labels(
    places: Sequence[int], codes: Floats, numeric: Bools, go_on: Callable[[float], bool]
) -> tuple[dict[int, int], bool]:
    """Of some columns of whole numbers the column of numbers that each explains as labels and not as a quantity, where
    there is one, and whether there was time for all."""
    best: dict[int, float] = {}
    found: dict[int, int] = {}
    parts = list(_in_parts(np.flatnonzero(numeric), len(codes)))
    for done, others in enumerate(parts):
        some: _Others | None = None
        for number, place in enumerate(places):
            if not go_on((done + number / len(places)) / len(parts)):
                return found, False
            labels = _labels(codes[:, place])
            if labels is None:
                continue
            if some is None:
                some = _others(codes[:, others])
            gains = np.where(others == place, -np.inf, _gains(labels, some))
            top = float(gains.max())
            if top > best.get(place, CODE_GAIN):
                best[place], found[place] = top + ALIKE, int(others[np.flatnonzero(gains >= top - ALIKE)[0]])
    return found, True


def _in_parts(others: Ints, n: int) -> Iterator[Ints]:
    """Columns, so many of them at once as TOGETHER allows for n rows."""
    step = max(TOGETHER // max(n, 1), 1)
    for first in range(0, len(others), step):
        yield others[first : first + step]


class _Others(NamedTuple):
    """Columns to be explained: their codes [n, P], NaN at a hole, and what is summed [n, 3 P]: 1 where a cell is
    observed, and there the standardised code and its square; else 0."""

    codes: Floats
    summed: Floats


def _others(codes: Floats) -> _Others:
    known = np.isfinite(codes)
    y = np.where(known, codes, 0.0)
    y /= np.maximum(np.abs(y).max(0, initial=0.0), np.finfo(float).tiny)  # so that no square is too large
    count = np.maximum(known.sum(0), 1)
    y = np.where(known, y - y.sum(0) / count, 0.0)
    sd = np.sqrt(np.square(y).sum(0) / count)
    y /= np.where(sd > 0, sd, 1.0)
    return _Others(codes, np.ascontiguousarray(np.hstack([known.astype(float), y, np.square(y)])))


def _gains(labels: _Labels, others: _Others) -> Floats:
    """[P] what labels explain of columns beyond what their values explain as a quantity: shares of variance, less what
    labels explain by chance. -inf where there is too little to tell.

    Only cells count whose label has CELLS_A_CODE of them or more in the column: the mean of one or two far cells
    explains these cells whatever the label is.
    """
    counts, sums, squares = np.split(labels.rows @ others.summed, 3, 1)
    often = counts >= CELLS_A_CODE
    counts, sums, squares = (np.where(often, each, 0.0) for each in (counts, sums, squares))
    n, L = counts.sum(0), often.sum(0)
    safe = np.maximum(n, 2.0)
    means = sums / np.maximum(counts, 1.0)
    around = squares.sum(0) - np.square(sums.sum(0)) / safe
    usable = (L >= 4) & (around > NARROW * safe)

    def explained(left: Floats, parameters: Any) -> Floats:
        """Share of the variance that is explained, adjusted for the number of parameters."""
        share = left / np.maximum(n - parameters, 1.0) / np.where(usable, around, 1.0) * (safe - 1)
        return np.where(usable, 1 - share, -np.inf)

    by_labels = squares.sum(0) - (sums * means).sum(0)
    beside = _beside(sums, counts, often)
    by_neighbours = (squares - 2 * sums * beside + counts * np.square(beside)).sum(0)
    by_cubic = squares.sum(0) - _on_cubic(labels.values, means, counts)
    as_quantity = np.maximum(np.maximum(explained(by_cubic, 4), explained(by_neighbours, 1)), 0.0)
    chance = CHANCE * np.sqrt(2 * np.maximum(L - 1, 0)) / np.maximum(n - L, 1.0)
    gains = np.where(usable, explained(by_labels, L) - as_quantity - chance, -np.inf)
    for j in np.flatnonzero((L >= 4) & ~usable):  # its cells vary little beside those that are left out
        cells = np.where(labels.rows.T @ often[:, j].astype(float) > 0, others.codes[:, j], np.nan)
        if np.nanmin(cells) < np.nanmax(cells):
            gains[j] = _gains(labels, _others(cells[:, None]))[0]
    return gains


def _beside(sums: Floats, counts: Floats, often: Bools) -> Floats:
    """[L, P] of each label in order the mean of the cells of the labels next to it, its own left out, among those that
    are frequent: near the mean of its own where a column acts as a quantity, however bent, and unrelated to it where
    its values are labels."""
    L = len(often)
    order = np.arange(1, L + 1)[:, None]
    before = np.zeros(often.shape, int)
    after = np.full(often.shape, L + 1)
    before[1:] = np.maximum.accumulate(np.where(often, order, 0), 0)[:-1]
    after[:-1] = np.minimum.accumulate(np.where(often, order, L + 1)[::-1], 0)[::-1][1:]

    def both(each: Floats) -> Floats:
        padded = np.pad(each, ((1, 1), (0, 0)))
        return np.asarray(np.take_along_axis(padded, before, 0) + np.take_along_axis(padded, after, 0))

    return np.asarray(both(sums) / np.maximum(both(counts), 1.0))


def _on_cubic(values: Floats, means: Floats, counts: Floats) -> Floats:
    """[P] sums of squares of the cubics in the values [L] that are fitted to cells, of which `counts` [L, P] have a
    value, and `means`.

    The powers are made orthogonal one after the other, twice against rounding; one that is a sum of those before it but
    for rounding adds nothing.
    """
    often = counts > 0
    x = np.broadcast_to(values[:, None], counts.shape)
    some = often.any(0)
    low = np.where(some, np.where(often, x, np.inf).min(0), 0.0)
    high = np.where(some, np.where(often, x, -np.inf).max(0), 0.0)
    width = np.where(high > low, high - low, 1.0)
    t = np.where(often, (2 * x - low - high) / width, 0.0)
    roots = np.sqrt(counts)
    right, rounding = roots * means, np.finfo(float).eps * np.maximum(counts.sum(0), 1.0)
    total, made = np.zeros(counts.shape[1]), list[Floats]()
    for power in range(4):
        column = roots * t**power
        length = np.sqrt(np.square(column).sum(0))
        for _ in range(2):
            for other in made:
                column = column - other * (other * column).sum(0)
        own = np.sqrt(np.square(column).sum(0))
        kept = own > rounding * length
        made.append(np.where(kept, column / np.where(kept, own, 1.0), 0.0))
        total += np.square((made[-1] * right).sum(0))
    return total
