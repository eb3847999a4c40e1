"""Numbers as they are spelled."""

from __future__ import annotations

import math
from functools import reduce

import numpy as np
import pyarrow as pa
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from vgi_cli.columns.notation import spelling_of
from vgi_cli.columns.numerals import (
    Places,
    at_fixed,
    decimals_of,
    mean_ranks,
    shorten,
    write_numbers,
    write_significant,
)
from vgi_cli.table.texts import parse, spelling


def read(text: str) -> tuple[float, bool, bool]:
    numbers = parse(pa.array([text], pa.large_string()), np.array([False]))
    return float(numbers.values[0]), bool(numbers.number[0]), bool(numbers.padded[0])


@pytest.mark.parametrize(
    "text", ["0", "-0", "1", "+3", "2.", ".5", "-.5", "1e5", "1E-3", "1.50", "0.001", "1e-400", "12345"]
)
def test_numbers(text: str) -> None:
    value, number, padded = read(text)
    assert number and not padded
    assert value == float(text)


@pytest.mark.parametrize("text", ["x", "1,5", "1_000", "0x10", "--1", "1e", ".", "-", "1 2", "١", "NAN", "1.2.3", "5%"])
def test_texts(text: str) -> None:
    value, number, padded = read(text)
    assert math.isnan(value) and not number and not padded


@pytest.mark.parametrize("text", ["02139", "-07", "00", "00.5", "01e5"])
def test_a_leading_zero_is_a_code(text: str) -> None:
    value, number, padded = read(text)
    assert math.isnan(value) and not number and padded


@pytest.mark.parametrize("text", ["inf", "-Infinity", "INF", "1e999"])
def test_infinities_are_seen(text: str) -> None:
    value, number, _ = read(text)
    assert math.isinf(value) and number


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_values_are_the_nearest_floats(value: float) -> None:
    assert read(repr(value))[0] == value


@pytest.mark.parametrize(
    ("cells", "fewest", "most"),
    [
        (["1", "2"], 0, 0),
        (["1.50", "2.25"], 2, 2),
        (["2.0", "3"], 0, 1),
        (["1.5e-3", "2"], 0, 4),
        (["1e3", "20"], 0, 0),
        (["1.25e1"], 1, 1),
    ],
)
def test_spelling_counts_decimals(cells: list[str], fewest: int, most: int) -> None:
    found = spelling(pa.array(cells, pa.large_string()), np.ones(len(cells), bool))
    assert found is not None
    assert (found.fewest, found.most) == (fewest, most)


amounts = st.lists(
    st.one_of(
        st.integers(-(10**6), 10**6).map(str),
        st.tuples(st.integers(-(10**6), 10**6), st.integers(1, 4)).map(
            lambda cell: f"{cell[0] / 10 ** cell[1]:.{cell[1]}f}"
        ),
    ),
    min_size=1,
    max_size=30,
)


@given(amounts, st.integers(0, 30), st.integers(-(10**7), 10**7), st.integers(0, 4))
def test_fills_have_the_decimals_that_cells_have(cells: list[str], cut: int, units: int, decimals: int) -> None:
    """Also where cells come in two parts: a fill has as many as some cell has, unless zeros are left out."""
    parts = [part for part in (cells[:cut], cells[cut:]) if part]
    spelled = [spelling(pa.array(part, pa.large_string()), np.ones(len(part), bool)) for part in parts]
    places = [one.places for one in spelled if one is not None and one.places is not None]
    found = reduce(Places.and_in, places)
    [whole] = [spelling(pa.array(cells, pa.large_string()), np.ones(len(cells), bool))]
    assert whole is not None and found == whole.places == spelling_of(cells, [1] * len(cells)).places  # type: ignore[union-attr]
    written = [len(cell.partition(".")[2]) for cell in cells]
    value = np.round(units / 10**decimals, decimals)
    fill = at_fixed(
        write_numbers(np.array([value]), fewest=found.everywhere, most=max(found.most, found.everywhere)), found.fixed
    )[0]
    assert float(fill) == pytest.approx(value, abs=0.51 / 10**found.most)
    own = len(fill.partition(".")[2])
    with_some = {count for count in written if count}
    zero = any("." in cell and cell.endswith("0") for cell in cells)
    if 0 in written and len(with_some) == 1 and zero and any(float(cell) % 1 for cell in cells):
        assert own in {0, *with_some} and (own or float(fill) % 1 == 0)
        assert own in written
    else:
        assert found.fixed is None and found.everywhere == min(written)


def test_spelling_of_nothing_is_none() -> None:
    assert spelling(pa.array(["x"], pa.large_string()), np.array([False])) is None


@given(st.integers(0, 6), st.lists(st.integers(-(10**9), 10**9), min_size=1, max_size=20))
def test_decimals_are_found_from_values(decimals: int, units: list[int]) -> None:
    values = np.array([float(f"{u}e-{decimals}") for u in units])
    found = decimals_of(values)
    assert found is not None and found <= decimals
    assert all(float(f"{v:.{found}f}") == v for v in values)


def test_full_precision_has_no_decimals() -> None:
    assert decimals_of(np.array([math.pi, math.e, 1 / 3])) is None


def test_single_precision_is_read_as_the_decimals_it_was_written_with() -> None:
    values = np.array([0.1, 2.35, np.nan, -17.3], np.float32).astype(np.float64)
    assert values[0] != 0.1
    np.testing.assert_array_equal(shorten(values), [0.1, 2.35, np.nan, -17.3])
    rough = np.array([math.pi, 1e5 / 3], np.float32).astype(np.float64)
    np.testing.assert_array_equal(shorten(rough), rough)


def test_trailing_zeros_follow_the_column() -> None:
    values = np.array([1.5, 2.0, -0.0, 10.25, -0.001])
    assert write_numbers(values, fewest=2, most=2) == ["1.50", "2.00", "0.00", "10.25", "0.00"]
    assert write_numbers(values, fewest=0, most=2) == ["1.5", "2", "0", "10.25", "0"]
    assert write_numbers(values, fewest=1, most=2) == ["1.5", "2.0", "0.0", "10.25", "0.0"]
    assert write_numbers(np.array([100.0, -0.0]), fewest=0, most=0) == ["100", "0"]


def test_a_few_results_of_arithmetic_do_not_decide_the_digits() -> None:
    cells = ["1.2345"] * 60 + ["-12.345678"] * 3 + ["7.360000000000001", "8.549999999999999"]
    found = spelling(pa.array(cells, pa.large_string()), np.ones(len(cells), bool))
    assert found is not None and (found.most, found.usual, found.significant) == (15, 6, 8)
    cells += ["6.459999999999999"] * 2  # more than a twentieth
    found = spelling(pa.array(cells, pa.large_string()), np.ones(len(cells), bool))
    assert found is not None and (found.usual, found.significant) == (15, 16)


def test_significant_digits() -> None:
    assert write_significant(np.array([math.pi, 1e-20, 12345.678, -0.0, 2.0]), 6) == [
        "3.14159",
        "1e-20",
        "12345.7",
        "0",
        "2",
    ]


def test_equal_values_have_their_mean_rank() -> None:
    values = np.random.default_rng(0).integers(0, 6, 40).astype(float)
    np.testing.assert_array_equal(mean_ranks(values), scipy.stats.rankdata(values))
    assert mean_ranks(np.zeros(0)).size == 0
