"""Rows that are the moments of a series are said."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tests.selection import first
from vgi_cli.columns.base import Encoding
from vgi_cli.encoding.infer import Said, infer_schema, schema_alone
from vgi_cli.encoding.series import series
from vgi_cli.encoding.suspects import suspects
from vgi_cli.table.frames import from_frame


def lines_of(frame: pd.DataFrame) -> list[str]:
    table = from_frame(frame)
    return series(table, schema_alone(table, Said(encoding=Encoding(relations="ignore"))))


def daily(r: float, seed: int = 0, n: int = 300) -> pd.DataFrame:
    """An autoregression with a trend, one of them with holes, and noise; in any order of rows."""
    rng = np.random.default_rng(seed)
    y = np.zeros(n)
    for i in range(1, n):
        y[i] = r * y[i - 1] + rng.normal()
    frame = pd.DataFrame({"day": pd.date_range("2020-01-01", periods=n), "y": y + 0.01 * np.arange(n)})
    frame["noise"] = rng.normal(size=n)
    frame.loc[rng.random(n) < 0.15, "y"] = np.nan
    frame.loc[rng.random(n) < 0.15, "noise"] = np.nan
    return frame.sample(frac=1, random_state=1)


@pytest.mark.parametrize("seed", range(4))
def test_a_series_is_said(seed: int) -> None:
    frame = daily(0.8, seed)
    (line,) = lines_of(frame)
    assert line.startswith("rows follow each other in 'day', and neighbours are alike in column 'y' (correlation 0.")
    assert line.endswith("is filled as if by itself; columns with the values before and after it tell the model")
    table = from_frame(frame)
    assert line in suspects(table, schema_alone(table))
    months = frame.assign(day=pd.date_range("1990-01-01", periods=300, freq="MS")[frame.index])
    assert lines_of(months) != []
    assert lines_of(frame.drop(frame.index[::7])) != []  # some days lack
    hours = frame.assign(day=pd.Timestamp("2024-10-20") + pd.to_timedelta(frame.index, "h"))
    back = hours.assign(day=hours.day.where(frame.index < 171, hours.day - pd.Timedelta("1h")))  # one hour occurs twice
    assert back.day.duplicated().sum() == 1 and lines_of(back) != []
    assert lines_of(back.assign(day=back.day.where(back.index % 20 != 3, back.day - pd.Timedelta("1h")))) == []


@pytest.mark.parametrize("seed", range(6))
def test_what_is_none(seed: int) -> None:
    assert lines_of(daily(0.0, seed)) == []  # a trend alone
    assert lines_of(daily(0.8, seed).assign(y=1.0 * np.arange(300))) == []  # nothing to fill
    assert lines_of(daily(0.8, seed, n=35)) == []  # too few rows
    twice = pd.concat([daily(0.8, seed), daily(0.8, seed + 1)])
    assert lines_of(twice) == []  # two rows of each day: no series
    rng = np.random.default_rng(seed)
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.choice(4000, 300, False), "D")
    uneven = daily(0.8, seed).assign(day=days)
    assert lines_of(uneven) == []


def log(r: float, seed: int, groups: int = 4, n: int = 150) -> pd.DataFrame:
    """Series of several devices one after the other, each at its own height, with holes everywhere."""
    rng = np.random.default_rng(seed)
    parts = []
    for group in range(groups):
        part = daily(r, 1000 * seed + group, n).sort_index()
        parts.append(part.assign(device=f"dev-{group}", y=part["y"] + rng.normal(0, 3)))
    frame = pd.concat(parts, ignore_index=True)
    return frame.mask(rng.random(frame.shape) < 0.1)


@pytest.mark.parametrize("seed", first(2, range(4)))
def test_series_one_after_the_other_are_said_with_the_column_that_names_them(seed: int) -> None:
    frame = log(0.8, seed)
    (line,) = lines_of(frame)
    assert line.startswith("the rows of each level of 'device' follow each other in 'day', and neighbours are alike in")
    assert "in column 'y' (correlation 0." in line
    assert lines_of(frame.sample(frac=1, random_state=seed)) == [line]
    table = from_frame(frame)
    (named,) = series(table, infer_schema(table, ids=["device"])[0])
    assert named == line
    assert lines_of(frame.drop(columns="device")) == []
    many = log(0.8, seed, groups=60, n=20)  # more than are modelled as levels
    assert lines_of(many)[0].startswith("the rows of each level of 'device' follow")


@pytest.mark.parametrize("seed", first(1, range(10)))
def test_groups_whose_rows_are_independent_are_none(seed: int) -> None:
    assert lines_of(log(0.0, seed)) == []  # though each group has a height and a trend
    assert lines_of(log(0.0, seed, groups=12, n=15)) == []
    assert lines_of(log(0.0, seed, groups=2, n=200)) == []
    months = pd.date_range("2000-01-01", periods=150, freq="MS")
    monthly = log(0.0, seed)
    monthly["day"] = np.where(monthly["day"].isna(), pd.NaT, months[monthly.index % 150])
    monthly["day"] = pd.to_datetime(monthly["day"])
    assert lines_of(monthly) == []
    twice = pd.concat([log(0.8, seed), log(0.8, seed + 50)])
    assert lines_of(twice) == []  # two rows of each day and device
    assert lines_of(log(0.8, seed, groups=30, n=6)) == []  # too few rows of each


def panel(r: float, seed: int, countries: int = 12, years: int = 30) -> pd.DataFrame:
    """Countries with a level and an autoregression of their own, and a trend that they share, year by year."""
    rng = np.random.default_rng(seed)
    y = np.zeros((countries, years))
    for t in range(1, years):
        y[:, t] = r * y[:, t - 1] + rng.normal(size=countries)
    y += 5 * rng.normal(size=(countries, 1)) + 0.1 * np.arange(years)
    year, country = np.tile(np.arange(1990, 1990 + years), countries), np.repeat(np.arange(countries), years)
    frame = pd.DataFrame({"country": np.array([f"land {c}" for c in country]), "year": year, "y": y.ravel()})
    return frame.assign(y=frame.y.mask(rng.random(len(frame)) < 0.15))


@pytest.mark.parametrize("seed", range(3))
def test_years_of_countries_are_series_though_they_are_numbers(seed: int) -> None:
    (line,) = lines_of(panel(0.8, seed))
    assert line.startswith("the rows of each level of 'country' follow each other in 'year', and neighbours are alike")
    assert "in column 'y' (correlation 0." in line
    assert lines_of(panel(0.0, seed)) == []
    counted = panel(0.8, seed)
    assert lines_of(counted.assign(year=np.arange(len(counted)))) == []  # the number of a row counts no moments
    holes = panel(0.0, seed).astype({"year": "Float64"})
    holes.loc[np.random.default_rng(seed).random(len(holes)) < 0.1, "year"] = pd.NA
    assert lines_of(holes) == []  # the year itself is no value that neighbours share


@pytest.mark.parametrize("seed", range(3))
def test_groups_with_trends_of_their_own_are_series(seed: int) -> None:
    """Of which a model of rows knows but one for all."""
    frame = panel(0.0, seed)
    own = frame.country.str[5:].astype(int) % 3 - 1
    assert len(lines_of(frame.assign(y=frame.y + 0.3 * own * (frame.year - 1990)))) == 1


@pytest.mark.parametrize("encoding", [Encoding(), Encoding(relations="ignore")])
def test_what_the_name_of_a_series_tells_is_not_said_to_be_filled_by_itself(encoding: Encoding) -> None:
    """A constant of each device is alike in neighbouring rows, and known from any of them."""
    frame = log(0.8, 3)
    heights = {f"dev-{k}": 0.9 + 0.037 * k for k in range(4)}
    frame["calibration"] = frame.device.map(heights).mask(np.random.default_rng(0).random(len(frame)) < 0.15)
    table = from_frame(frame)
    schema = schema_alone(table, Said(encoding=encoding))
    assert any("calibration" in one.names for one in schema.relations) == (encoding.relations != "ignore")
    (line,) = series(table, schema)
    assert "neighbours are alike in column 'y' (" in line
    (line,) = lines_of(frame.assign(calibration=(frame.calibration + 0.001 * frame.y).round(4)))
    assert "neighbours are alike in columns 'y', 'calibration' (" in line  # it drifts
