"""`vgi report --tipping`: how the mean of a column moves with a shift of its fills."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from vgi_cli.columns.datetime import Moment
from vgi_cli.columns.deltas import unit_of
from vgi_cli.columns.levelled import Levelled
from vgi_cli.columns.naming import place_of
from vgi_cli.columns.number import Number
from vgi_cli.columns.numerals import Bools, Floats
from vgi_cli.columns.schema import Schema
from vgi_cli.commands.deltas import Tip, means_over_shifts
from vgi_cli.errors import UsageError
from vgi_cli.pooling.rubin import combine
from vgi_cli.reports.cells import spelled
from vgi_cli.reports.tipping import STEPS, WIDEST, tips
from vgi_cli.reports.values import AtShift, Tipping

LEVEL = 0.95
"""Of the intervals."""


class Asked(NamedTuple):
    """A column whose mean is looked at: its place among the modelled ones, and the value that the interval of its mean
    is held against (None: the mean without a shift)."""

    column: int
    value: float | None


def read_tipping(texts: Sequence[str], schema: Schema) -> list[Asked]:
    """What `--tipping COL` or `COL=VALUE` says of a fitted table. UsageError for what has no meaning there."""
    found = [_read(text, schema) for text in texts]
    for place, one in enumerate(found):
        if any(one.column == other.column for other in found[:place]):
            raise UsageError(f"--tipping {texts[place]}: the column was named already", "say it once")
    return found


def _read(text: str, schema: Schema) -> Asked:
    split = [(text[:at], text[at + 1 :]) for at in range(len(text)) if text[at] == "="]
    place, value = place_of(f"--tipping {text}", [(text, None), *split], schema)
    column = schema.encoded[place]
    name = column.name
    if isinstance(column, Levelled):
        raise UsageError(
            f"--tipping {text}: '{name}' has levels, which have no mean to shift",
            f"`vgi impute --delta {name}={column.texts[0]}:x1.5` changes their odds",
        )
    if not isinstance(column, Number | Moment):
        raise UsageError(f"--tipping {text}: columns of kind {column.kind} have no mean to shift", "leave it out")
    if value is None:
        return Asked(place, None)
    if isinstance(column, Moment):
        raise UsageError(f"--tipping {text}: a column of kind {column.kind} takes no value", f"--tipping {name}")
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise UsageError(f"--tipping {text}: expected a number after =, got '{value}'", f"--tipping {name}=3.5")
    return Asked(place, number)


def tipping(schema: Schema, asked: Asked, draws: Floats, missing: Bools, u: Floats) -> Tipping | None:
    """The pooled mean of a column over shifts of its fills; None where some completed column does not vary, or there is
    one draw only.

    draws    [m, N, columns] completed rows in data units; missing [N] the column's holes
    u        [m, N] for the rounding of what is moved: those of `vgi impute --delta`
    """
    column = schema.encoded[asked.column]
    sds = np.linspace(-WIDEST, WIDEST, STEPS)
    deviation = column.deviation
    found = means_over_shifts(schema, column.name, draws, missing, (sds * deviation).tolist(), u)
    rows = draws.shape[1]
    if len(draws) < 2 or not all((tip.variances > 0).all() for tip in found):
        return None
    shifts = [_pooled(sd, tip, rows) for sd, tip in zip(sds.tolist(), found, strict=True)]
    against = shifts[len(shifts) // 2].estimate if asked.value is None else asked.value
    below, above = tips(shifts, against)
    unit = unit_of(column)
    return Tipping(
        column=column.name,
        share=float(missing.mean()),
        unit=unit,
        origin=spelled(column, np.array([0.0]))[0] if unit else "",
        against=against,
        asked=asked.value is not None,
        text=spelled(column, np.array([against]))[0],
        shifts=shifts,
        below=below,
        above=above,
    )


def _pooled(sd: float, tip: Tip, rows: int) -> AtShift:
    from scipy.special import stdtrit

    found = combine(tip.estimates[:, None], tip.variances[:, None], rows - 1)
    estimate = float(found.estimate[0])
    half = float(stdtrit(found.df[0], (1 + LEVEL) / 2) * math.sqrt(found.total[0]))
    return AtShift(sd, tip.shift, estimate, estimate - half, estimate + half, tip.stopped)
