"""Columns whose numbers are in two units: named, and told from others in two groups."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from tests.table.helpers import from_text
from vgi_cli.columns.wording import Alarm
from vgi_cli.encoding.infer import infer_schema

N = 300
RNG = np.random.default_rng(0)
HEIGHTS = np.round(RNG.normal(170, 9, N))
FEW = RNG.random(N) < 0.25
SKEWED = np.round(np.exp(RNG.normal(2, 1.2, N)), 2)


def said(values: npt.ArrayLike, **options: str) -> list[str]:
    """What is said of two units in a column `x` of these values."""
    cells = (f"{value:.10g}" for value in np.asarray(values, float))
    text = "x;y\n" + "".join(f"{cell};{k % 7}\n" for k, cell in enumerate(cells))
    text = text.replace(".", options.get("decimal", "."))
    return [line for line in infer_schema(from_text(text, delimiter=";", **options))[1] if "two units" in line]


def test_heights_in_metres_and_centimetres() -> None:
    values = np.where(FEW, np.round(HEIGHTS / 100, 2), HEIGHTS)
    low, high = values[FEW], values[~FEW]
    for decimal in (".", ","):
        [line] = said(values, decimal=decimal)
        assert isinstance(line, Alarm) and line == (
            f"column 'x' may be in two units: {FEW.sum()} cells are from {low.min()} to {low.max()}, {(~FEW).sum()} "
            f"from {high.min():g} to {high.max():g}, 100 times as much; write all in one, or fills will be in neither"
        ).replace(".", decimal)


@pytest.mark.parametrize(
    ("values", "factor"),
    [
        (np.where(FEW, HEIGHTS * 10, HEIGHTS), 10),
        (np.where(FEW, HEIGHTS / 1000, HEIGHTS), 1000),
        (np.where(FEW, HEIGHTS * 100, np.where(RNG.random(N) < 0.1, 99999, HEIGHTS)), 100),  # and a code
        (np.where(np.arange(N) < 12, np.round(HEIGHTS / 100, 2), HEIGHTS), 100),
        (np.where(np.arange(N) < 3, np.round(HEIGHTS / 100, 2), HEIGHTS), None),  # three people
        (HEIGHTS, None),
        (SKEWED, None),
        (np.where(FEW, SKEWED, 100 * SKEWED), None),  # values of one unit reach into the other
        (np.where(FEW, HEIGHTS / 30, HEIGHTS), None),  # no power of ten
        (np.where(FEW, HEIGHTS / 100, HEIGHTS / 4 + 130), None),  # two groups that vary otherwise
        (np.where(FEW, -HEIGHTS, HEIGHTS), None),
        (np.where(FEW, 0, HEIGHTS), None),
        (np.where(FEW, 1, 100), None),
        (np.repeat([1, 2, 5, 10, 20, 50, 100, 200, 500, 1000], N // 10), None),  # money
    ],
)
def test_which_columns_are_in_two_units(values: npt.ArrayLike, factor: int | None) -> None:
    lines = said(values)
    assert len(lines) == (factor is not None) and all(f", {factor:,} times as much" in line for line in lines)


@pytest.mark.parametrize(
    ("values", "much"),
    [
        (np.where(FEW, np.round(HEIGHTS / 18.02, 1), HEIGHTS), "18.02 times as much (mg/dl and mmol/l of glucose?)"),
        (np.where(FEW, np.round(HEIGHTS / 88.4, 2), HEIGHTS), "88.4 times as much (µmol/l and mg/dl of creatinine?)"),
        (np.where(FEW, np.round(HEIGHTS / 2.54, 1), HEIGHTS), "2.54 times as much (cm and inches?)"),
        (np.where(FEW, np.round(HEIGHTS / 2.2046, 1), HEIGHTS), "2.2046 times as much (pounds and kg?)"),
        (np.where(FEW, (HEIGHTS / 8 + 150) * 1.609, HEIGHTS / 8 + 150), "1.609 times as much (km and miles?)"),
        (np.where(FEW, np.round(HEIGHTS * 3.6, 1), HEIGHTS), "3.6 times as much (km/h and m/s?)"),
        (
            np.where(FEW, HEIGHTS / 5, HEIGHTS / 5 * 1.8 + 32),
            "1.8 times as much and 32 (degrees Fahrenheit and Celsius?)",
        ),
        (np.where(FEW, np.round(HEIGHTS / 2.7, 1), HEIGHTS), None),
        (np.where(np.arange(N) < 6, np.round(HEIGHTS / 2.54, 1), HEIGHTS), None),  # too few to tell 2.54 from 2.7
        (np.where(FEW, np.round((HEIGHTS / 2 + 85) / 2.54, 1), HEIGHTS), None),  # they vary half as much
    ],
)
def test_units_that_people_mix_are_named(values: npt.NDArray[np.float64], much: str | None) -> None:
    lines = said(values)
    assert len(lines) == (much is not None) and all(f", {much}; write all" in line for line in lines)


def test_a_power_of_ten_comes_first_where_it_may_be_another_factor_too() -> None:
    """Rates in percent, a tenth of them as fractions."""
    for seed in range(1, 5):
        rates = np.random.default_rng(seed).normal(7, 2.2, 400).clip(2).round(2)
        rates[::10] = (rates[::10] / 100).round(4)
        (found,) = said(rates)
        assert ", 100 times as much" in found
        assert found.count("times") == 1 or ", or 88.4 times (µmol/l and mg/dl of creatinine?); write" in found


def test_two_groups_of_one_unit_are_seldom_said_to_be_two() -> None:
    rng = np.random.default_rng(1)
    lines = 0
    for _ in range(60):
        other = np.exp(rng.normal(5 - np.log(rng.uniform(1.5, 5)), rng.uniform(0.03, 0.15), N))
        lines += len(said(np.round(np.where(rng.random(N) < 0.4, other, HEIGHTS), 1)))
    assert lines <= 2


def test_what_another_column_tells_is_no_unit() -> None:
    """A price that follows from what was bought."""
    kind = RNG.integers(0, 20, N)
    prices = np.concatenate([np.arange(0, 30, 3) + 61.5, 100 * (np.arange(0, 30, 3) + 61.5)])
    text = "kind,price,y\n" + "".join(f"k{k},{prices[k]},{i % 7}\n" for i, k in enumerate(kind))
    assert not [line for line in infer_schema(from_text(text))[1] if "two units" in line]
    other = "price,y\n" + "".join(f"{prices[k]},{i % 7}\n" for i, k in enumerate(kind))
    assert len([line for line in infer_schema(from_text(other))[1] if "two units" in line]) == 1
