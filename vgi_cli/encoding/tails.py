"""Values beyond the tails of a column of numbers: farther out than the others of their side go on, however heavy their
tail is.

Distances from the median are compared by their logarithms. Beyond a high distance those of a power law are exponential,
and those of all lighter tails fall off sooner, so that a gap is judged as if the tail were a power law: its exponent is
estimated by the mean excess of the greatest distances (Hill's estimator).
"""

from __future__ import annotations

import numpy as np

from vgi_cli.columns.numerals import Floats

MOST, SHARE = 5, 0.01
"""Cells of a side at most that may lie beyond its tail, one at least, and what share of all cells."""
COMPARED = (10, 20, 50)
"""Of the distances of the others so many of the greatest say how the tail goes on: each number by itself, as a tail may
grow heavier or lighter on its way, where the side has twice as many."""
CHANCE = 3e-4
"""The probability of such a gap, or a wider one, by each of them."""
CHANCE_OF_PILE = 0.02
"""The same for one value that many cells hold, as if one did."""
FACTOR, FACTOR_ENDED = 3.0, 10.0
"""So many times as far from the median as the farthest other value they are at least; and so many where ENDED cells
hold that one, at which the tail ends then (the highest answer of a scale, a minimum of 30 nights)."""
ENDED = 20


def beyond_tails(values: Floats) -> Floats:
    """Of some finite values the different ones, smallest first, that lie beyond the tail of their side."""
    half = values / 2  # the distances of float64 numbers may be infinite
    most = int(min(MOST, max(1, SHARE * len(half))))
    if len(half) <= 2 * COMPARED[0]:
        return np.empty(0)
    middle = float(np.median(half))
    if not any(_has_gap(distances, most) for distances in (middle - half, half - middle)):
        return np.empty(0)
    ordered = np.sort(half)
    low, high = (middle - ordered)[::-1], ordered - middle
    below, above = _beyond(low[low > 0], most), _beyond(high[high > 0], most)
    return np.unique(2 * np.concatenate([ordered[:below], ordered[len(ordered) - above :]]))


def lies_beyond(ordered: Floats, value: float) -> bool:
    """Whether one value, in however many cells, lies beyond the tail of its side of others [n], smallest first."""
    middle = float(np.median(ordered / 2))
    distances = np.sort(np.abs(ordered / 2 - middle)[(ordered > 2 * middle) == (value > 2 * middle)])
    logs = np.log(distances[distances > 0])
    if len(logs) < 2 * COMPARED[0]:
        return False
    gap = float(np.log(abs(value / 2 - middle)) - logs[-1])
    tails = [m for m in COMPARED if 2 * m <= len(logs)]
    return gap > np.log(FACTOR) and all(_chance(logs, gap, m) < CHANCE_OF_PILE for m in tails)


def _has_gap(distances: Floats, most: int) -> bool:
    """Whether one of the `most` greatest distances is so many times the next smaller one: without, no value lies beyond
    its tail, and not all have to be sorted."""
    greatest = np.sort(np.partition(distances, -most - 1)[-most - 1 :])
    return bool((np.diff(np.log(greatest[greatest > 0])) > np.log(FACTOR)).any())


def _beyond(distances: Floats, most: int) -> int:
    """How many of some positive distances, smallest first, lie beyond the tail of the others, `most` at most."""
    logs = np.log(distances)
    for count in range(min(most, len(logs) - 2 * COMPARED[0]), 0, -1):
        rest, gap = logs[:-count], float(logs[-count] - logs[-count - 1])
        ended = gap > np.log(FACTOR_ENDED) and rest[-ENDED] == rest[-1]
        tails = [m for m in COMPARED if 2 * m <= len(rest)]
        if ended or (gap > np.log(FACTOR) and all(_chance(rest, count * gap, m) < CHANCE for m in tails)):
            return count
    return 0


def _chance(logs: Floats, gap: float, compared: int) -> float:
    """The probability that the first of some values beyond sorted logarithms lies so far above these, times their
    number, where these are exponential with the mean excess of so many of the greatest. A value that several cells
    hold was rounded, by half the distance to the next one (the least one as if that were half of it)."""
    place = np.concatenate([[True], np.diff(logs) > 0])
    group = np.cumsum(place) - 1
    held, often = logs[place], np.bincount(group)
    rounded = np.where(often > 1, np.diff(held, prepend=held[0] - np.log(2)) / 2, 0.0)[group]
    total = float((logs[-compared:] - logs[-compared - 1] + rounded[-compared:]).sum())
    return (1 + gap / total) ** -compared
