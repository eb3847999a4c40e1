"""The order of levels that several dictionaries of Arrow have in common."""

from __future__ import annotations

from collections.abc import Sequence
from graphlib import CycleError, TopologicalSorter


def common_order(orders: Sequence[Sequence[str]]) -> list[str] | None:
    """The one order of all levels that every given one is a part of: `low < high` and `low < mid < high` make `low <
    mid < high`. None where there is no such order, or more than one."""
    if len(orders) == 1:
        return list(orders[0])
    before: TopologicalSorter[str] = TopologicalSorter()
    for order in orders:
        for place, level in enumerate(order):
            before.add(level, *order[:place][-1:])
    try:
        before.prepare()
    except CycleError:
        return None
    found: list[str] = []
    while before.is_active():
        ready = before.get_ready()
        if len(ready) > 1:
            return None
        found += ready
        before.done(*ready)
    return found
