"""Codes whose first digits are those of another column: the number of a pupil, 17001, of the school 1."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from vgi_cli.columns.number import Number
from vgi_cli.columns.numerals import Floats
from vgi_cli.columns.relations import Relation
from vgi_cli.columns.schema import Schema
from vgi_cli.encoding.redundant import codes_of
from vgi_cli.encoding.relations import DISTANCES, ENOUGH
from vgi_cli.table.base import Table

FEWEST_ROWS, FIRST_LOOK = 10, 200
"""Rows in which both are observed, at least; and by which most pairs of columns are found to be none."""
MOST_DIGITS, LARGEST = 9, 1e15
"""Digits that follow those of the other column, and numbers up to which all whole ones are exact."""


def nested_among(table: Table, schema: Schema, relations: Sequence[Relation]) -> tuple[Relation, ...]:
    """Relations, with what the first digits of codes are: beside others, and in place of those that take the rest of
    the digits for rounding, or the first ones for marks."""
    numbers = [one for one in schema.encoded if isinstance(one, Number) and one.whole and one.notation is None]
    codes = {one.name: codes_of(table, one) for one in numbers}
    guessed = [one for one in relations if one.slack or one.how == "bands"]
    exact = {frozenset(one.names) for one in relations if one not in guessed}
    choice = np.log(max(len(numbers), 1) ** 2 * MOST_DIGITS)
    found: dict[str, Relation] = {}
    for code, first in itertools.permutations(codes, 2):
        if code not in found and frozenset((code, first)) not in exact:
            relation = _nested(code, first, codes, float(choice))
            if relation is not None:
                found[code] = relation
    instead = {frozenset(one.names) for one in found.values()}
    kept = [one for one in relations if one not in guessed or frozenset(one.names) not in instead]
    return (*kept, *found.values())


def _nested(code: str, first: str, codes: Mapping[str, Floats], choice: float) -> Relation | None:
    """That the first digits of codes [N] are those of another column; None where they are not, or so few rows say so
    that this may be chance."""
    some = _whole(codes[code][:FIRST_LOOK], codes[first][:FIRST_LOOK])
    if _base(some) is None:
        return None
    whole = _whole(codes[code], codes[first])
    if len(whole) < FEWEST_ROWS or whole.min() < 0 or whole.max() > LARGEST:
        return None
    base = _base(whole[:FIRST_LOOK])
    if base is None or (whole[:, 0] // base != whole[:, 1]).any():
        return None
    counts = np.unique(whole[:, 1], return_counts=True)[1]
    share = counts / len(whole)
    if -(counts * np.log(share)).sum() < ENOUGH + choice:
        return None
    rest = whole[:, 0] - base * whole[:, 1]
    if np.ptp(rest) == 0:
        return None  # that is a line
    levels = (np.arange(DISTANCES) + 0.5) / DISTANCES
    least, most = float(rest.min()), float(rest.max())
    return Relation(
        names=(code, first),
        weights=(1.0, -base),
        constant=0.5 * (least + most),
        rounded=True,
        slack=0.5 * (most - least),
        apart=tuple(np.quantile(rest, levels, method="nearest").tolist()),
    )


def _whole(code: Floats, first: Floats) -> Floats:
    """[n, 2] two columns [N] side by side, in the rows that have both."""
    values = np.stack([code, first], 1)
    return values[~np.isnan(values).any(1)]


def _base(some: Floats) -> float | None:
    """The power of ten that leaves the second column of rows [n, 2] when the first one is divided by it; None where
    none does."""
    bases = (10.0**digits for digits in range(1, MOST_DIGITS + 1))
    with np.errstate(invalid="ignore"):
        return next((base for base in bases if (some[:, 0] // base == some[:, 1]).all()), None)
