"""Little's test: published figures, a closed form, its law under the null hypothesis, and what it is not made of."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor

from vgi_cli.fitting.mcar import little, straightened
from vgi_cli.maths.mcar import little_test

AIRQUALITY = Path(__file__).parents[1] / "data" / "airquality.csv"
"""Daily air quality in New York, 1973 (Chambers, Cleveland, Kleiner and Tukey 1983; R's `airquality`)."""


def test_figures_that_naniar_prints_for_airquality() -> None:
    x = torch.from_numpy(pd.read_csv(AIRQUALITY).to_numpy(float))
    test = little(x, x.isnan()).test
    assert test is not None
    assert f"{test.statistic:.1f}" == "35.1" and test.df == 14 and test.patterns == 4
    assert f"{test.p_value:.5f}" == "0.00142"


def test_units_change_nothing() -> None:
    x = torch.from_numpy(pd.read_csv(AIRQUALITY).to_numpy(float))
    first = little(x, x.isnan()).test
    second = little(1e6 - 1e4 * x, x.isnan()).test
    assert first is not None and second is not None
    assert second.statistic == pytest.approx(first.statistic, abs=1e-4)


def test_two_columns_by_hand() -> None:
    """x is observed in all rows, y in half of them: the statistic is that of two groups of x alone, since the other
    group's y is not there: sum of n_j (mean of x in group j - mean)^2 / variance for the half without y, and its
    two-dimensional counterpart for the other one, here by plain algebra."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=40), rng.normal(size=40)
    y[20:] = np.nan
    slope, level = np.polyfit(x[:20], y[:20], 1)  # the maximum-likelihood moments of a monotone pattern
    left = np.mean((y[:20] - level - slope * x[:20]) ** 2)
    variance = x.var()
    mean = np.array([x.mean(), level + slope * x.mean()])
    covariance = np.array([[variance, slope * variance], [slope * variance, left + slope**2 * variance]])
    delta = np.array([x[:20].mean(), y[:20].mean()]) - mean
    expected = 20 * delta @ np.linalg.solve(covariance, delta) + 20 * (x[20:].mean() - mean[0]) ** 2 / variance
    rows = torch.from_numpy(np.stack([x, y], 1))
    test = little(rows, rows.isnan()).test
    assert test is not None and test.df == 1
    assert test.statistic == pytest.approx(expected, rel=1e-5)
    assert test.p_value == pytest.approx(math.erfc(math.sqrt(expected / 2)), rel=1e-4)  # chi-squared with 1 df


def sample(generator: torch.Generator, mar: bool) -> Tensor:
    mix = torch.tensor([[1.0, 0.6, 0.2], [0.0, 0.8, 0.5], [0.0, 0.0, 0.9]], dtype=torch.float64)
    x = torch.randn(300, 3, generator=generator, dtype=torch.float64) @ mix
    gone = torch.rand(300, 2, generator=generator) < (torch.sigmoid(2 * x[:, :1] - 1) if mar else 0.3)
    x[:, 1:][gone] = torch.nan
    return x


def test_its_size_and_its_power() -> None:
    generator = torch.Generator().manual_seed(0)

    def p_values(mar: bool, count: int) -> list[float]:
        tests = [little(x, x.isnan()).test for x in (sample(generator, mar) for _ in range(count))]
        return [test.p_value for test in tests if test is not None]

    null = np.array(p_values(False, 40))
    assert len(null) == 40
    assert np.mean(null < 0.05) <= 0.15  # binomial: 0.05 and 2.9 standard errors
    assert abs(null.mean() - 0.5) < 0.14  # uniform: 3 standard errors
    assert max(p_values(True, 3)) < 1e-6


def test_skewed_columns_enter_by_their_normal_scores() -> None:
    generator = torch.Generator().manual_seed(3)
    raw, scored = [], []
    for _ in range(20):
        x = torch.randn(150, 2, generator=generator, dtype=torch.float64)
        x[:, 1] = (6 * x[:, 1]).exp()
        x[torch.rand(150, 2, generator=generator) < 0.3] = torch.nan
        straight = straightened(x)
        assert straight.scored == [1] and bool((straight.x.isnan() == x.isnan()).all())
        assert torch.equal(straight.x[:, 0].nan_to_num(), x[:, 0].nan_to_num())
        for found, rows in ((raw, x), (scored, straight.x)):
            test = little(rows, rows.isnan()).test
            assert test is not None
            found.append(test.p_value)
    assert sum(p < 0.05 for p in scored) <= 4  # binomial of 20 and 0.05: more once in 500
    assert np.mean(scored) > 0.3


def test_normal_scores_keep_order_and_ties() -> None:
    x = torch.tensor([[1.0], [1.0], [2.0], [1e9], [torch.nan], [3.0], [4.0], [5.0]], dtype=torch.float64)
    scores = straightened(x).x[:, 0]
    expected = torch.special.ndtri(torch.tensor([1.0, 1.0, 2.5, 6.5, 3.5, 4.5, 5.5], dtype=torch.float64) / 7)
    torch.testing.assert_close(scores[[0, 1, 2, 3, 5, 6, 7]], expected)


def test_why_it_is_not_made() -> None:
    x = torch.randn(6, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert little(x, x.isnan()).why_not == "all rows have the same pattern of holes"
    x[1:2, 0] = torch.nan
    few = x[:2]
    assert little(few, few.isnan()).why_not == "2 rows are too few for 2 columns"


def test_it_is_not_made_of_columns_that_are_never_observed_together() -> None:
    """No degree of freedom is left: each mean is that of the only pattern that has the column."""
    x = torch.randn(60, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    x[:30, 0] = torch.nan
    x[30:, 1] = torch.nan
    why_not = "no column is observed in two patterns of holes: there are no means to compare"
    assert little(x, x.isnan()).why_not == why_not
    with pytest.raises(ValueError, match="nothing to compare"):
        little_test(x.nan_to_num(), x.isnan(), torch.zeros(2).double(), torch.eye(2).double())


def test_it_is_not_made_where_a_column_has_too_few_values() -> None:
    """Three values of a column are a function of two others: its variance given these would be 0."""
    x = torch.randn(60, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    x[3:, 0] = torch.nan
    assert little(x, x.isnan()).why_not == "a column has 3 values, too few for the moments of 3 columns"


def test_it_is_not_made_of_columns_that_determine_each_other() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(60, 2, generator=generator, dtype=torch.float64)
    x = torch.cat([x, x.sum(1, keepdim=True)], 1)
    x[:20, 0] = torch.nan
    assert little(x, x.isnan()).why_not == "some columns determine others in the rows that there are"


def test_it_is_not_made_where_each_row_has_a_pattern_of_its_own() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(100, 12, generator=generator, dtype=torch.float64)
    x[torch.rand(100, 12, generator=generator) < 0.5] = torch.nan
    assert "nearly every row has one of its own" in str(little(x, x.isnan()).why_not)


def test_one_pattern_cannot_be_compared() -> None:
    x = torch.zeros(3, 2, dtype=torch.float64)
    with pytest.raises(ValueError, match="nothing to compare"):
        little_test(x, torch.zeros(3, 2, dtype=torch.bool), x[0], torch.eye(2, dtype=torch.float64))
