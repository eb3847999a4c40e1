"""Numbers that vary with the time of year or of day are said."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tests.selection import first
from vgi_cli.encoding.infer import schema_alone
from vgi_cli.encoding.seasons import seasons
from vgi_cli.encoding.suspects import suspects
from vgi_cli.table.frames import from_frame


def lines_of(frame: pd.DataFrame) -> list[str]:
    table = from_frame(frame)
    return seasons(table, schema_alone(table))


def yearly(seed: int, *, size: float = 2.0, n: int = 300, days: int = 1_000) -> pd.DataFrame:
    """Rows of any days: a temperature that follows the year, a trend, and noise, all with holes."""
    rng = np.random.default_rng(seed)
    day = rng.integers(0, days, n)
    frame = pd.DataFrame({"day": pd.Timestamp("2020-03-01") + pd.to_timedelta(day, "D")})
    frame["temp"] = np.round(10 + size * np.sin(2 * np.pi * (day - 100) / 365.25) + rng.normal(size=n), 2)
    frame["trend"] = np.round(0.01 * day + rng.normal(size=n), 2)
    frame["noise"] = np.round(rng.normal(size=n), 2)
    for name in ("temp", "trend", "noise"):
        frame.loc[rng.random(n) < 0.2, name] = np.nan
    return frame


@pytest.mark.parametrize("seed", first(2, range(4)))
def test_a_season_is_said(seed: int) -> None:
    frame = yearly(seed)
    (line,) = lines_of(frame)
    assert line.startswith("column 'temp' varies with the time of year in 'day' (")
    assert line.endswith(
        "of its variance), and to a model that column is a time that only grows: a column of the "
        "month beside it tells the model"
    )
    table = from_frame(frame)
    assert line in suspects(table, schema_alone(table))
    month = frame.day.dt.month
    for told in (month, month.map("m{}".format)):
        assert lines_of(frame.assign(month=told)) == []
    slipped = month.where(np.arange(len(frame)) != 7, 6.0).where(frame.noise < 0.5)
    assert not any("'month'" in line for line in lines_of(frame.assign(month=slipped)))
    assert not any("'month'" in line for line in lines_of(frame.assign(month=month.where(frame.noise < 0.5))))
    phase = 2 * np.pi * frame.day.dt.day_of_year / 365.25
    assert lines_of(frame.assign(sine=np.sin(phase), cosine=np.cos(phase))) == []


def daily(seed: int, on: float, size: float, n: int = 600) -> pd.DataFrame:
    """Days one after the other, and a number that goes on from one to the next, `on` (1: it wanders)."""
    rng = np.random.default_rng(seed)
    level = np.zeros(n)
    for day in range(1, n):
        level[day] = on * level[day - 1] + rng.normal()
    value = level + size * np.sin(2 * np.pi * np.arange(n) / 365.25)
    frame = pd.DataFrame({"day": pd.date_range("2022-01-03", periods=n), "value": value.round(3)})
    return frame.assign(value=frame.value.mask(rng.random(n) < 0.1))


def test_what_wanders_has_no_season_and_weather_has_one() -> None:
    for seed in range(16):
        assert lines_of(daily(seed, 1.0, 0.0)) == []
        assert len(lines_of(daily(seed, 0.6, 2.5))) == 1


def test_what_another_column_says_is_no_season_of_its_own() -> None:
    frame = yearly(5)
    also = 3 * frame.temp.fillna(10) + np.random.default_rng(0).normal(size=len(frame))
    assert lines_of(frame.assign(also=also.round(2))) == []  # complete: it tells a model of the season
    (line,) = lines_of(frame.assign(also=also.where(frame.noise > 0).round(2)))
    assert line.startswith("columns 'temp', 'also' vary with the time of year in 'day' (up to ")


def test_hours_of_the_day_are_said_of_datetimes() -> None:
    rng = np.random.default_rng(0)
    hours = rng.integers(0, 24 * 30, 400)
    frame = pd.DataFrame({"at": pd.Timestamp("2024-01-01") + pd.to_timedelta(hours, "h")})
    frame["load"] = np.round(5 + 2 * np.cos(2 * np.pi * hours / 24) + rng.normal(size=400), 2)
    frame.loc[rng.random(400) < 0.2, "load"] = np.nan
    (line,) = lines_of(frame)
    assert line.startswith("column 'load' varies with the time of day in 'at' (")
    assert line.endswith("a column of the hour beside it tells the model")
    assert lines_of(frame.assign(hour=frame["at"].dt.hour)) == []
    some = frame["at"].dt.hour.where(rng.random(400) > 0.15)  # its holes follow from the times
    assert lines_of(frame.assign(hour=some)) == []
    assert lines_of(frame.assign(hour=some.map("h{}".format).where(some.notna()))) == []
    night = pd.Series(np.where(frame["at"].dt.hour < 12, "first", "second")).where(some.notna())
    assert lines_of(frame.assign(half=night))


@pytest.mark.parametrize("seeds", first(1, [range(15), range(15, 40)]))
def test_where_there_is_no_season_none_is_said(seeds: range) -> None:
    for seed in seeds:
        assert lines_of(yearly(seed, size=0.0)) == []


def test_where_one_cannot_be_found_none_is_said() -> None:
    assert lines_of(yearly(0, days=400)) == []  # one year: a trend that turns
    assert lines_of(yearly(0, n=50)) == []
    assert lines_of(yearly(0).dropna()) == []  # nothing to fill
    assert lines_of(yearly(0).drop(columns="day")) == []


def devices(seed: int, count: int, rows: int, *, amplitude: float = 0.0) -> pd.DataFrame:
    """Rows of devices: twelve dates of each device, and a number that is alike in the rows of a device."""
    rng = np.random.default_rng(seed)
    days = rng.integers(0, 3_000, (count, 12))
    frame = pd.DataFrame(
        {
            f"installed_{j}": pd.Timestamp("2012-01-01") + pd.to_timedelta(days[:, j].repeat(rows), "D")
            for j in range(12)
        }
    )
    season = amplitude * np.sin(2 * np.pi * days[:, 0] / 365.25)
    frame["reading"] = np.round((rng.normal(size=count) + season).repeat(rows) + 0.2 * rng.normal(size=len(frame)), 2)
    frame.loc[rng.random(len(frame)) < 0.1, "reading"] = np.nan
    return frame


@pytest.mark.parametrize(("count", "rows"), first(1, [(8, 60), (100, 6), (20, 24), (40, 12)]))
def test_a_date_of_each_device_counts_once(count: int, rows: int) -> None:
    for seed in range(3):
        assert lines_of(devices(seed, count, rows)) == []


def test_a_season_of_dates_that_several_rows_have_is_said() -> None:
    (line,) = lines_of(devices(0, 100, 6, amplitude=2.0))
    assert line.startswith("column 'reading' varies with the time of year in 'installed_0' (")
    rng = np.random.default_rng(0)
    day = 30 * rng.integers(0, 24, 1_000)  # 24 dates, and rows that have nothing else in common
    frame = pd.DataFrame({"day": pd.Timestamp("2020-03-01") + pd.to_timedelta(day, "D")})
    frame["temp"] = np.round(0.5 * np.sin(2 * np.pi * day / 365.25) + rng.normal(size=1_000), 2)
    frame.loc[rng.random(1_000) < 0.1, "temp"] = np.nan
    (line,) = lines_of(frame)
    assert line.startswith("column 'temp' varies with the time of year in 'day' (")
