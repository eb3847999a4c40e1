"""Where a conclusion about a mean tips: from which shift of the fills on its interval says something else."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from vgi_cli.reports.values import AtShift

WIDEST, STEPS = 2.0, 33
"""The shifts that are looked at: up to so many standard deviations either way, so many in all, none among them."""
STEP = 2 * WIDEST / (STEPS - 1)


def stands(at: AtShift, against: float) -> int:
    """Where the interval stands: -1 below a value, 0 around it, 1 above it."""
    return int(at.low > against) - int(at.high < against)


def tips(shifts: Sequence[AtShift], against: float) -> tuple[float | None, float | None]:
    """The shifts nearest to none, downwards and upwards, at which the interval stands elsewhere than without a shift,
    in standard deviations: between two that were looked at by a straight line. None where it never does.

    shifts  rising, the middle one none
    """
    middle = len(shifts) // 2
    return _first(shifts[middle::-1], against), _first(shifts[middle:], against)


def _first(shifts: Sequence[AtShift], against: float) -> float | None:
    begins = stands(shifts[0], against)
    for before, after in pairwise(shifts):
        ends = stands(after, against)
        if ends == begins:
            continue
        # the end of the interval that passes the value: of one around it the end that comes to it
        low = begins == 1 or (begins == 0 and ends == 1)
        first, second = ((at.low if low else at.high) - against for at in (before, after))
        return before.sd + (after.sd - before.sd) * first / (first - second)
    return None
