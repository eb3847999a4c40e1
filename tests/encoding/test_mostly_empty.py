"""Columns of which most cells are missing, unlike the others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from vgi_cli.columns.wording import Alarm
from vgi_cli.encoding.infer import infer_schema
from vgi_cli.table.frames import from_frame

N = 200


def said(shares: dict[str, float], dates: int = 0, **options: Any) -> list[str]:
    """The lines on a table of numbers (the first so many columns: of dates) with such shares of holes."""
    draw = np.random.default_rng(0)
    frame = pd.DataFrame({name: draw.normal(size=N) for name in shares})
    for name in list(shares)[:dates]:
        days = pd.to_timedelta(draw.integers(0, 900, N), unit="D")
        frame[name] = (pd.Timestamp("2020-01-01") + days).strftime("%Y-%m-%d")
    for name, share in shares.items():
        frame.loc[draw.permutation(N)[: round(share * N)], name] = None
    return [note for note in infer_schema(from_frame(frame), **options)[1] if "far less often" in note]


def test_a_column_that_is_mostly_empty_is_named() -> None:
    shares = {"left": 0.8, "a": 0.2, "b": 0.1, "c": 0.15}
    (line,) = said(shares, dates=1)
    assert isinstance(line, Alarm) and line == (
        "column 'left' is missing in 160 of 200 rows, the other columns far less often: empty may mean that it has not "
        "happened, or does not apply: `--exclude left` leaves it as it is, else the holes are filled"
    )
    assert said(shares, exclude=["left"]) == []
    assert len(said(shares)) == 1  # a number, too


def test_several_have_one_line() -> None:
    (line,) = said({"left": 0.8, "why": 0.55, "a": 0.1, "b": 0.1, "c": 0.0})
    assert line == (
        "columns 'left', 'why' are missing in 110 of 200 rows or more, the other columns far less often: empty may "
        "mean that something has not happened, or they do not apply: `--exclude left` leaves one so, else "
        "the holes are filled"
    )


def test_many_holes_in_all_columns_are_not_named() -> None:
    """Nor where next to nothing is known of a column: another line says so."""
    assert said({"a": 0.6, "b": 0.6, "c": 0.6}) == []
    assert said({"a": 0.6, "b": 0.35, "c": 0.3, "d": 0.0}) == []
    assert said({"a": 0.45, "b": 0.0, "c": 0.0}) == []
    assert said({"a": 0.97, "b": 0.0, "c": 0.0}) == []


def test_what_is_said_to_be_asked_in_some_rows_only_is_not_said_twice() -> None:
    draw = np.random.default_rng(0)
    sex = draw.choice(["f", "m", "m"], N)
    weeks = np.where(sex == "f", draw.normal(20, 5, N), np.nan)
    frame = pd.DataFrame({"sex": sex, "weeks": weeks, "x": draw.normal(size=N), "y": draw.normal(size=N)})
    found = infer_schema(from_frame(frame))[1]
    assert any("has no cell in the" in note for note in found)
    assert not any("far less often" in note for note in found)
