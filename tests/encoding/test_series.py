"""Rows that are the moments of a series are said."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from vgi_cli.encoding.infer import infer_schema
from vgi_cli.encoding.series import series
from vgi_cli.encoding.suspects import suspects
from vgi_cli.table.frames import from_frame


def lines_of(frame: pd.DataFrame) -> list[str]:
    table = from_frame(frame)
    return series(table, infer_schema(table)[0])


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
    assert line in suspects(table, infer_schema(table)[0])
    months = frame.assign(day=pd.date_range("1990-01-01", periods=300, freq="MS")[frame.index])
    assert lines_of(months) != []
    assert lines_of(frame.drop(frame.index[::7])) != []  # some days lack


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
