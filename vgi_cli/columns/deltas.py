"""Shifts of the fills of a column away from the model: what sensitivity to non-ignorable missingness asks for.

A pattern-mixture model (Little 1993; Rubin 1977) says that the cells that are missing differ from those that the model
would put there: a number by a shift, a level by a factor of its odds. The data cannot say by how much; the user does.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from vgi_cli.columns.base import ModelledColumn
from vgi_cli.columns.datetime import Moment
from vgi_cli.columns.levelled import Levelled
from vgi_cli.columns.naming import level_of, place_of
from vgi_cli.columns.number import Number
from vgi_cli.columns.numerals import Bools, Floats
from vgi_cli.columns.schema import Schema
from vgi_cli.errors import UsageError

FORMS = "for example age=+0.5sd, age=-3 or smoker=yes:x1.5"
_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"


class Delta(NamedTuple):
    """By what the fills of one column differ from the draws of the model.

    said    the words, as `age=+0.5sd`
    column  its place among the modelled columns
    shift   what is added to a number, in its units (of dates days, or months, quarters, weeks; of other times seconds);
            None of levels
    level   the code of a level; None of numbers
    factor  of the odds of the level against all others
    """

    said: str
    column: int
    shift: float | None = None
    level: int | None = None
    factor: float = 1.0


def read_deltas(texts: Collection[str], schema: Schema) -> list[Delta]:
    """What `--delta` says of a fitted table. UsageError for what has no meaning there."""
    found = [_read(text, schema) for text in texts]
    for place, delta in enumerate(found):
        for other in found[:place]:
            if delta.column == other.column:
                raise UsageError(f"--delta {delta.said}: --delta {other.said} shifts the column already", "say it once")
    return found


def _read(text: str, schema: Schema) -> Delta:
    cuts = [(text[:at], text[at + 1 :]) for at, letter in enumerate(text) if letter == "="]
    if not cuts:
        raise UsageError(f"--delta: expected COL=SHIFT, got '{text}'", FORMS)
    place, by = place_of(f"--delta {text}", cuts, schema)
    column = schema.encoded[place]
    if isinstance(column, Levelled):
        return _of_levels(text, by, place, column)
    if not isinstance(column, Number | Moment):
        raise UsageError(f"--delta {text}: columns of kind {column.kind} have no shift", "leave it out")
    match = re.fullmatch(rf"\s*({_NUMBER})\s*(sd)?\s*", by)
    value = float(match[1]) if match else math.nan
    if match is None or not math.isfinite(value):
        raise UsageError(f"--delta {text}: expected a number, or a number and sd, got '{by}'", FORMS)
    return Delta(text, place, value * column.deviation if match[2] else value)


def _of_levels(text: str, by: str, place: int, column: Levelled) -> Delta:
    named, colon, factor = by.rpartition(":")
    match = re.fullmatch(rf"\s*x\s*({_NUMBER})\s*", factor)
    if not colon or match is None or not 0 < float(match[1]) < math.inf:
        raise UsageError(
            f"--delta {text}: '{column.name}' has levels: expected LEVEL:xFACTOR, a factor above 0 of its odds",
            f"for example {column.name}={column.texts[0]}:x1.5",
        )
    return Delta(text, place, None, level_of(f"--delta {text}", named, column), float(match[1]))


def unit_of(column: ModelledColumn) -> str:
    """The unit of a shift of a column of moments, in words; empty of numbers, whose unit is their own."""
    return ("days" if column.kind == "date" else "seconds") if isinstance(column, Moment) else ""


class Shifted(NamedTuple):
    """Codes [..] after a shift, and which of them were stopped by a bound."""

    codes: Floats
    stopped: Bools


def shifted(column: ModelledColumn, codes: Floats, shift: float, u: Floats) -> Shifted:
    """Fills [..] of a column of numbers or moments, moved by `shift` in its units.

    They stay what the column can hold: rounded to its resolution at random, so that they move by `shift` on average
    however fine that is (u [..] uniform on (0, 1)), and stopped by its bounds.
    """
    number = column.number if isinstance(column, Moment) else column
    if not isinstance(number, Number):
        raise TypeError(f"column '{column.name}' has no shift")
    moved = codes + shift
    if number.levels:
        levels = np.array(number.levels)
        stopped = (moved < levels[0]) | (moved > levels[-1])
        place = np.interp(moved, levels, np.arange(len(levels)))
        below = np.floor(place)
        return Shifted(levels[(below + (u < place - below)).astype(np.int64)], stopped)
    width = number.resolution or (1.0 if number.whole else 0.0)
    low, high = number.ends
    stopped = (moved < low) | (moved > high)
    return Shifted(np.clip(column.snap(moved + (u - 0.5) * width), low, high), stopped)
