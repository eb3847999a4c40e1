"""Completed years between two dates, from a file to its fills."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.program import Vgi


def years(born: str, admitted: str) -> int:
    """By the calendar, of dates as they are written."""
    first, last = (datetime.strptime(one, "%d/%m/%Y") for one in (born, admitted))
    return last.year - first.year - ((last.month, last.day) < (first.month, first.day))


@pytest.mark.slow  # fills of the command are those of tests/encoding/test_ages.py
def test_fills_do_not_contradict_the_calendar(vgi: Vgi, tmp_path: Path) -> None:
    """In so many rows no number of days in a year says the same; without the rule many fills are a year off."""
    rng = np.random.default_rng(0)
    n = 2_000
    born = pd.Series(pd.Timestamp("1932-01-01") + pd.to_timedelta(rng.integers(0, 365 * 70, n), "D"))
    admitted = pd.Series(pd.Timestamp("2018-01-01") + pd.to_timedelta(rng.integers(0, 900, n), "D"))
    operated = admitted + pd.to_timedelta(rng.integers(0, 60, n), "D")
    truth = pd.DataFrame({"born": born, "operated": operated, "admitted": admitted}).apply(
        lambda column: column.dt.strftime("%d/%m/%Y")
    )
    truth["age"] = [years(*one) for one in zip(truth.born, truth.admitted, strict=True)]
    table = truth.mask(rng.random(truth.shape) < 0.2)
    table.to_csv(tmp_path / "t.csv", index=False)
    wrong = {}
    for how in ("keep", "ignore"):
        few = ["--model", "mixture", "--set", "model.components=1", "--set", "bootstrap=none"]
        fit = vgi("fit", tmp_path / "t.csv", "--out", tmp_path / how, *few, "--set", f"table.relations={how}")
        assert fit.code == 0
        assert ("'age' = completed years from 'born' to 'admitted'" in fit.err) == (how == "keep")
        impute = vgi("impute", "--checkpoint", tmp_path / how, "--m", 2, "--out", tmp_path / f"{how}.csv")
        assert impute.code == 0 and "do not keep" not in impute.err
        filled = [pd.read_csv(tmp_path / f"{how}.{i}.csv") for i in (1, 2)]
        wrong[how] = [
            sum(age != years(*one) for age, *one in zip(each.age, each.born, each.admitted, strict=True))
            for each in filled
        ]
        assert all((each.age[table.age.notna()] == table.age.dropna()).all() for each in filled)
    assert wrong["keep"] == [0, 0]
    assert min(wrong["ignore"]) > 100
    truth.assign(age=truth.age.where(truth.index != 7, truth.age + 1)).to_csv(tmp_path / "other.csv", index=False)
    run = ["--checkpoint", tmp_path / "keep", "--m", 1, "--out", tmp_path / "o.csv"]
    said = vgi("impute", tmp_path / "other.csv", *run).err
    assert (
        "'age' = completed years from 'born' to 'admitted' in every row of the fit; 1 row of other.csv departs" in said
    )
