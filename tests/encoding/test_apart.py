"""Rows in which fills do not keep to rules, counted with and without cells that stay blank."""

from __future__ import annotations

import numpy as np

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
