"""Cells of two columns in order that are equal in many rows (paid in full, discharged on the day of the admission):
how probable that is, estimated from a table that is fitted, and fills that are equal as often.

A model knows such columns as numbers that go together closely, and draws few of them exactly equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from vgi_cli.columns.base import ModelledColumn
from vgi_cli.columns.datetime import Moment
from vgi_cli.columns.levelled import Levelled
from vgi_cli.columns.numerals import Bools, Floats
from vgi_cli.columns.orders import Chance, Order, Term, Ties
from vgi_cli.encoding.redundant import as_number, half_digit

NOISE = 1e-12
"""Share of the size of two cells by which they may be out of order."""
ROUNDING = 1e-9
"""The same of what is computed from other cells."""
SURELY = 3.0
"""Standard errors by which more cells have to be equal than fills would be, ..."""
LEAST = 0.02
"""... and share of the rows."""
FEWEST = 10
"""Rows in which cells are equal, and in which they are not, for each weight that is estimated."""
ROWS = 4_000
"""Rows by which it is estimated, evenly spread."""
MOST_COLUMNS, MOST_LEVELS = 5, 20
"""Columns that may say something of it, and levels of one."""
LOOKED_AT = 10
"""Columns that are looked at again beside the first of these: those that say most by themselves."""
WIDE = 2.5
"""Standard deviation of the weights before rows are seen (Gelman et al. 2008)."""
SAMPLES = 20
"""Vectors of weights: one of the rows, the others of bootstrap samples."""
SEEN = 200
"""Rows that are kept in which cells are not equal."""
NEAREST = 20
"""Those of them that are compared with a row."""
NEARER = 0.05
"""A draw that is nearer to the other cell than all but so many of these was meant to be equal."""


class Pair(NamedTuple):
    """Two columns in order and their codes [N], those of `high` shifted; NaN is missing."""

    low: ModelledColumn
    high: ModelledColumn
    a: Floats
    b: Floats
    shift: float


def ties_of(pair: Pair, small: Floats, others: Mapping[str, tuple[ModelledColumn, Floats]]) -> Ties | None:
    """Where the cells of two columns in order are equal; None where that is hardly more often than in fills that are
    drawn from a normal law and brought into order.

    small   small distances [SMALL] of them, by which fills are moved
    others  the columns that may say something of it, these two included, with their codes
    """
    both = np.flatnonzero(~np.isnan(pair.a) & ~np.isnan(pair.b))
    some = both[np.linspace(0, len(both) - 1, min(len(both), ROWS)).astype(int)]
    a, b = pair.a[some], pair.b[some]
    equal = same(a, b)
    lows, highs = as_number(pair.low), as_number(pair.high)
    assert lows is not None and highs is not None, "orders are of numbers"
    below, above = b > lows.ends[0], a - pair.shift < highs.ends[1]  # at an end the other one can be nothing else
    free, digit = below & above, 2 * max(half_digit(pair.low), half_digit(pair.high))
    if not _more(equal[free], a[free], b[free], digit, small):
        return None
    columns = {name: (column, codes[some]) for name, (column, codes) in others.items()}

    def chance(open_: Bools, known: str, unknown: str) -> Chance:
        rest = {known: columns[known], **{name: one for name, one in columns.items() if name not in (known, unknown)}}
        return _chance(equal, open_, rest)

    chances = chance(below, pair.high.name, pair.low.name), chance(above, pair.low.name, pair.high.name)
    ratio = not isinstance(pair.low, Moment) and bool(a.min() >= 0 and b[~equal].min() > 0)
    likely = np.stack([one.of(lambda name: columns[name][1][None], (1, len(a)))[0] for one in chances], 1)
    whole = ~equal & ~np.isnan(likely).any(1)
    by_chance = isinstance(pair.low, Moment) and all(one.terms for one in chances)  # a date by itself says little
    by_chance = by_chance and int(whole.sum()) >= NEAREST
    apart = np.flatnonzero(whole if by_chance else ~equal)
    apart = apart[np.lexsort((a[apart], b[apart]))]
    apart = apart[np.linspace(0, len(apart) - 1, min(SEEN, len(apart))).round().astype(int)]
    return Ties(
        float(equal.mean()),
        *chances,
        tuple(zip(a[apart].tolist(), (b[apart] - pair.shift).tolist(), strict=True)),
        ratio,
        tuple(zip(*likely[apart].T.tolist(), strict=True)) if by_chance else (),
    )


def crossed(low: Floats, high: Floats) -> Bools:
    """[..] where cells are out of order, beyond the noise of arithmetic."""
    return np.asarray(0.5 * low - 0.5 * high > 0.5 * NOISE * np.maximum(np.abs(low), np.abs(high)))


def same(low: Floats, high: Floats) -> Bools:
    """[..] where cells are equal, but for the noise of arithmetic."""
    return ~crossed(low, high) & ~crossed(high, low)


def _more(equal: Bools, a: Floats, b: Floats, digit: float, small: Floats) -> bool:
    """Whether cells [n] are equal more often than chance explains where fills are drawn from a normal law of their
    distance, rounded to a `digit`, and moved by small distances where they are out of order."""
    n, count = len(equal), int(equal.sum())
    if min(count, n - count) < FEWEST:
        return False
    size = max(float(np.abs(a).max()), float(np.abs(b).max()), np.finfo(float).tiny)  # squares may overflow
    apart, half = b / size - a / size, 0.5 * digit / size
    normal = NormalDist(float(apart.mean()), float(apart.std()))
    below = normal.cdf(-half)
    expected = normal.cdf(half) - below + below * float((small == 0).mean())
    deviation = float(np.sqrt(max(expected, 1 / n) * (1 - expected) / n))
    return count / n - expected > max(LEAST, SURELY * deviation)


def _terms(column: ModelledColumn, codes: Floats, *, known: bool) -> list[Term]:
    """What a column may say; `known`: it is one of the two."""
    seen = codes[~np.isnan(codes)]
    if len(seen) == 0:
        return []
    if isinstance(column, Levelled):
        levels, counts = np.unique(seen, return_counts=True)
        if column.pooled or not 2 <= len(levels) <= MOST_LEVELS:
            return []
        return [Term(column.name, "at", float(level)) for level in np.delete(levels, counts.argmax())]
    number = as_number(column)
    if number is None:
        return []
    piles = number.piles
    tail = seen[~np.isin(seen, piles)]
    spread = float(tail.std()) if len(tail) > 1 and np.abs(tail).max() < 1e150 else 0.0
    if not spread > 0:
        return [Term(column.name, "at", pile) for pile in piles]
    centre = float(tail.mean())
    terms = [Term(column.name, "number", centre, spread)]
    if known:
        terms.append(Term(column.name, "square", centre, spread))
    return terms + [Term(column.name, "at", pile) for pile in piles]


def _chance(equal: Bools, open_: Bools, columns: Mapping[str, tuple[ModelledColumn, Floats]]) -> Chance:
    """A logistic regression of whether cells are equal [n], in rows in which they may not be (`open_`), on those
    columns that say most of it, one after the other, as long as the rows speak for it (BIC); the first of the columns
    is one of the two."""
    y, rows, chosen = equal.astype(float), open_.copy(), list[Term]()
    terms = {name: _terms(*one, known=place == 0) for place, (name, one) in enumerate(columns.items())}
    x = np.ones((len(y), 1))
    for _ in range(MOST_COLUMNS):
        p = _logistic(x @ _weights(y[rows], x[rows], np.ones(int(rows.sum()))))
        gains = dict[str, float]()
        for name, own in terms.items():
            some = rows & ~np.isnan(columns[name][1])
            count = int(equal[some].sum())
            if not own or min(count, int(some.sum()) - count) < FEWEST * (x.shape[1] + len(own)):
                continue
            new = np.stack([term.of(columns[name][1][some]) for term in own], 1)
            gains[name] = _gain(y[some], p[some], x[some], new) - 0.5 * len(own) * np.log(some.sum())
        best = max(gains, key=gains.__getitem__, default=None)
        if best is None or gains[best] <= 0:
            break
        if not chosen:
            first = sorted(gains, key=gains.__getitem__, reverse=True)[:LOOKED_AT]
            terms = {name: own for name, own in terms.items() if name in first}
        own, rows = terms.pop(best), rows & ~np.isnan(columns[best][1])
        chosen += own
        x = np.c_[x, np.stack([term.of(columns[best][1]) for term in own], 1)]
    x, y = x[rows], y[rows]
    draw = np.random.default_rng(0)
    shares = [np.ones(len(y)), *(draw.exponential(size=len(y)) for _ in range(SAMPLES - 1))]
    return Chance(tuple(chosen), tuple(tuple(_weights(y, x, share).tolist()) for share in shares))


def _gain(y: Floats, p: Floats, x: Floats, new: Floats) -> float:
    """By how many nats rows [n] of the probabilities p, by columns x [n, q], are likelier with new columns [n, k] as
    well: the score test (Rao 1948)."""
    curve = (p * (1 - p))[:, None]
    left = new - x @ np.linalg.lstsq(x * np.sqrt(curve), new * np.sqrt(curve), rcond=None)[0]
    score = left.T @ (y - p)
    return 0.5 * float(score @ np.linalg.pinv((left * curve).T @ left, hermitian=True) @ score)


def _logistic(logits: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-np.clip(logits, -30, 30))))


def _weights(y: Floats, x: Floats, shares: Floats) -> Floats:
    """[p] of a logistic regression of y [n] on x [n, p], whose first column is a constant, by Newton's method; rows
    count by their shares [n]."""
    pull = np.full(x.shape[1], WIDE**-2)
    pull[0] = 1e-6
    mean = np.clip(float((shares * y).sum() / shares.sum()), 1e-6, 1 - 1e-6)
    weights = np.zeros(x.shape[1])
    weights[0] = np.log(mean / (1 - mean))
    for _ in range(50):
        p = _logistic(x @ weights)
        slope = x.T @ (shares * (y - p)) - pull * weights
        curve = (x * (shares * p * (1 - p))[:, None]).T @ x + np.diag(pull)
        step = np.linalg.solve(curve, slope)
        weights = weights + step * min(1.0, 5 / max(float(np.abs(step).max()), 1e-300))
        if np.abs(step).max() < 1e-8:
            break
    return weights


class Beside(NamedTuple):
    """Which fills [m, n] are to be equal to the other cell of their row; those that are not, though their draw was
    meant to be, get `values` [m, n]."""

    equal: Bools
    moved: Bools
    values: Floats


def beside(
    order: Order, values: Floats, other: Floats, chance: Floats, likely: Floats, u: Floats, *, low: bool
) -> Beside:
    """Fills beside the other cell of an order with ties.

    values, other  [m, n] codes of the fills as they were drawn, and of the other cells as those of the same column
    chance         [m, n] how probable it is that they are equal
    likely         [m, n] the same by the rest of the row alone, by which rows are alike
    u              [m, n] random numbers from 0 to 1
    low            whether the fills are of the lower column
    """
    assert order.ties is not None, "an order without ties"
    ties = order.ties
    equal = u < chance
    left = np.where(equal, 0.0, (u - chance) / np.maximum(1 - chance, 1e-12))  # is random again
    seen = np.array(ties.apart)
    known, unknown = (seen[:, 1] + order.shift, seen[:, 0]) if low else (seen[:, 0] - order.shift, seen[:, 1])
    by, own = (np.array(ties.alike)[:, 0 if low else 1], likely) if ties.alike else (known, other)
    ascending = np.lexsort((np.random.default_rng(0).permutation(len(known)), by))  # of equal ones some of all
    by, known, unknown = by[ascending], known[ascending], unknown[ascending]
    size = min(NEAREST, len(known))
    middle = (np.searchsorted(by, own, side="left") + np.searchsorted(by, own, side="right")) // 2
    first = np.clip(middle - size // 2, 0, len(known) - size)
    side = -1.0 if low else 1.0
    far, nearer = side * (values - other), np.zeros(values.shape, int)
    noise = ROUNDING * np.maximum(np.abs(values), np.abs(other))
    chosen = np.empty(values.shape)
    place = np.minimum((left * size).astype(int), size - 1)
    for k in range(size):
        at = first + k
        beyond = other * (unknown[at] / known[at]) if low and ties.ratio else other + (unknown[at] - known[at])
        nearer += side * (beyond - other) <= far + noise
        chosen = np.where(place == k, beyond, chosen)
    moved = ~equal & ((far <= 0) | (nearer <= NEARER * size))
    return Beside(equal, moved, chosen)
