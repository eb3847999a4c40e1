"""A column that is another one cut off at a value, from the table to fills."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from tests.program import Vgi

FEW = ["--model", "fa", "--set", "bootstrap=none"]
CAP = 44_000
WORDS = f"'topcoded' = 'income', at most {CAP}"


def incomes(n: int = 400) -> pd.DataFrame:
    """Incomes, what they are top-coded, and what goes with them closely."""
    rng = np.random.default_rng(0)
    income = np.round(np.exp(rng.normal(10.2, 0.5, n)), -2)
    rent = np.round(income * rng.normal(0.3, 0.01, n))
    frame = pd.DataFrame({"income": income, "topcoded": income.clip(max=CAP), "rent": rent}).astype(int)
    return frame.assign(age=rng.integers(18, 70, n))


def broken(frame: pd.DataFrame) -> int:
    """Rows in which the one is not the other, cut off."""
    return int((frame.income.clip(upper=CAP) != frame.topcoded).sum())


def test_incomes_that_are_top_coded(vgi: Vgi, tmp_path: Path) -> None:
    truth = incomes()
    holes = np.random.default_rng(1).random(truth.shape) < 0.2
    holes[:, 2:] = False
    truth.astype(object).mask(holes).to_csv(tmp_path / "t.csv", index=False)
    fit = vgi("fit", tmp_path / "t.csv", "--out", tmp_path / "run", *FEW)
    assert fit.code == 0 and WORDS in fit.err and "≤" not in fit.err
    impute = vgi("impute", "--checkpoint", tmp_path / "run", "--m", 5, "--out", tmp_path / "f.csv")
    assert impute.code == 0 and "not keep" not in impute.err
    filled = [pd.read_csv(tmp_path / f"f.{i}.csv") for i in range(1, 6)]
    assert [broken(one) for one in filled] == [0] * 5
    alone, beyond = holes[:, 0] & ~holes[:, 1], (truth.topcoded == CAP).to_numpy()
    assert all((one.income == truth.income)[alone & ~beyond].all() for one in filled)
    cut = alone & beyond
    assert cut.sum() > 5 and all((one.income[cut] > CAP).all() for one in filled)
    assert np.mean([np.corrcoef(one.income[cut], one.rent[cut])[0, 1] for one in filled]) > 0.7  # its rent says how far


def test_samples_other_tables_and_what_is_said(vgi: Vgi, tmp_path: Path) -> None:
    truth = incomes()
    truth.to_csv(tmp_path / "t.csv", index=False)
    assert vgi("fit", tmp_path / "t.csv", "--out", tmp_path / "run", *FEW).code == 0
    assert '"beyond": {' in (tmp_path / "run" / "schema.json").read_text()
    sample = vgi("sample", tmp_path / "run", "-n", 200, "-o", tmp_path / "s.csv")
    assert sample.code == 0 and broken(pd.read_csv(tmp_path / "s.csv")) == 0
    other = truth.head(20).astype(object)
    other.loc[:2, "topcoded"] = CAP + 100
    other.loc[10:, "income"] = None
    other.to_csv(tmp_path / "o.csv", index=False)
    impute = vgi("impute", "--checkpoint", tmp_path / "run", tmp_path / "o.csv", "--out", tmp_path / "f.csv")
    assert impute.code == 0 and WORDS in impute.err and "3 rows" in impute.err
