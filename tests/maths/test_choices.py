"""The logarithm of a number of ways to choose, against whole-number arithmetic."""

from __future__ import annotations

import math

import pytest

from vgi_cli.maths.choices import log_choices


@pytest.mark.parametrize(("n", "k"), [(0, 0), (1, 1), (7, 0), (7, 3), (40, 20), (1000, 10)])
def test_is_the_logarithm_of_the_binomial_coefficient(n: int, k: int) -> None:
    assert log_choices(n, k) == pytest.approx(math.log(math.comb(n, k)), rel=1e-12, abs=1e-12)
