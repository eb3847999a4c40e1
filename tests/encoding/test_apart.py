"""Rows in which fills do not keep to rules, counted with and without cells that stay blank."""

from __future__ import annotations

import numpy as np

from vgi_cli.columns.structural_zeros import Part, StructuralZeros
from vgi_cli.encoding.apart import Apart


def test_a_row_is_apart_while_one_rule_without_a_blank_cell_is_not_kept_to() -> None:
    apart = Apart((1, 4))
    apart.add([0, 1], np.array([[True, True, False, False]]))
    other = Apart((1, 4))
    other.add([2], np.array([[False, True, True, False]]))
    apart.update(other)
    assert apart.count() == 3
    draws = np.zeros((1, 4, 3))
    assert apart.count(draws) == 3
    draws[0, :, 0] = np.nan
    assert apart.rows(draws).tolist() == [[False, True, True, False]]
    draws[0, 1, 2] = np.nan
    assert apart.rows(draws).tolist() == [[False, False, True, False]]


def test_rules_are_counted_by_rows() -> None:
    part = Part("at", 0.0)
    one, other = (StructuralZeros(names, ((part, part),), ((0.0, 1.0),)) for names in (("a", "b"), ("a", "c")))
    apart = Apart((2, 3))
    apart.add([0, 1], np.array([[True, True, False], [True, False, False]]), one)
    apart.add([0, 1], np.array([[True, False, True], [False, False, False]]), one)
    apart.add([0, 2], np.array([[False, False, False], [True, False, True]]), other)
    apart.add([1, 2], np.array([[False, False, False], [False, True, False]]))
    assert apart.counts() == {one: 4, other: 2} and apart.count() == 6
    draws = np.zeros((2, 3, 3))
    draws[1, 0, 2] = np.nan
    assert apart.counts(draws) == {one: 4, other: 1}
    apart.mend(np.array([[True, True, True], [True, False, False]]))
    assert apart.counts() == {other: 1} and apart.count() == 2
