"""What is said of where the fills of columns stay: limits, gaps and heaps, in words with their reasons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from vgi_cli.columns.base import Column, ModelledColumn
from vgi_cli.columns.bounds import Bound
from vgi_cli.columns.heaps import Heaps
from vgi_cli.columns.lattice import Lattice
from vgi_cli.columns.numerals import plain
from vgi_cli.columns.wording import first_names

NAMED = 3
"""So many bounded columns are named where no detail was asked for."""
FAR = 100.0
"""A limit of the type that is farther away than so many times the observed range is not worth a word."""
WHY: dict[str, tuple[str, str]] = {
    "sign": ("its sign", "on their side of zero"),
    "spike": ("values pile up there", "within an end where values pile up"),
    "few": ("few whole numbers", "on a scale of few whole numbers"),
    "halves": ("few half steps", "on a scale of few half steps"),
    "repeated": ("few values that occur again and again", "on few values that occur again and again"),
    "even": ("cells are dense up to both ends", "within ends up to which cells are dense"),
    "calendar": ("the calendar", "within the calendar"),
    "levels": ("the values that occur", "on the values that occur"),
    "asked": ("--bounds", "within --bounds"),
    "observed": ("observed range", "in the observed range"),
    "type": ("the file's type", ""),
}
"""Why a column has a bound, and where its fills stay for that reason (not worth a word: empty)."""

Spell = Callable[[float], str]
"""How a column writes a value."""


def bound_lines(columns: Sequence[Column]) -> tuple[str | None, list[str]]:
    """One line on what is bounded and why (None where nothing is), and one on all columns with the same bounds, or with
    the same gaps or heaps."""
    modelled = [column for column in columns if isinstance(column, ModelledColumn)]
    limited = [(c.name, c.limits) for c in modelled if c.limits is not None]
    lines = _together([(name, limits.words) for name, limits in limited])
    lines += _together([(c.name, c.gaps_said) for c in modelled])
    lines += _together([(c.name, c.heaps_said) for c in modelled])
    said = [(name, limits) for name, limits in limited if any(WHY[why][1] for why in limits.reasons)]
    if not said:
        return None, lines
    if len(said) <= NAMED:
        return "fills stay within limits: " + "; ".join(f"'{name}' {limits.words}" for name, limits in said), lines
    counts: Counter[str] = Counter(why for _, limits in said for why in set(limits.reasons))
    parts = [f"{where} ({counts[why]} columns)" for why, (_, where) in WHY.items() if where and why in counts]
    summary = ", ".join(parts).replace("(1 columns)", "(1 column)")
    return f"fills stay {summary}; -v lists the limits, --bounds sets others", lines


def _together(said: Sequence[tuple[str, str]]) -> list[str]:
    """`fills of 'a', 'b' and 3 more: above 0 (its sign)`: a line on all columns of which the same is said, in the order
    of the first of each; `said`: name and words, none where these are empty."""
    groups: dict[str, list[str]] = {}
    for name, words in said:
        if words:
            groups.setdefault(words, []).append(f"'{name}'")
    return [f"fills of {first_names(names)}: {words}" for words, names in groups.items()]


def levels_in_words(levels: Sequence[float], spell: Spell) -> str:
    """`only 1, 2, 5 (the values that occur)`."""
    return f"only {', '.join(map(spell, levels))} ({WHY['levels'][0]})"


def limits_in_words(lower: Bound | None, upper: Bound | None, seen: tuple[float, float], spell: Spell) -> str:
    """`above 0 (its sign), at most 50 (values pile up there)`; empty where nothing is worth a word. `seen`: the least
    and the greatest observed value."""
    low, high = (None if bound is None or _far(bound, seen) else bound for bound in (lower, upper))
    if low is not None and high is not None and low.why == high.why:
        return f"{spell(low.value)} to {spell(high.value)} ({WHY[low.why][0]})"
    words = []
    for bound, beyond, within in ((low, "above", "at least"), (high, "below", "at most")):
        if bound is not None:
            strict = bound.why == "sign" and bound.value != 0
            words.append(f"{beyond} {spell(0.0)}" if strict else f"{within} {spell(bound.value)}")
            words[-1] += f" ({WHY[bound.why][0]})"
    return ", ".join(words)


def _far(bound: Bound, seen: tuple[float, float]) -> bool:
    """Whether a bound is a limit of the type far from what was observed."""
    low, high = seen
    away = max(low - bound.value, bound.value - high)
    return bound.why == "type" and away > FAR * (high - low)


def gaps_in_words(gaps: Sequence[tuple[float, float]], spell: Spell) -> str:
    """`not in 29 gaps between values that occur again and again, such as 0.0896 to 0.1045`, the widest one; empty where
    there are none."""
    if not gaps:
        return ""
    low, high = max(gaps, key=lambda gap: gap[1] - gap[0])
    many = f"{len(gaps)} gaps" if len(gaps) > 1 else "a gap"
    such = ", such as" if len(gaps) > 1 else ":"
    return f"not in {many} between values that occur again and again{such} {spell(low)} to {spell(high)}"


def heaps_in_words(heaps: Heaps, lattice: Lattice) -> str:
    """`multiples of 5 as often as in the column (51% of its cells; by chance 20%)`, by the unit that stands out
    most."""
    unit, share = heaps.most()
    of = plain(float(lattice.snap(np.array(unit * heaps.resolution))))
    return f"multiples of {of} as often as in the column ({share:.0%} of its cells; by chance {1 / unit:.0%})"
