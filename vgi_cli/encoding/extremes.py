"""Columns that are the greatest, or the least, of others in their row: the better one of two marks, the weight that is
charged, the fastest of several runs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Literal

import numpy as np

from vgi_cli.columns.number import Number
from vgi_cli.columns.numerals import Bools, Floats
from vgi_cli.columns.relations import Relation
from vgi_cli.encoding.redundant import FIRST_LOOK, MOST_NOTED
from vgi_cli.encoding.sums import CodedRows

FEWEST, FEW, MOST = 30, 5, 12
"""Rows that have all of the columns, fewest; of these each of the others is the greatest by itself in so many, fewest;
and so many others are there at most."""


def extremes_among(
    every: CodedRows, settled: Collection[str], enough: Callable[[Floats, int, float], bool]
) -> Iterator[Relation]:
    """The columns of numbers that are the greatest (least) of others in all rows that have these, but for `settled`
    ones; `enough`: whether so many rows speak for what took so many columns and so many nats of choice."""
    names = [name for name, column in every.columns.items() if isinstance(column, Number)]
    if not 2 < len(names) <= MOST_NOTED:
        return
    codes = every.codes(names)
    sides: tuple[tuple[Literal["greatest", "least"], Floats], ...] = (("greatest", codes), ("least", -codes))
    for how, x in sides:
        some = x[:FIRST_LOOK]
        with np.errstate(invalid="ignore"):
            beyond = np.stack([(some > some[:, [j]]).any(0) for j in range(len(names))])
        for j, first in enumerate(names):
            others = np.flatnonzero(~beyond[j] & (np.arange(len(names)) != j))
            if first in settled or len(others) < 2:
                continue
            chosen = _of_which(x[:, j], x[:, others])
            whole = x[:, [j, *others[chosen]]]
            rows = whole[~np.isnan(whole).any(1)]
            choice = len(chosen) * float(np.log(len(every.columns)))
            if chosen and _is_greatest(rows) and enough(rows[:, 0], len(chosen) + 1, choice):
                yield Relation(names=(first, *(names[others[k]] for k in sorted(chosen))), how=how)


def _of_which(y: Floats, x: Floats) -> Sequence[int]:
    """The places of those columns x [N, columns] of which a column y [N] may be the greatest: none of them is greater,
    and one after the other is equal to it in most rows that are left; none where these do not tell."""
    able = np.flatnonzero(~(x > y[:, None]).any(0))
    equal = x[:, able] == y[:, None]
    left, chosen = np.ones(len(y), bool), list[int]()
    while len(chosen) < min(MOST, len(able)):
        rows = equal[left].sum(0)
        best = int(rows.argmax())
        if rows[best] < FEW:
            break
        chosen.append(best)
        left &= ~equal[:, best]
    return [int(able[k]) for k in chosen] if len(chosen) > 1 else []


def _is_greatest(rows: Floats) -> bool:
    """Whether the first column of rows [n, columns] is the greatest of the others in all of them, and each of these is
    that by itself in some."""
    if len(rows) < FEWEST:
        return False
    equal: Bools = rows[:, 1:] == rows[:, :1]
    alone = equal & (equal.sum(1, keepdims=True) == 1)
    return bool(equal.any(1).all() and (alone.sum(0) >= FEW).all())
