"""What has one value for each key, from the table to fills."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.program import Vgi
from tests.selection import first


@pytest.mark.parametrize("how_named", first(1, ["number", "id", "text"]))
def test_fills_follow_from_keys(vgi: Vgi, tmp_path: Path, how_named: str) -> None:
    """Persons in several years, by numbers, ids and names; without the rule hardly a fill is right (of numbers)."""
    rng = np.random.default_rng(0)
    person, year = np.repeat(np.arange(100, 180), 6), np.tile(2001 + np.arange(6), 80)
    born = rng.integers(1940, 1990, 80)[person - 100]
    truth = pd.DataFrame({"person": person, "year": year, "born": born, "income": rng.lognormal(10, 1, 480).round()})
    truth["prices"] = np.array([101.3, 97.1, 108.0, 100.0, 105.9, 102.4])[year - 2001]
    if how_named == "text":
        truth["person"] = [f"who {number}" for number in person]
    flags = ["--id", "person"] if how_named == "id" else []
    holes = rng.random(480) < 0.3
    holes[::6] = False
    table = truth.mask(holes[:, None] & np.isin(truth.columns, ["born", "prices", "income"]))
    table.to_csv(tmp_path / "t.csv", index=False)
    right = {}
    for how in ("keep", "ignore") if how_named == "number" else ("keep",):
        few = ["--model", "mixture", "--set", "model.components=1", "--set", "bootstrap=none"]
        few += ["--set", f"table.relations={how}", *flags]
        fit = vgi("fit", tmp_path / "t.csv", "--out", tmp_path / how, *few)
        assert fit.code == 0
        for words in ("'born' follows from 'person'", "'prices' follows from 'year'"):
            assert (words in fit.err) == (how == "keep")
        impute = vgi("impute", "--checkpoint", tmp_path / how, "--m", 2, "--out", tmp_path / f"{how}.csv")
        assert impute.code == 0 and "do not keep" not in impute.err
        filled = [pd.read_csv(tmp_path / f"{how}.{i}.csv") for i in (1, 2)]
        right[how] = [[(one[name] == truth[name])[holes].mean() for name in ("born", "prices")] for one in filled]
    assert np.min(right["keep"]) == 1 and np.max(right.get("ignore", 0)) < 0.5


@pytest.mark.parametrize("hidden", ["rate", "date"])
def test_rates_follow_from_dates(vgi: Vgi, tmp_path: Path, hidden: str) -> None:
    """What one day has in all rows fills its holes, and a missing date is one with the rate of its row, which few days
    have in common."""
    rng = np.random.default_rng(0)
    day = rng.permutation(np.tile(np.arange(60), 8))
    rate = (1.07 + np.cumsum(rng.normal(0, 0.004, 60))).round(4)[day]
    truth = pd.DataFrame({"date": (np.datetime64("2024-01-01") + day).astype(str), "rate": rate})
    truth["amount"] = rng.lognormal(3, 1, 480).round(2)
    table, holes = truth.copy(), rng.random(480) < 0.15
    table.loc[holes, hidden] = np.nan
    table.to_csv(tmp_path / "t.csv", index=False)
    few = ["--model", "mixture", "--set", "model.components=1", "--set", "bootstrap=none"]
    fit = vgi("fit", tmp_path / "t.csv", "--out", tmp_path / "run", *few)
    assert fit.code == 0 and "'rate' follows from 'date'" in fit.err
    impute = vgi("impute", "--checkpoint", tmp_path / "run", "--m", 1, "--out", tmp_path / "f.csv")
    assert impute.code == 0 and "do not keep" not in impute.err
    (file,) = tmp_path.glob("f*.csv")
    filled = pd.read_csv(file)
    assert filled.rate[holes].tolist() == truth.rate[holes].tolist()
    assert (filled.date == truth.date)[holes].mean() > 0.8


@pytest.mark.parametrize("form", first(1, ["{0}-{1:05d}", "{0}{1:09d}"]))
def test_fills_are_what_codes_begin_with(vgi: Vgi, tmp_path: Path, form: str) -> None:
    """Each code is in one row alone: its whole text says nothing."""
    rng = np.random.default_rng(0)
    country = rng.choice(["DE", "FR", "NL", "AT", "BE"], 400)
    truth = pd.DataFrame({"code": [form.format(one, i) for i, one in enumerate(country)], "country": country})
    truth["rate"] = truth.country.map({"DE": 19, "FR": 20, "NL": 21, "AT": 20, "BE": 21})
    truth["amount"] = rng.lognormal(3, 1, 400).round(2)
    table, holes = truth.copy(), rng.random(400) < 0.2
    table.loc[holes, ["country", "rate"]] = np.nan
    table.to_csv(tmp_path / "t.csv", index=False)
    few = ["--model", "mixture", "--set", "model.components=1", "--set", "bootstrap=none"]
    fit = vgi("fit", tmp_path / "t.csv", "--out", tmp_path / "run", *few)
    assert fit.code == 0 and "of 'code'" in fit.err and "'country'" in fit.err
    impute = vgi("impute", "--checkpoint", tmp_path / "run", "--m", 1, "--out", tmp_path / "f.csv")
    assert impute.code == 0 and "do not keep" not in impute.err
    (file,) = tmp_path.glob("f*.csv")
    filled = pd.read_csv(file)
    assert filled.country.tolist() == truth.country.tolist() and filled.rate.tolist() == truth.rate.tolist()


def test_check_names_the_row_that_is_unlike_its_key(vgi: Vgi, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    year = np.tile(2001 + np.arange(6), 50)
    table = pd.DataFrame({"year": year, "prices": np.array([97.1, 100.0, 102.4, 101.3, 105.9, 108.0])[year - 2001]})
    table["income"] = rng.lognormal(10, 1, 300).round()
    table.loc[17, "prices"] = 90.1
    table.to_csv(tmp_path / "t.csv", index=False)
    result = vgi("check", tmp_path / "t.csv")
    assert result.code == 0
    assert "'prices' follows from 'year', in 299 of the 300 rows" in result.out + result.err
    assert "but not in row 18 ('prices' is 90.1, not 108.0)" in result.out + result.err


def test_a_key_fills_no_cell_that_stays_blank(vgi: Vgi, tmp_path: Path) -> None:
    """Cigarettes a day of who smokes in some years: blank in the others, and what the key says where they are lost."""
    rng = np.random.default_rng(0)
    person, smoke = np.repeat(np.arange(100, 180), 5), np.where(rng.random(400) < 0.5, "yes", "no")
    truth = pd.DataFrame({"person": [f"p{i}" for i in person], "smoke": smoke, "age": rng.integers(20, 80, 400)})
    truth["cigarettes"] = np.where(smoke == "yes", rng.integers(1, 40, 80)[person - 100], np.nan)
    table = truth.copy()
    table.loc[::9, "cigarettes"] = table.loc[::13, "smoke"] = None
    table.to_csv(tmp_path / "t.csv", index=False)
    few = ["--model", "mixture", "--set", "model.components=1", "--set", "bootstrap=none"]
    fit = vgi("fit", tmp_path / "t.csv", "--out", tmp_path / "run", *few)
    assert "'cigarettes' follows from 'person'" in fit.err and "'smoke' is not 'no' where" in fit.err
    rule = ["--leave-blank", "cigarettes:smoke=no"]
    impute = vgi("impute", "--checkpoint", tmp_path / "run", "--m", 1, "--out", tmp_path / "f.csv", *rule)
    assert impute.code == 0
    (file,) = tmp_path.glob("f*.csv")
    filled = pd.read_csv(file)
    assert (filled.cigarettes.isna() == (filled.smoke == "no")).all()
    known = table.groupby("person").cigarettes.transform("count") > 1
    same = table.groupby("person").cigarettes.transform("max")
    holes = table.cigarettes.isna() & (filled.smoke == "yes") & known
    assert holes.sum() > 5 and (filled.cigarettes == same)[holes].all()
