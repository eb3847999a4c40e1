"""Bounds: within which values the fills of a column stay, and why.

The largest value that was seen is not the largest there is: fills that stay in the observed range have too little
spread, and more so the more cells are missing in a tail. So a column is bounded only where something says that nothing
lies beyond (its natural limits), or by request.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from vgi_cli.columns.base import Bound, Column, Kind, Lattice, Schema, Spike
from vgi_cli.columns.limits import Asked
from vgi_cli.columns.numerals import Floats, plain
from vgi_cli.columns.spikes import find_spikes

FEW, MOST_FEW = 7, 12
"""Whole numbers from the least to the greatest observed one, up to which a column is a scale: its ends are limits. With
more than FEW the last values of a count look alike, so an end is one only ..."""
OFTEN = 5
"""... where it holds that many cells: the largest of a count is hardly ever seen more than once or twice."""
PILED = 0.01
"""Share of the observed cells that pile up at an end that is a limit (fewer than a spike needs to get room)."""
NEAREST = 1e-6
"""Fills of a column of positive numbers without resolution are at least that share of the least observed one."""
NAMED = 3
"""So many bounded columns are named where no detail was asked for."""
FAR = 100.0
"""A limit of the type that is farther away than so many times the observed range is not worth a word."""
WHY: dict[str, str] = {
    "sign": "its sign",
    "spike": "values pile up there",
    "few": "few whole numbers",
    "levels": "the values that occur",
    "type": "the file's type",
    "asked": "--bounds",
    "observed": "observed range",
}
WHERE = {
    "sign": "on their side of zero",
    "spike": "within an end where values pile up",
    "few": "on a scale of few whole numbers",
    "levels": "on the values that occur",
    "asked": "within --bounds",
    "observed": "in the observed range",
}


def bounds_of(
    values: Floats, kind: Kind, lattice: Lattice | None, asked: Asked | None, limits: tuple[float, float] | None
) -> tuple[Bound | None, Bound | None]:
    """The least and the greatest admissible fill of a column, None where it has no bound on that side.

    values   [n] observed values
    asked    what the user asked for
    limits   of the column's type in the file

    Both are values that the column can take. A natural limit is, the first of these that there is: values that pile up
    at the end; few whole numbers; zero, where no value lies beyond it (and not zero itself unless it was observed); the
    limit of the type.
    """
    piles: tuple[Spike, ...] = ()
    if lattice is not None and (asked is None or asked.rule == "range"):
        piles = find_spikes(values, lattice.resolution, PILED)
    low, high = (_bound(values, kind, lattice, asked, limits, piles, side) for side in (-1, 1))
    return low, high


def _bound(
    values: Floats,
    kind: Kind,
    lattice: Lattice | None,
    asked: Asked | None,
    limits: tuple[float, float] | None,
    piles: tuple[Spike, ...],
    side: int,
) -> Bound | None:
    """The bound at the lower (-1) or the upper (1) end."""
    end = float(values.min() if side < 0 else values.max())
    if asked is not None:
        limit = asked.low if side < 0 else asked.high
        if asked.rule == "none":
            return None
        if asked.rule == "observed":
            return Bound(end, "observed")
        if limit is not None:
            return Bound(_inside(limit, end, kind, lattice, side), "asked")
    for pile in piles:
        if lattice is not None and pile.holds(np.array(end), lattice.resolution):
            return Bound(pile.value, "spike")
    if kind == "integer" and lattice is not None and _is_scale(values, lattice, end):
        return Bound(end, "few")
    if side * end <= 0:
        return Bound(_beside_zero(end, kind, lattice, side), "sign")
    if limits is not None:
        return Bound(_inside(limits[0] if side < 0 else limits[1], end, kind, lattice, side), "type")
    return None


def _is_scale(values: Floats, lattice: Lattice, end: float) -> bool:
    """Whether the end of a column of whole numbers is that of a scale."""
    span = round((float(values.max()) - float(values.min())) / lattice.resolution) + 1
    if span > MOST_FEW or 2 * len(np.unique(values)) > len(values):
        return False
    return span <= FEW or int((values == end).sum()) >= OFTEN


def _inside(limit: float, end: float, kind: Kind, lattice: Lattice | None, side: int) -> float:
    """The outermost value of the column within a limit that the observed end does not exceed."""
    if lattice is None:
        return float(np.floor(limit) if side > 0 else np.ceil(limit)) if kind == "integer" else limit
    nearest = float(lattice.snap(np.array(limit)))
    if side * nearest > side * limit:
        nearest = float(lattice.snap(np.array(nearest - side * lattice.resolution)))
    return max(nearest, end) if side > 0 else min(nearest, end)  # the end may be on no lattice


def _beside_zero(end: float, kind: Kind, lattice: Lattice | None, side: int) -> float:
    """The value of the column next to zero on the side of an observed end that is not zero; else zero."""
    if end == 0:
        return 0.0
    if lattice is None:
        return -side * min(1.0, abs(end)) if kind == "integer" else NEAREST * end or end
    units = (-side * lattice.origin) % lattice.step or lattice.step
    nearest = float(lattice.snap(np.array(-side * units / 10.0**lattice.decimals)))
    return min(nearest, end) if side < 0 else max(nearest, end)  # the end may be on no lattice


def bound_lines(schema: Schema) -> tuple[str | None, list[str]]:
    """One line on what is bounded and why (None where nothing is), and one on each bounded column."""
    lines = [f"fills of '{c.name}': {words}" for c in schema.encoded if (words := _words(c))]
    said = [c for c in schema.encoded if any(bound.why in WHERE for bound in c.bounds)]
    if not said:
        return None, lines
    if len(said) <= NAMED:
        return "fills stay within limits: " + "; ".join(f"'{c.name}' {_words(c)}" for c in said), lines
    counts: Counter[str] = Counter(why for c in said for why in {bound.why for bound in c.bounds})
    parts = [f"{where} ({counts[why]} columns)" for why, where in WHERE.items() if why in counts]
    summary = ", ".join(parts).replace("(1 columns)", "(1 column)")
    return f"fills stay {summary}; -v lists the limits, --bounds sets others", lines


def _words(column: Column) -> str:
    """`above 0 (its sign), at most 50 (values pile up there)`; empty where nothing is worth a word."""
    low, high = (None if bound is None or _far(bound, column) else bound for bound in (column.lower, column.upper))
    if column.levels:
        return f"only {', '.join(plain(v) for v in column.levels)} ({WHY['levels']})"
    if low is not None and high is not None and low.why == high.why:
        return f"{plain(low.value)} to {plain(high.value)} ({WHY[low.why]})"
    words = []
    for bound, beyond, within in ((low, "above", "at least"), (high, "below", "at most")):
        if bound is not None:
            strict = bound.why == "sign" and bound.value != 0
            words.append(f"{beyond} 0" if strict else f"{within} {plain(bound.value)}")
            words[-1] += f" ({WHY[bound.why]})"
    return ", ".join(words)


def _far(bound: Bound, column: Column) -> bool:
    """Whether a bound is a limit of the type far from what was observed."""
    low, high = column.low or 0.0, column.high or 0.0
    away = max(low - bound.value, bound.value - high)
    return bound.why == "type" and away > FAR * (high - low)
