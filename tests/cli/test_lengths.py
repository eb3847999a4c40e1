"""Nights and whole days between two datetimes, from a file to its fills and its sample."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.program import Vgi

FORMAT = "%d.%m.%Y %H:%M"


def lengths(admitted: str, discharged: str) -> tuple[int, int]:
    """Nights, and days of 24 hours, of datetimes as they are written."""
    first, last = (datetime.strptime(one, FORMAT) for one in (admitted, discharged))
    return (last.date() - first.date()).days, (last - first).days


def wrong(table: pd.DataFrame) -> int:
    rows = zip(table.admitted, table.discharged, table.nights, table.full_days, strict=True)
    return sum(lengths(first, last) != (nights, days) for first, last, nights, days in rows)


@pytest.mark.slow  # fills of the command are those of tests/encoding/test_lengths.py
def test_fills_have_the_lengths_of_their_datetimes(vgi: Vgi, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    n = 400
    admitted = pd.Series(pd.Timestamp("2022-01-01") + pd.to_timedelta(rng.integers(0, 500_000, n), "min"))
    discharged = admitted + pd.to_timedelta((1_440 * rng.lognormal(1.3, 0.6, n)).astype(int), "min")
    truth = pd.DataFrame({"admitted": admitted.dt.strftime(FORMAT), "discharged": discharged.dt.strftime(FORMAT)})
    both = [lengths(*one) for one in zip(truth.admitted, truth.discharged, strict=True)]
    truth["nights"], truth["full_days"] = (list(one) for one in zip(*both, strict=True))
    truth["ward"] = rng.choice(["a", "b", "c"], n)
    table = truth.mask(rng.random(truth.shape) < 0.2)
    for name in ("nights", "full_days"):
        table[name] = table[name].astype("Int64")
    table.to_csv(tmp_path / "t.csv", index=False)
    said = (
        "'nights' = calendar days from 'admitted' to 'discharged'",
        "'full_days' = completed days from 'admitted' to 'discharged'",
    )
    check = vgi("check", tmp_path / "t.csv", "--no-trial")
    assert all(one in check.out for one in said)
    counts = {}
    for how in ("keep", "ignore"):
        few = ["--model", "mixture", "--set", "model.components=1", "--set", "bootstrap=none"]
        fit = vgi("fit", tmp_path / "t.csv", "--out", tmp_path / how, *few, "--set", f"table.relations={how}")
        assert fit.code == 0 and all((one in fit.err) == (how == "keep") for one in said)
        impute = vgi("impute", "--checkpoint", tmp_path / how, "--m", 2, "--out", tmp_path / f"{how}.csv")
        assert impute.code == 0 and "do not keep" not in impute.err
        filled = [pd.read_csv(tmp_path / f"{how}.{i}.csv") for i in (1, 2)]
        counts[how] = [wrong(one) for one in filled]
        for one in filled:
            assert all((one[name][table[name].notna()] == table[name].dropna()).all() for name in table)
    assert counts["keep"] == [0, 0]
    assert min(counts["ignore"]) > 100
    sample = vgi("sample", tmp_path / "keep", "-n", 50, "--out", tmp_path / "s.csv")
    assert sample.code == 0 and wrong(pd.read_csv(tmp_path / "s.csv")) == 0
