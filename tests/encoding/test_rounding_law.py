"""What rounding leaves of a sum, against draws, closed forms and quadrature."""

from __future__ import annotations

import numpy as np
import pytest

from tests.selection import first
from vgi_cli.columns.numerals import Floats
from vgi_cli.encoding.rounding_law import by_rounding, density, quantiles


@pytest.mark.parametrize("halves", [[0.5], [0.5, 0.5], [0.05, 0.2], [0.5, 0.5, 0.5], [0.05, 0.05, 0.1, 0.3, 0.05]])
def test_the_density_and_the_quantiles_are_those_of_a_sum_of_uniform_numbers(halves: list[float]) -> None:
    own, rng = np.array(halves), np.random.default_rng(0)
    x = np.linspace(-own.sum(), own.sum(), 4_001)
    heights = density(x, own)
    assert np.trapezoid(heights, x) == pytest.approx(1, abs=2e-3)
    assert np.trapezoid(heights * x**2, x) == pytest.approx(np.square(own).sum() / 3, rel=5e-3)
    drawn = rng.uniform(-own, own, (200_000, len(own))).sum(1)
    shares = np.linspace(0.01, 0.99, 25)
    np.testing.assert_allclose(quantiles(shares, own), np.quantile(drawn, shares), rtol=0, atol=0.01 * own.sum())
    assert density(np.array([1.01 * own.sum()]), own) == 0


def test_closed_forms() -> None:
    half = np.full(3, 0.5)
    np.testing.assert_allclose(density(np.array([0.0, 0.5, 1.0]), half), [0.75, 0.5, 0.125], atol=1e-5)  # Irwin-Hall
    np.testing.assert_allclose(density(np.array([0.0, 0.5, 1.0]), half[:2]), [1.0, 0.5, 0.0])
    assert (quantiles(np.array([0.2, 0.9]), np.zeros(2)) == 0).all()


def rounded(x: Floats, weights: tuple[float, ...], digits: tuple[int, ...]) -> tuple[Floats, Floats]:
    """What rounding leaves of a sum of columns [n, columns], and half of what last digits count, times weights."""
    total = (x @ weights).round(digits[0])
    parts = np.stack([column.round(digit) for column, digit in zip(x.T, digits[1:], strict=True)], 1)
    return total - parts @ weights, np.abs([1.0, *weights]) * 0.5 / 10.0 ** np.array(digits)


@pytest.mark.parametrize("n", [30, 300, 30_000])
class TestByRounding:
    @pytest.mark.parametrize("seed", first(2, range(5)))
    @pytest.mark.parametrize(
        ("weights", "digits"),
        [
            ((2.2046,), (1, 1)),
            ((1.0, 1.0), (0, 0, 0)),
            ((1.0, 1.0, 1.0, 1.0), (1, 1, 1, 1, 1)),
            ((0.1, -1.0), (0, 1, 0)),
        ],
    )
    def test_what_was_rounded(self, n: int, seed: int, weights: tuple[float, ...], digits: tuple[int, ...]) -> None:
        x = np.random.default_rng(seed).normal(50, 20, (n, len(weights)))
        assert by_rounding(*rounded(x, weights, digits))
        assert by_rounding(*rounded(x.round(2), weights, digits))  # rounded once before: half way is met now and then

    def test_two_columns_in_the_same_units(self, n: int) -> None:
        half, rng = np.full(2, 0.5), np.random.default_rng(0)
        assert by_rounding(np.zeros(n), half)
        assert by_rounding(rng.choice([-0.8, 0.2], n, p=[0.2, 0.8]), half)
        for share in ([0.1, 0.2, 0.7], [0.25, 0.5, 0.25], [1 / 3, 1 / 3, 1 / 3]):
            assert not by_rounding(rng.choice([-1.0, 0.0, 1.0], n, p=share), half)

    def test_sums_that_are_off_by_more(self, n: int) -> None:
        half, rng = np.full(3, 0.5), np.random.default_rng(0)
        assert not by_rounding(rng.choice([-1.0, 0.0, 1.0], n), half)
        if n >= 300:
            x = rng.normal(50, 10, (n, 2))
            noisy = (x.sum(1) + rng.normal(0, 0.5, n)).round() - x.round().sum(1)
            assert not by_rounding(noisy, half)
