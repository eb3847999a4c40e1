"""Values beyond the tails of their column are named, also where one of them hides another; those of a heavy tail are
not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest

from vgi_cli.encoding.infer import infer_schema
from vgi_cli.encoding.tails import beyond_tails
from vgi_cli.table.frames import from_frame

Floats = npt.NDArray[np.float64]
RNG = np.random.default_rng(0)
N = 2_000
NIGHTS = RNG.choice([1.0, 2, 3, 4, 5, 7, 14, 30], N, p=[0.2, 0.3, 0.18, 0.05, 0.05, 0.05, 0.02, 0.15])
AREAS = np.exp(RNG.normal(4.6, 0.4, N)).round()
YEARS = RNG.normal(1965, 30, N).round().clip(1830, 2018)
HEAVY: dict[str, Callable[[np.random.Generator, int], Floats]] = {
    "normal": lambda rng, n: rng.normal(size=n),
    "two sizes": lambda rng, n: np.where(rng.random(n) < 0.8, 1.0, 10.0) * rng.normal(size=n),
    "t with 3 degrees of freedom": lambda rng, n: rng.standard_t(3, n),
    "Cauchy": lambda rng, n: rng.standard_cauchy(n),
    "Pareto of exponent 1": lambda rng, n: 1 / rng.random(n),
    "lognormal": lambda rng, n: np.exp(rng.normal(0, 2, n)),
    "amounts to the nearest 100": lambda rng, n: np.exp(rng.normal(5, 1.5, n)).round(-2),
    "counts": lambda rng, n: rng.negative_binomial(0.3, 0.02, n).astype(float),
    "rare counts": lambda rng, n: (rng.random(n) < 0.05) * rng.geometric(0.5, n).astype(float),
    "Zipf": lambda rng, n: rng.zipf(2.2, n).astype(float),
    "mostly zero": lambda rng, n: np.where(rng.random(n) < 0.8, 0.0, np.exp(rng.normal(0, 1.5, n))),
}


@pytest.mark.parametrize(
    ("values", "far"),
    [
        (NIGHTS, [1125, 1e8]),
        (NIGHTS, [1125, 9999]),
        (NIGHTS, [1e8]),
        (NIGHTS, [1125]),
        (RNG.choice(5, 150) + 1.0, [55]),
        (AREAS, [3558, 6791, 44515]),
        (YEARS, [1196]),
        (YEARS, [1196, 20199]),
        (np.concatenate([YEARS, [1196.0]]), [1196]),  # the same one twice
        (1e300 * AREAS, [1.5e308, 1.7e308]),
    ],
)
def test_values_beyond_the_tail_of_others(values: Floats, far: list[float]) -> None:
    assert beyond_tails(RNG.permutation([*values, *far])).tolist() == far


@pytest.mark.parametrize("law", HEAVY)
@pytest.mark.parametrize("cells", [60, 400, 3_000])
def test_values_of_a_heavy_tail_are_not_beyond_it(law: str, cells: int) -> None:
    """By more than one column in 50."""
    rng = np.random.default_rng(1)
    assert sum(len(beyond_tails(HEAVY[law](rng, cells))) > 0 for _ in range(100)) <= 2


def test_few_cells_say_nothing_of_a_tail() -> None:
    assert not len(beyond_tails(np.array([*range(20), 1e6])))
    assert not len(beyond_tails(np.zeros(0)))
    assert not len(beyond_tails(np.full(100, 7.0)))
    assert not len(beyond_tails(np.array([0.0] * 990 + [5.0] * 10)))
    assert not len(beyond_tails(np.array([0.0] * 900 + [1.0] * 30 + [9.0])))


def said(**columns: npt.ArrayLike) -> list[str]:
    return [line for line in infer_schema(from_frame(pd.DataFrame(columns)))[1] if "far from all" in line]


def test_values_far_from_all_others_of_a_column_have_one_line() -> None:
    nights = np.concatenate([[1125.0, 1e8], NIGHTS]).astype(int)
    x = RNG.normal(size=N + 2).round(3)
    assert said(nights=nights, x=x) == [
        "column 'nights' has 2 values far from all others: '1125' in row 1, '100000000' in row 2; "
        "replace such cells by None or NaN if they are slips"
    ]
    assert said(nights=np.concatenate([[999.0, 999.0], NIGHTS]).astype(int), x=x) == [
        "999 (2 cells) is far from all other values of column 'nights': replace such cells by None or NaN if it means "
        "missing"
    ]


def test_numbers_of_things_may_lie_anywhere() -> None:
    numbers = np.concatenate([[30_000_000.0], RNG.integers(1_000_000, 1_300_000, N)]).astype(int)
    x = RNG.normal(size=N + 1).round(3)
    assert said(sample_number=numbers, x=x) == []
    assert len(said(amount=numbers, x=x)) == 1


def test_a_date_long_before_all_others_is_named() -> None:
    days = pd.Timestamp("2016-01-01") + pd.to_timedelta(RNG.integers(0, 700, N), unit="D")
    dates = np.concatenate([[np.datetime64("1900-01-01")], days.to_numpy().astype("datetime64[D]")])
    [line] = said(sold=[str(day) for day in dates], x=RNG.normal(size=N + 1).round(3))
    assert line.startswith("column 'sold' has a value far from all others: '1900-01-01' in row 1; ")
