"""Which of the many cases of a test run by default. The others are slow: they run with `-m slow`, before releases."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable
from typing import Any

import pytest

Mark = pytest.MarkDecorator


def covering(*axes: Mark) -> Mark:
    """All combinations of what `pytest.mark.parametrize` would take one by one. By default few of them run: of two
    axes every value occurs, of more every pair of values."""
    names = [axis.mark.args[0] for axis in axes]
    values = [list(axis.mark.args[1]) for axis in axes]
    every = list(itertools.product(*(range(len(some)) for some in values)))
    together = min(2, len(axes) - 1)

    def parts(case: tuple[int, ...]) -> set[tuple[tuple[int, int], ...]]:
        return set(itertools.combinations(enumerate(case), together))

    left, few = set().union(*map(parts, every)), set()
    while left:
        best = max(every, key=lambda case: len(parts(case) & left))  # the first of equals
        few.add(best)
        left -= parts(best)
    flat = [name.strip() for some in names for name in (some.split(",") if isinstance(some, str) else some)]
    cases = []
    for case in every:
        row: list[Any] = []
        for name, some, i in zip(names, values, case, strict=True):
            row += [some[i]] if isinstance(name, str) and "," not in name else some[i]
        cases.append(pytest.param(*row, marks=[] if case in few else pytest.mark.slow))
    return pytest.mark.parametrize(flat, cases)


def first(count: int, cases: Iterable[Any]) -> list[Any]:
    """The first cases run by default: the others differ from them by chance alone, or are easier. A tuple holds several
    arguments."""
    return [
        case if i < count else pytest.param(*(case if isinstance(case, tuple) else [case]), marks=pytest.mark.slow)
        for i, case in enumerate(cases)
    ]


def some(kept: Collection[Any], cases: Iterable[Any]) -> list[Any]:
    """Those of the cases run by default that are named: the others run the same lines, or take longer and say no more.
    A tuple holds several arguments."""
    every = list(cases)
    if not all(case in every for case in kept):
        raise ValueError(f"no such case: {[case for case in kept if case not in every]}")
    return [
        case if case in kept else pytest.param(*(case if isinstance(case, tuple) else [case]), marks=pytest.mark.slow)
        for case in every
    ]
