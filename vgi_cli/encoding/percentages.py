"""Percentages that add up to 100, each rounded by itself: whole ones come to 99, 100 or 101.

Rounding leaves so much of the total, beside how the parts vary, that no sum of columns seems to be there. What is
known beforehand finds them all the same: weights of one, a total of 100 (or 1), and how far rounding goes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from vgi_cli.columns.number import Number
from vgi_cli.columns.numerals import Floats, Ints
from vgi_cli.columns.relations import Relation
from vgi_cli.encoding.redundant import FEWEST, half_digit, likely_r
from vgi_cli.encoding.sums import NEARLY, TIE, CodedRows

TOTALS = (100.0, 1.0)
"""What percentages and shares add up to."""
STEPS = 1_000
"""Of the columns' last digit from 0 to the total at most: finer ones are found as other sums are."""
FEWEST_PARTS, MOST_PARTS = 3, 12
"""Parts of a total: two that are rounded add up but for halves."""
WEIGHTS = (-1.5, -0.5)
"""Between these lies the weight of a part in what the others say of a part: about -1, and of other columns 0."""
ERRORS = 3.5
"""Standard errors by which the mean and the spread of what is left may be off what rounding leaves."""


def percentages_among(
    every: CodedRows, relations: Sequence[Relation], enough: Callable[[Floats, int, float], bool]
) -> list[Relation]:
    """The sums of three columns or more that are a total of 100, or 1, as far as all are rounded, but for those that
    are in some other relations already; `enough`: whether so many rows speak for what took so many columns and so many
    nats of choice."""
    found, settled = list[Relation](), {one.names[0] for one in relations}
    said = [set(one.names) for one in relations if one.how == "sum"]
    for total in TOTALS:
        for names in _alike(every, total):
            for parts in sorted(_sets(names, every), key=len):
                first = next((name for name in reversed(parts) if name not in settled), None)
                if first is None or any(set(parts) <= names or names <= set(parts) for names in said):
                    continue
                relation = _relation((first, *(name for name in parts if name != first)), total, every)
                rows = every.codes(relation.names)
                rows = rows[~np.isnan(rows).any(1)]
                room = np.floor(rows[:, :1] / (relation.slack + half_digit(every.columns[first])))[:, 0]
                choice = len(parts) * float(np.log(len(every.columns)))
                if _by_rounding(rows, total, half_digit(every.columns[first])) and enough(room, len(parts), choice):
                    found.append(relation)
                    settled.add(first)
                    said.append(set(parts))
    return found


def _relation(names: tuple[str, ...], total: float, every: CodedRows) -> Relation:
    """Columns that add up to a total, as all are rounded: it is missed by whole digits, fewer than half as many as they
    are, and half a digit more is open as of any sum."""
    digits = (len(names) + 1) // 2 - 1
    slack = 2 * digits * half_digit(every.columns[names[0]])
    return Relation(names=names, weights=(1.0,) * len(names), constant=total, rounded=True, slack=slack)


def _alike(every: CodedRows, total: float) -> Iterator[list[str]]:
    """Columns of numbers from 0 to a total that are rounded to the same digit, by that digit."""
    digits: dict[float, list[str]] = {}
    for name, column in every.columns.items():
        digit = 2 * half_digit(column)
        if (
            isinstance(column, Number)
            and digit
            and column.low >= 0
            and column.high <= total <= STEPS * digit * (1 + TIE)
        ):
            digits.setdefault(digit, []).append(name)
    yield from (names for names in digits.values() if len(names) >= FEWEST_PARTS)


def _sets(names: Sequence[str], every: CodedRows) -> Iterator[list[str]]:
    """Some of these columns that may be the parts of one total: each, with those that it is less by as much as they are
    more."""
    x = every.codes(names)
    with np.errstate(invalid="ignore"):
        sd = np.nanstd(x, 0)
    names, x, sd = [name for name, own in zip(names, sd, strict=True) if own > 0], x[:, sd > 0], sd[sd > 0]
    seen = set[tuple[int, ...]]()
    r = likely_r(x) if len(names) >= FEWEST_PARTS else np.empty((0, 0))
    covariances = r * np.outer(sd, sd)
    for place in range(len(r)):
        others = np.delete(np.arange(len(names)), place)
        weights = np.linalg.solve(r[np.ix_(others, others)], r[others, place]) * sd[place] / sd[others]
        parts = others[(weights > WEIGHTS[0]) & (weights < WEIGHTS[1])]
        for own in _steady([place, *parts.tolist()], covariances):
            if len(own) <= MOST_PARTS and own not in seen:
                seen.add(own)
                yield [names[i] for i in own]


def _steady(parts: Sequence[int], covariances: Floats) -> Iterator[tuple[int, ...]]:
    """Some columns, and these without the one without which their sum varies least, one after the other: of columns
    that vary little it is not known well what the weights are."""
    own = np.sort(parts)
    while len(own) >= FEWEST_PARTS:
        yield tuple(own.tolist())
        within = covariances[np.ix_(own, own)]
        change = np.diag(within) - 2 * within.sum(0)  # of the variance of the sum, without one of them
        own = np.delete(own, change.argmin())


def _by_rounding(rows: Floats, total: float, half: float) -> bool:
    """Whether parts [n, parts], each rounded to twice `half`, miss a total as rounding has it: each by less than half a
    digit, and together with the spread of as many uniform errors. What is 0 need not be rounded."""
    if len(rows) < FEWEST:
        return False
    left = (rows.sum(1) - total) / (2 * half)
    most, squares = 0.5 * rows.shape[1], np.square(left)
    if (np.abs(left) > (1 - NEARLY) * most).any():
        return False
    error = ERRORS / np.sqrt(len(rows))
    off = _spread(((rows > half) & (rows < total - half)).sum(1)), _spread(np.array(rows.shape[1]))
    few = float(np.mean(off[0])) - error * float(squares.std()), float(off[1]) + error * float(squares.std())
    return bool(few[0] <= squares.mean() <= few[1] and abs(left.mean()) <= error * left.std())


def _spread(parts: Ints) -> Floats:
    """[..] the variance of the sum of so many parts, each rounded to whole numbers, whose sum is a whole number before:
    two are rounded against each other."""
    return np.where(parts > 2, parts / 12, 0.0)
