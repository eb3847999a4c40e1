"""Columns that go together by their ratio or as a product are taken as logarithms, and others are not."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tests.selection import covering
from vgi_cli.columns.base import Encoding, Transform
from vgi_cli.encoding import proportional
from vgi_cli.encoding.infer import Said, infer_schema, schema_alone
from vgi_cli.table.frames import from_frame

LINEAR, BENT = Encoding("linear"), Encoding("normal")
BOTH = pytest.mark.parametrize("transform", ["linear", "normal"])


def twice(seed: int = 0, n: int = 300, spread: float = 0.7) -> pd.DataFrame:
    """The same quantity measured twice with errors of 8 %, and a third column."""
    rng = np.random.default_rng(seed)
    size = np.exp(3 + spread * rng.normal(size=n))
    measured = {name: size * np.exp(0.08 * rng.normal(size=n)) for name in ("first", "second")}
    return pd.DataFrame({**measured, "own": rng.gamma(2, 3, n)})


def charges(seed: int = 0, n: int = 600) -> pd.DataFrame:
    """Months, what one costs, and what was paid: their product but for 2 %."""
    rng = np.random.default_rng(seed)
    months, price = rng.integers(1, 73, n), rng.uniform(20, 120, n).round(2)
    total = (months * price * (1 + 0.02 * rng.normal(size=n))).round(2)
    return pd.DataFrame({"months": months, "price": price, "total": total, "own": rng.gamma(2, 3, n)})


def with_holes(table: pd.DataFrame, share: float = 0.3) -> pd.DataFrame:
    return table.mask(np.random.default_rng(9).random(table.shape) < share)


def logs_in(table: pd.DataFrame, encoding: Encoding = LINEAR, rows: np.ndarray | None = None) -> list[str]:
    """The columns that are taken as logarithms, none of which is bent."""
    schema = infer_schema(from_frame(table), encoding=encoding, rows=rows)[0]
    scales = {column.name: column.scale for column in schema.encoded}  # type: ignore[attr-defined]
    found = [name for name, scale in scales.items() if scale.logs is not None]
    assert not any(scales[name].knots for name in found)
    return found


@pytest.mark.parametrize("spread", [0.6, 0.7, 0.8])
def test_what_was_measured_twice_is_taken_as_logarithms_in_place_of_straight(spread: float) -> None:
    for seed in range(3):
        assert logs_in(with_holes(twice(seed, spread=spread))) == ["first", "second"]


def test_what_normal_scores_do_as_well_stays_bent() -> None:
    assert logs_in(with_holes(twice()), BENT) == []


@BOTH
def test_nearly_a_product_is_taken_as_logarithms(transform: Transform) -> None:
    for share in (0.0, 0.2):
        assert logs_in(with_holes(charges(), share), Encoding(transform)) == ["months", "price", "total"]


def test_a_few_zeros_are_no_hindrance() -> None:
    table = charges()
    table.loc[:5, ["months", "total"]] = [0, np.nan]
    assert logs_in(table) == ["months", "price", "total"]


@pytest.mark.parametrize(("value", "found"), [(1, ["months", "price", "total"]), (40, [])])
def test_values_that_pile_up_hinder_where_they_do_so_among_logarithms_too(value: int, found: list[str]) -> None:
    """The first month, whose cell is wide there, does not."""
    rng = np.random.default_rng(5)
    table = charges(n=1_000)
    months = np.where(rng.random(1_000) < 0.1, value, table["months"])
    table["total"] = (table["total"] / table["months"] * months).round(2)
    table["months"] = months
    table.loc[:4, ["months", "total"]] = [0, np.nan]
    for encoding in (LINEAR, BENT):
        alone = schema_alone(from_frame(table[["months"]]), Said(encoding=encoding)).encoded[0]
        assert [spike.value for spike in alone.spikes] == [value]  # type: ignore[attr-defined]
        assert logs_in(table, encoding) == found


def noisy(noise: float) -> pd.DataFrame:
    """A line with the same scatter at all sizes, whose quantiles of 5 % and 95 % are ten times apart."""
    rng = np.random.default_rng(1)
    first = np.exp(3 + 0.7 * rng.normal(size=400))
    return pd.DataFrame({"first": first, "second": np.abs(first + noise * rng.normal(size=400)) + 0.01})


def narrow() -> pd.DataFrame:
    """A line over so narrow a range that logarithms are no more and no less straight than the values."""
    first = 1000 + np.arange(300.0)
    return pd.DataFrame({"first": first, "second": first + 20 * np.random.default_rng(3).normal(size=300)})


@covering(
    pytest.mark.parametrize(
        "table",
        [
            noisy(0.5),
            noisy(2.0),
            noisy(5.0),
            twice().apply(lambda column: np.random.default_rng(len(column.name)).permutation(column)),  # independent
            twice(spread=0.25),  # over so few sizes errors in per cent are as even as others
            twice(n=25),  # few rows
            twice().assign(second=lambda f: f["first"] * 2.2046),  # a unit, exactly
            twice().assign(second=lambda f: (f["first"] * 2.2046).round(1)),
            twice() - 30,  # no ratios
            narrow(),
        ],
    ),
    BOTH,
)
def test_others_are_not(table: pd.DataFrame, transform: Transform) -> None:
    assert logs_in(table, Encoding(transform)) == []
    assert logs_in(with_holes(table), Encoding(transform)) == []


def test_a_column_on_an_even_line_with_another_stays_straight() -> None:
    """It says more of that one, as it is, than of a ratio."""
    table = twice().assign(third=lambda f: f["first"] + 0.1 * np.random.default_rng(2).normal(size=len(f)))
    assert logs_in(table) == []


def test_a_neighbour_of_logarithms_joins_them_if_it_goes_with_them_as_well() -> None:
    rng = np.random.default_rng(3)
    looser = twice(n=600).assign(own=lambda f: f["first"] * np.exp(0.3 * rng.normal(size=600)))
    assert logs_in(looser) == ["first", "second", "own"]
    assert logs_in(looser[["first", "own"]]) == []  # which are not close


def test_the_rows_of_the_fit_decide() -> None:
    table = twice(n=600)
    table.loc[:299, "second"] = np.random.default_rng(4).permutation(table["second"][:300])
    assert logs_in(table) == []
    assert logs_in(table, rows=np.arange(600) >= 300) == ["first", "second"]


def test_numbers_that_are_left_as_they_are_have_no_logarithms() -> None:
    assert logs_in(twice(), Encoding("none")) == []


def test_wide_tables_are_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    assert logs_in(twice()) != []
    monkeypatch.setattr(proportional, "MOST", 2)
    assert logs_in(twice()) == []
