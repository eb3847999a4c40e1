"""`vgi evaluate --truth`: the complete table has the same rows in the same order, or the command says so."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.cli.test_refusals import FA, refused
from tests.program import Vgi, fit_once
from tests.schemas import checked

N = 60
EVALUATE = ("evaluate", "--checkpoint", "run", "t.csv", "--truth")


@pytest.fixture
def full(vgi: Vgi) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    x = rng.normal(size=N).round(2)
    full = pd.DataFrame({"key": [f"k{i:02}" for i in range(N)], "a": x, "b": (x + rng.normal(size=N)).round(2)})
    holes = full.copy()
    holes.loc[::5, "b"] = np.nan
    holes.to_csv("t.csv", index=False)
    fit_once(vgi, "t.csv", *FA, "--id", "key")
    return full


def test_ids_that_differ_are_refused(vgi: Vgi, full: pd.DataFrame) -> None:
    full[::-1].to_csv("reversed.csv", index=False)
    error, hint = refused(vgi, *EVALUATE, "reversed.csv")
    assert "--truth: 'key' is 'k00' in row 1 (line 2) of t.csv, but 'k59' there in reversed.csv" in error
    assert "row by row: sort both by 'key'" in hint
    full.to_csv("same.csv", index=False)
    done = vgi(*EVALUATE, "same.csv")
    assert done.code == 0 and "differ" not in done.err


def test_other_rows_without_ids_are_refused(vgi: Vgi, full: pd.DataFrame) -> None:
    full[::-1].drop(columns="key").to_csv("reversed.csv", index=False)
    error, hint = refused(vgi, *EVALUATE, "reversed.csv")
    assert "--truth: reversed.csv has other observed cells in 60 of 60 rows, first column 'a', row 1 (line 2)" in error
    assert "the truth is the same table" in hint
    full[:50].to_csv("short.csv", index=False)
    assert "--truth: short.csv has 50 rows, t.csv has 60" in refused(vgi, *EVALUATE, "short.csv")[0]
    assert not list(Path("run").glob("evaluations*"))


def test_fills_that_are_worse_than_draws_from_their_own_column_are_said(vgi: Vgi, full: pd.DataFrame) -> None:
    full.to_csv("same.csv", index=False)
    assert "score worse" not in vgi(*EVALUATE, "same.csv").err
    full.loc[::5, "b"] = (-3 * full.a[::5]).round(2)
    full.to_csv("against.csv", index=False)
    done = vgi(*EVALUATE, "against.csv")
    line = "the fills of column 'b' score worse than draws from the observed cells of their own column"
    assert f"warning: {line}" in done.err
    assert sum(line in path.read_text() for path in Path("run/evaluations").glob("*/report.md")) == 1


def test_a_few_other_cells_are_said(vgi: Vgi, full: pd.DataFrame) -> None:
    full.loc[3, "a"] = 77.5
    full.to_csv("other.csv", index=False)
    done = vgi(*EVALUATE, "other.csv", "-q")
    assert done.code == 0
    assert "1 observed cell differs in the truth, in 1 of 60 rows, first column 'a', row 4 (line 5)" in done.err
    assert "'77.5' in the truth" in done.err


def test_scores_of_dates_and_times_come_with_their_units(vgi: Vgi) -> None:
    rng = np.random.default_rng(0)
    full = pd.DataFrame({"x": rng.normal(size=N).round(2)})
    full["day"] = (pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 300, N), "D")).strftime("%Y-%m-%d")
    full["begin"] = [f"{hour:02}:{minute:02}" for hour, minute in rng.integers(6, 20, (N, 2))]
    full.to_csv("full.csv", index=False)
    full.mask(rng.random(full.shape) < 0.2).to_csv("t.csv", index=False)
    few = ["--model", "mixture", "--set", "model.components=1", "--set", "bootstrap=none"]
    assert vgi("fit", "t.csv", *few, "--out", "run").code == 0
    report = vgi(*EVALUATE, "full.csv").out
    assert "\nDates and times (but for coverage): day in days; begin in seconds.\n" in report
    done = vgi(*EVALUATE, "full.csv", "--json")
    assert checked("evaluate", done.out)["imputation"]["units"] == {"day": "days", "begin": "seconds"}
