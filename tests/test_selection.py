"""What runs by default covers what it says, and everything runs in the end."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from tests.selection import covering, first, some


def split(mark: pytest.MarkDecorator) -> tuple[list[Any], list[Any]]:
    """The cases that run by default, and all."""
    cases = mark.mark.args[1]
    return [case.values for case in cases if not case.marks], [case.values for case in cases]


def test_of_two_axes_every_value_and_of_three_every_pair_runs() -> None:
    axes = {"a": [0, 1, 2], "b": ["x", "y"], "c": [False, True]}
    marks = [pytest.mark.parametrize(name, values) for name, values in axes.items()]
    two, all_two = split(covering(*marks[:2]))
    assert {a for a, _ in two} == {0, 1, 2} and {b for _, b in two} == {"x", "y"} and len(two) == 3
    assert all_two == list(itertools.product([0, 1, 2], "xy"))
    three, all_three = split(covering(*marks))
    for i, j in ((0, 1), (0, 2), (1, 2)):
        assert {(case[i], case[j]) for case in three} == {(case[i], case[j]) for case in all_three}
    assert len(three) == 6 and len(all_three) == 12


def test_names_that_are_said_together_stay_together() -> None:
    mark = covering(pytest.mark.parametrize(("a", "b"), [(0, 1), (2, 3)]), pytest.mark.parametrize("c", [(4,), (5,)]))
    assert mark.mark.args[0] == ["a", "b", "c"]
    assert split(mark) == ([(0, 1, (4,)), (2, 3, (5,))], [(0, 1, (4,)), (0, 1, (5,)), (2, 3, (4,)), (2, 3, (5,))])


def test_the_first_of_many_run() -> None:
    assert [case if isinstance(case, int) else case.values for case in first(2, range(3))] == [0, 1, (2,)]
    assert first(1, [(0, "a"), (1, "b")])[1].values == (1, "b")


def test_those_that_are_named_run() -> None:
    assert [case if isinstance(case, str) else case.values for case in some(["b"], "abc")] == [("a",), "b", ("c",)]
    assert some([(0, "a")], [(0, "a"), (1, "b")])[1].values == (1, "b")
    with pytest.raises(ValueError, match=r"no such case: \['d'\]"):
        some(["d"], "abc")
