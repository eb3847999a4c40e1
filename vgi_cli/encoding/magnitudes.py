"""Numbers that float64 holds but that nothing can be computed with: too large, too close together, too far away."""

from __future__ import annotations

import numpy as np

from vgi_cli.columns.base import Column, Transform
from vgi_cli.columns.numerals import Floats, plain
from vgi_cli.errors import InputError
from vgi_cli.table.base import Bools, Table
from vgi_cli.table.wording import example, token_hint

LARGEST = 1e280
"""Greatest size of a number in a modelled column: FURTHEST standard deviations of such are float64 numbers too."""
CLOSEST = 1e-280
"""Least range of a modelled column: what it is divided by."""
FURTHEST = 1e15
"""Standard deviations from the values of the fit: beyond, float64 does not hold both."""
COARSEST, FINEST = 1e8, 1e-8
"""Greatest size and least range of a column that is modelled as it is (`table.transform=none`)."""


def refuse_magnitudes(table: Table, name: str, values: Floats, transform: Transform) -> None:
    """InputError where the numbers of a column cannot be computed with; two of its fitted `values` [n] differ."""
    low, high = float(values.min()), float(values.max())
    apart = high - low
    with np.errstate(invalid="ignore"):
        large = np.abs(table.numeric(name)) > LARGEST
    where = f"{table.label}: column '{name}'"
    carry = f"`--column {name}=carry` to carry the column as it is"
    if large.any():
        what = example(table, name, large)
        raise InputError(f"{where} holds a number too large to compute with: {what}", token_hint(table, name, large))
    if apart < CLOSEST:
        message = f"{where} has values from {plain(low)} to {plain(high)}: too close together to compute with"
        raise InputError(message, f"write them in smaller units, or {carry}")
    if transform == "none" and (max(abs(low), abs(high)) > COARSEST or apart < FINEST):
        what = f"values from {plain(low)} to {plain(high)}, which table.transform=none leaves as they are"
        hint = f"`--set table.transform=linear` standardises every column; {carry}"
        raise InputError(f"{where} has {what}: too {'close together' if apart < FINEST else 'large'}", hint)


def too_far(values: Floats, column: Column) -> Bools:
    """[N] whether each value lies more than FURTHEST standard deviations from the least value of the fit."""
    assert column.low is not None
    with np.errstate(over="ignore", invalid="ignore"):
        return np.isfinite(values) & (np.abs(values - column.low) > FURTHEST * column.deviation)
