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


def test_what_another_column_tells_is_no_unit() -> None:
    """A price that follows from what was bought."""
    kind = RNG.integers(0, 20, N)
    prices = np.concatenate([np.arange(0, 30, 3) + 61.5, 100 * (np.arange(0, 30, 3) + 61.5)])
    text = "kind,price,y\n" + "".join(f"k{k},{prices[k]},{i % 7}\n" for i, k in enumerate(kind))
    assert not [line for line in infer_schema(from_text(text))[1] if "two units" in line]
    other = "price,y\n" + "".join(f"{prices[k]},{i % 7}\n" for i, k in enumerate(kind))
    assert len([line for line in infer_schema(from_text(other))[1] if "two units" in line]) == 1
