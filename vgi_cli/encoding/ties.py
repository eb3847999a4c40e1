"""Cells of two columns in order that are equal in many rows (paid in full, discharged on the day of the admission):
how probable that is, estimated from a table that is fitted, and fills that are equal as often.

A model knows such columns as numbers that go together closely, and draws few of them exactly equal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from vgi_cli.columns.base import ModelledColumn
from vgi_cli.columns.datetime import Moment
from vgi_cli.columns.levelled import Levelled
from vgi_cli.columns.numerals import Bools, Floats
from vgi_cli.columns.orders import Chance, Line, Order, Term, Ties
from vgi_cli.columns.places import evenly
from vgi_cli.encoding.redundant import as_number, half_digit

NOISE = 1e-12
"""Share of the size of two cells by which they may be out of order."""
ROUNDING = 1e-9
"""The same of what is computed from other cells."""
SURELY = 3.0
"""Standard errors by which more cells have to be equal than fills would be, ..."""
LEAST = 0.02
"""... and share of the rows."""
FEWEST, RARE = 10, 3
"""Rows in which cells are equal, and in which they are not, for each weight that is estimated; and of the latter from
which on it is said how often, where nothing else says something of it."""
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
"""A draw that is nearer to the other cell than all but so many of these was meant to be equal, where more are."""


_Column = tuple[ModelledColumn, Floats]
"""A column and its codes [n]."""


class Pair(NamedTuple):
    """Two columns in order and their codes [N], those of `high` shifted; NaN is missing."""

    low: ModelledColumn
    high: ModelledColumn
    a: Floats
    b: Floats
    shift: float


def ties_of(pair: Pair, small: Floats, others: Mapping[str, _Column]) -> Ties | None:
    """Where the cells of two columns in order are equal; None where that is hardly more often than in fills that are
    drawn from a normal law and brought into order.

    small   small distances [SMALL] of them, by which fills are moved
    others  the columns that may say something of it, these two included, with their codes
    """
    both = np.flatnonzero(~np.isnan(pair.a) & ~np.isnan(pair.b))
    some = both[evenly(len(both), ROWS)]
    a, b = pair.a[some], pair.b[some]
    equal = same(a, b)
    lows, highs = as_number(pair.low), as_number(pair.high)
    assert lows is not None and highs is not None, "orders are of numbers"
    below, above = b > lows.ends[0], a - pair.shift < highs.ends[1]  # at an end the other one can be nothing else
    free, digits = below & above, (2 * half_digit(pair.low), 2 * half_digit(pair.high))
    if not _more(equal[free], a[free], b[free], digits, small):
        return None
    columns = {name: (column, codes[some]) for name, (column, codes) in others.items()}

    def rest(known: str, unknown: str) -> dict[str, _Column]:
        others = {name: one for name, one in columns.items() if name not in (known, unknown)}
        return {known: columns[known], **others}

    sides = rest(pair.high.name, pair.low.name), rest(pair.low.name, pair.high.name)
    chances = _chance(equal, below, sides[0]), _chance(equal, above, sides[1])
    ratio = not isinstance(pair.low, Moment) and bool(a.min() >= 0 and b[~equal].min() > 0)
    scale = np.maximum(np.abs(b), np.finfo(float).tiny) if ratio else 1.0
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(b / scale - a / scale), np.log(b - a)
    lines = line_of(logs[0], equal, sides[0]), line_of(logs[1], equal, sides[1])
    by_lines = any(one.terms for one in lines)
    by_chance = isinstance(pair.low, Moment) and all(one.terms for one in chances)  # a date by itself says little

    def codes(name: str) -> Floats:
        return np.asarray(columns[name][1][None])

    likely = np.stack([one.of(codes, (1, len(a)))[0] for one in (lines if by_lines else chances)], 1)
    whole = ~equal & ~np.isnan(likely).any(1)
    by_likely = (by_lines or by_chance) and int(whole.sum()) >= NEAREST
    apart = np.flatnonzero(whole if by_likely else ~equal)
    apart = apart[np.lexsort((a[apart], b[apart]))]
    apart = apart[evenly(len(apart), SEEN)]
    return Ties(
        float(equal.mean()),
        *chances,
        tuple(zip(a[apart].tolist(), (b[apart] - pair.shift).tolist(), strict=True)),
        ratio,
        tuple(zip(*likely[apart].T.tolist(), strict=True)) if by_likely else (),
        lines if by_likely and by_lines else None,
    )


def crossed(low: Floats, high: Floats) -> Bools:
    """[..] where cells are out of order, beyond the noise of arithmetic."""
    return np.asarray(0.5 * low - 0.5 * high > 0.5 * NOISE * np.maximum(np.abs(low), np.abs(high)))


def same(low: Floats, high: Floats) -> Bools:
    """[..] where cells are equal, but for the noise of arithmetic."""
    return ~crossed(low, high) & ~crossed(high, low)


def _more(equal: Bools, a: Floats, b: Floats, digits: tuple[float, float], small: Floats) -> bool:
    """Whether cells [n] are equal more often than chance explains where fills are drawn from a normal law of their
    distance, each from anywhere within its digit, rounded, and moved by small distances where they are out of order; or
    never farther apart than by a digit."""
    n, count = len(equal), int(equal.sum())
    if count < FEWEST or n - count < RARE:
        return False
    if float((b - a).max()) < 1.5 * max(digits):  # the same or the next one: normal laws go on
        return True
    size = max(float(np.abs(a).max()), float(np.abs(b).max()), np.finfo(float).tiny)  # squares may overflow
    apart, half = b / size - a / size, 0.5 * max(digits) / size
    within = sum((digit / size) ** 2 for digit in digits) / 12
    normal = NormalDist(float(apart.mean()), float(np.sqrt(apart.var() + within)))
    below = normal.cdf(-half)
    expected = normal.cdf(half) - below + below * float((small == 0).mean())
    deviation = float(np.sqrt(max(expected, 1 / n) * (1 - expected) / n))
    return count / n - expected > max(LEAST, SURELY * deviation)


def _terms(column: ModelledColumn, codes: Floats, equal: Bools, *, known: bool) -> list[list[Term]]:
    """What a column may say, in one of several ways; `known`: it is one of the two. A number says it by its value or
    the logarithm of that, and by whether it is the value that is most frequent where cells are `equal`: of
    those with one visit the first is the last."""
    seen = codes[~np.isnan(codes)]
    if len(seen) == 0:
        return []
    if isinstance(column, Levelled):
        levels, counts = np.unique(seen, return_counts=True)
        if column.pooled or not 2 <= len(levels) <= MOST_LEVELS:
            return []
        return [[Term(column.name, "at", float(level)) for level in np.delete(levels, counts.argmax())]]
    number = as_number(column)
    if number is None:
        return []
    at = [Term(column.name, "at", pile) for pile in number.piles]
    tail = seen[~np.isin(seen, number.piles)]
    spread = float(tail.std()) if len(tail) > 1 and np.abs(tail).max() < 1e150 else 0.0
    if not spread > 0:
        return [at] if at else []
    centre = float(tail.mean())
    linear = [Term(column.name, "number", centre, spread)]
    if known:
        linear.append(Term(column.name, "square", centre, spread))
    ways = [linear]
    if not isinstance(column, Moment) and tail.min() > 0 and (wide := float(np.log(tail).std())) > 0:
        ways.append([Term(column.name, "log", float(np.log(tail).mean()), wide)])
    values, counts = np.unique(codes[equal & np.isin(codes, tail)], return_counts=True)
    if len(values) and counts.max() >= FEWEST:
        often = Term(column.name, "at", float(values[counts.argmax()]))
        ways += [[*way, often] for way in ways]
    return [[*way, *at] for way in ways]


def _ways(equal: Bools, columns: Mapping[str, _Column]) -> dict[str, list[list[Term]]]:
    """The same of some columns, of which the first is one of the two."""
    return {name: _terms(*one, equal, known=place == 0) for place, (name, one) in enumerate(columns.items())}


class _Chosen(NamedTuple):
    """Terms of the columns that say most, their values x [n, 1 + terms] after a constant, and in which rows [n] all of
    them are known."""

    terms: tuple[Term, ...]
    x: Floats
    rows: Bools


def _chosen(
    ways: Mapping[str, list[list[Term]]],
    columns: Mapping[str, _Column],
    rows: Bools,
    count: Callable[[Bools], int],
    left: Callable[[Floats, Bools], tuple[Floats, Floats]],
) -> _Chosen:
    """The columns that say most, one after the other, as long as the rows speak for it (BIC).

    ways   in which ways columns may say something
    rows   [n] by which that is seen
    count  how many cases some rows [n] are for a weight
    left   by values x [n, k] of the terms so far, and rows, what they leave of each row [n] and the weight of it [n]
    """
    open_, chosen, x = dict(ways), list[Term](), np.ones((len(rows), 1))
    for _ in range(MOST_COLUMNS):
        rest, curve = left(x, rows)
        gains = dict[tuple[str, int], float]()
        for name, own in open_.items():
            some = rows & ~np.isnan(columns[name][1])
            for way, terms in enumerate(own):
                if count(some) < FEWEST * (x.shape[1] + len(terms)):
                    continue
                new = np.stack([term.of(columns[name][1][some]) for term in terms], 1)
                gain = _gain(rest[some], curve[some], x[some], new)
                gains[name, way] = gain - 0.5 * len(terms) * np.log(some.sum())
        best = max(gains, key=gains.__getitem__, default=None)
        if best is None or gains[best] <= 0:
            break
        if not chosen:
            first = list(dict.fromkeys(name for name, _ in sorted(gains, key=gains.__getitem__, reverse=True)))
            open_ = {name: own for name, own in open_.items() if name in first[:LOOKED_AT]}
        taken, codes = open_.pop(best[0])[best[1]], columns[best[0]][1]
        rows = rows & ~np.isnan(codes)
        chosen += taken
        x = np.c_[x, np.stack([term.of(codes) for term in taken], 1)]
    return _Chosen(tuple(chosen), x, rows)


def _chance(equal: Bools, open_: Bools, columns: Mapping[str, _Column]) -> Chance:
    """A logistic regression of whether cells are equal [n], in rows in which they may not be (`open_`), on those
    columns that say most of it; the first of the columns is one of the two."""
    y = equal.astype(float)

    def left(x: Floats, rows: Bools) -> tuple[Floats, Floats]:
        p = _logistic(x @ _weights(y[rows], x[rows], np.ones(int(rows.sum()))))
        return y - p, p * (1 - p)

    def cases(some: Bools) -> int:
        count = int(equal[some].sum())
        return min(count, int(some.sum()) - count)

    terms, x, rows = _chosen(_ways(equal, columns), columns, open_, cases, left)
    x, y = x[rows], y[rows]
    draw = np.random.default_rng(0)
    shares = [np.ones(len(y)), *(draw.exponential(size=len(y)) for _ in range(SAMPLES - 1))]
    return Chance(terms, tuple(tuple(_weights(y, x, share).tolist()) for share in shares))


def line_of(logs: Floats, equal: Bools, columns: Mapping[str, _Column]) -> Line:
    """A linear regression of the logarithms [n] of distances, in rows in which cells are not `equal`, as `_chance`."""
    apart = ~equal & np.isfinite(logs)
    y = np.where(apart, logs, 0.0)

    def weights(x: Floats, rows: Bools) -> Floats:
        return np.asarray(np.linalg.lstsq(x[rows], y[rows], rcond=None)[0])

    def left(x: Floats, rows: Bools) -> tuple[Floats, Floats]:
        rest = y - x @ weights(x, rows)
        return rest / max(float(rest[rows].std()), ROUNDING), np.ones(len(y))

    terms, x, rows = _chosen(_ways(equal, columns), columns, apart, lambda some: int(some.sum()), left)
    return Line(terms, tuple(weights(x, rows).tolist()))


def _gain(rest: Floats, curve: Floats, x: Floats, new: Floats) -> float:
    """By how many nats rows [n] of which a regression on x [n, q] leaves `rest`, whose variance is `curve` [n], are
    likelier with new columns [n, k] as well: the score test (Rao 1948)."""
    curve = curve[:, None]
    left = new - x @ np.linalg.lstsq(x * np.sqrt(curve), new * np.sqrt(curve), rcond=None)[0]
    score = left.T @ rest
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
    order: Order, values: Floats, other: Floats, chance: Floats, alike: Floats | None, u: Floats, *, low: bool
) -> Beside:
    """Fills beside the other cell of an order with ties.

    values, other  [m, n] codes of the fills as they were drawn, and of the other cells as those of the same column
    chance         [m, n] how probable it is that they are equal
    alike          [m, n] what rows are alike by (`Ties.likeness`); None: by the other cell
    u              [m, n] random numbers from 0 to 1
    low            whether the fills are of the lower column
    """
    assert order.ties is not None, "an order without ties"
    ties = order.ties
    equal = u < chance
    left = np.where(equal, 0.0, (u - chance) / np.maximum(1 - chance, 1e-12))  # is random again
    seen = np.array(ties.apart)
    known, unknown = (seen[:, 1] + order.shift, seen[:, 0]) if low else (seen[:, 0] - order.shift, seen[:, 1])
    by, own = (known, other) if alike is None else (np.array(ties.alike)[:, 0 if low else 1], alike)
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
    moved = ~equal & ((far <= 0) | ((nearer <= NEARER * size) & (chance > NEARER)))
    return Beside(equal, moved, chosen)
