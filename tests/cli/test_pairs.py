"""What follows from two columns together, from the table to fills."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.encoding.test_pairs import drinks
from tests.program import Vgi
from tests.selection import first

FEW = ["--model", "mixture", "--set", "model.components=1", "--set", "bootstrap=none"]
WORDS = "'price' follows from 'item' and 'size'"


def apart(frame: pd.DataFrame, truth: pd.DataFrame) -> int:
    """Rows in which the price is not that of the item in its size."""
    prices = truth.groupby(["item", "size"]).price.first()
    return int((prices.loc[list(zip(frame["item"], frame["size"], strict=True))].to_numpy() != frame.price).sum())


@pytest.mark.parametrize("flags", first(1, [["--max-memory", "1G"], []]))
def test_prices_follow_from_items_and_sizes(vgi: Vgi, tmp_path: Path, flags: list[str]) -> None:
    truth = drinks(120)
    holes = np.random.default_rng(1).random(truth.shape) < 0.15
    truth.mask(holes).to_csv(tmp_path / "t.csv", index=False)
    found = {}
    for how in ("keep",) if flags else ("keep", "ignore"):
        run = tmp_path / how
        fit = vgi("fit", tmp_path / "t.csv", "--out", run, *FEW, *flags, "--set", f"table.relations={how}")
        assert fit.code == 0 and (WORDS in fit.err) == (how == "keep")
        impute = vgi("impute", "--checkpoint", run, "--m", 3, "--out", tmp_path / f"{how}.csv", *flags)
        assert impute.code == 0 and "not keep" not in impute.err
        filled = [pd.read_csv(tmp_path / f"{how}.{i}.csv") for i in (1, 2, 3)]
        found[how] = [apart(one, truth) for one in filled]
        if how == "keep":
            known = holes[:, 2] & ~holes[:, :2].any(1)
            assert known.sum() > 5 and all((one.price == truth.price)[known].all() for one in filled)
    assert max(found["keep"]) == 0 and min(found.get("ignore", [2])) > 1


def test_samples_other_tables_and_what_is_said(vgi: Vgi, tmp_path: Path) -> None:
    truth = drinks(120)
    truth.to_csv(tmp_path / "t.csv", index=False)
    check = vgi("check", tmp_path / "t.csv", "--no-trial")
    assert check.code == 0 and WORDS in check.out + check.err
    assert vgi("fit", tmp_path / "t.csv", "--out", tmp_path / "run", *FEW).code == 0
    assert '"how": "pairs"' in (tmp_path / "run" / "schema.json").read_text()
    sample = vgi("sample", tmp_path / "run", "-n", 200, "-o", tmp_path / "s.csv")
    assert sample.code == 0 and apart(pd.read_csv(tmp_path / "s.csv"), truth) == 0
    other = truth.head(20).assign(total=np.nan)
    other.loc[:2, "price"] = 9.99
    other.to_csv(tmp_path / "o.csv", index=False)
    impute = vgi("impute", "--checkpoint", tmp_path / "run", tmp_path / "o.csv", "--out", tmp_path / "f.csv")
    assert impute.code == 0 and WORDS in impute.err and "3 rows" in impute.err
    page = vgi("report", tmp_path / "run", "--out", tmp_path / "r.html")
    assert page.code == 0 and "follows from" in (tmp_path / "r.html").read_text()
