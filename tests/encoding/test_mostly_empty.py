"""Columns of which most cells are missing, unlike the others."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest

from vgi_cli.columns.schema import Schema
from vgi_cli.columns.wording import Alarm
from vgi_cli.encoding.infer import infer_schema, schema_alone
from vgi_cli.errors import RunError
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


def coupons(rng: np.random.Generator, n: int = 400) -> pd.DataFrame:
    """Orders with a coupon, and those without, which have neither discount nor its share; single cells are lost."""
    none, share, net = rng.random(n) < 0.75, rng.choice([5, 10, 20], n), rng.gamma(4, 20, n).round(2)
    off = (share * net / 100).round(2)
    frame = pd.DataFrame({"coupon": [f"SAVE{k}" for k in share], "percent": share.astype(float), "off": off})
    frame.loc[none] = None
    frame = frame.assign(net=net, items=rng.poisson(3, n), left=rng.normal(size=n))
    lost = rng.random(frame.shape) < 0.1
    lost[:, -1] = rng.random(n) < 0.6
    return frame.mask(lost)


def test_columns_that_are_missing_in_the_same_rows_are_left_out_together() -> None:
    """Of one alone the others would be filled in rows in which it is not."""
    schema, notes = infer_schema(from_frame(coupons(np.random.default_rng(0))))
    assert schema.mostly_empty == (("coupon", "percent", "off"), ("left",))
    (line,) = [note for note in notes if "far less often" in note]
    assert line.startswith("columns 'coupon', 'percent', 'off', 'left' are missing in ")
    assert (
        "`--exclude coupon --exclude percent --exclude off` leaves those so, which are missing in the same rows, else"
    ) in line
    (line,) = [
        note
        for note in infer_schema(from_frame(coupons(np.random.default_rng(0)).drop(columns="left")))[1]
        if "far less often" in note
    ]
    assert "--exclude off` leaves them so, which are missing in the same rows, else the holes are filled" in line


def test_a_schema_keeps_them() -> None:
    schema = schema_alone(from_frame(coupons(np.random.default_rng(0))))
    raw = json.loads(schema.to_json())
    assert Schema.from_json(schema.to_json()).mostly_empty == schema.mostly_empty
    with pytest.raises(RunError, match=r"schema\.json"):
        Schema.from_json(json.dumps({**raw, "mostly_empty": [["none"]]}))
