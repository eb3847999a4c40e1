"""Cells that never go together, from the table to fills and rows of the model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.program import Vgi
from tests.selection import first

SMALL = {
    "flow": [
        "model.steps=1",
        "model.hidden=4",
        "model.blocks=0",
        "optim.warmup_conditionals=1",
        "optim.warmup_model=1",
    ],
    "vae": ["optim.warmup_model=1"],
}


@pytest.mark.parametrize("model", first(1, ["vae", "mixture", "flow"]))
def test_no_fill_and_no_row_has_them(vgi: Vgi, tmp_path: Path, model: str) -> None:
    """Months that belong to one season or the next: by exact draws, by chains, and by chains that were kept. Without
    the rule some fills and rows are no such pair."""
    rng = np.random.default_rng(1)
    months, n = (12, 1500) if model == "mixture" else (6, 250)
    month = rng.integers(0, months, n)
    season = (month + rng.integers(0, 2, n)) % months // 3
    weight = (60 + rng.normal(0, 8, n)).round(1)
    truth = pd.DataFrame({"month": np.array(list("abcdefghijkl"))[month], "season": season.astype(str), "kg": weight})
    truth["season"] = "q" + truth.season
    pairs = set(zip(truth.month, truth.season, strict=True))
    truth.mask(rng.random(truth.shape) < 0.3).to_csv(tmp_path / "t.csv", index=False)

    def strange(table: pd.DataFrame) -> int:
        assert table.notna().all(axis=None)
        return len(table) - sum(pair in pairs for pair in zip(table.month, table.season, strict=True))

    found = {}
    for how in ("keep", "ignore"):
        run, rows = tmp_path / how, tmp_path / f"{how}-rows.csv"
        few = ["bootstrap=none", f"table.relations={how}", *SMALL.get(model, ())]
        more = [word for setting in few for word in ("--set", setting)]
        assert vgi("fit", tmp_path / "t.csv", "--model", model, "--epochs", 2, "--out", run, *more).code == 0
        assert vgi("impute", "--checkpoint", run, "--m", 1, "--out", tmp_path / f"{how}.csv").code == 0
        assert vgi("sample", run, "-n", 200, "--out", rows).code == 0
        found[how] = (strange(pd.read_csv(tmp_path / f"{how}.1.csv")), strange(pd.read_csv(rows)))
    assert found["keep"] == (0, 0) and min(found["ignore"]) > 0


def test_rules_that_fills_do_not_keep_to_are_named(vgi: Vgi, tmp_path: Path) -> None:
    """Sums that are tens in the fit, and are not in new rows: three are named with their rows, -v lists the others."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame()
    for i in range(4):
        frame[f"base{i}"] = 50 * rng.integers(1, 20, 150)
        frame[f"extra{i}"] = rng.choice([0, 10, 50], 150)
        frame[f"total{i}"] = frame[f"base{i}"] + frame[f"extra{i}"]
    frame.mask(rng.random(frame.shape) < 0.1).to_csv(tmp_path / "t.csv", index=False)
    few = ["--model", "mixture", "--set", "model.components=1", "--set", "bootstrap=none"]
    assert vgi("fit", tmp_path / "t.csv", "--out", tmp_path / "run", *few).code == 0
    new = frame.head(4).astype(float)
    for i in range(4):
        new.loc[: 3 - i, f"base{i}"] += 4
        new[f"total{i}"] = np.nan
    new.to_csv(tmp_path / "new.csv", index=False)
    impute = ["impute", "--checkpoint", tmp_path / "run", tmp_path / "new.csv", "--m", 1, "--force"]
    lines = vgi(*impute, "-o", tmp_path / "out.csv").err.splitlines()
    left = "they are left as drawn, since the search found no fills (there may be some)"
    why = f"{left} that suit the limits of their columns, observed cells and all such rules"
    named = [f"'total{i}' = 'base{i}' + 'extra{i}' ({4 - i} rows)" for i in range(3)]
    rest = "and 1 more, which -v lists"
    whole = "4 filled rows do not keep to what holds in every row of the fit"
    assert f"{whole}: {why}; not kept: {'; '.join([*named, rest])}" in lines
    detail = "not kept to in 1 row: 'total3' = 'base3' + 'extra3'"
    assert detail not in lines
    assert detail in vgi(*impute, "-o", tmp_path / "out.csv", "-v").err.splitlines()


def test_levels_are_drawn_as_without_the_rule(vgi: Vgi, tmp_path: Path) -> None:
    """One Gaussian for numbers of 0 to 10 of the one level, and to 50 of the other: half of the former are drawn beyond
    their limit, and come within it, of the same levels."""
    rng = np.random.default_rng(5)
    level = np.where(rng.random(400) < 0.5, "a", "b")
    number = np.where((level == "b") & (rng.random(400) < 0.5), 40, 0) + 10 * rng.random(400)
    table = pd.DataFrame({"level": level, "number": number.round(2), "other": rng.normal(size=400).round(2)})
    table.loc[rng.random(400) < 0.4, ["level", "number"]] = None
    table.to_csv(tmp_path / "t.csv", index=False)
    levels = {}
    for how in ("keep", "ignore"):
        run, rows = tmp_path / how, tmp_path / f"{how}-rows.csv"
        few = ["bootstrap=none", f"table.relations={how}", "model.components=1", "table.transform=none"]
        more = [word for setting in few for word in ("--set", setting)]
        assert vgi("fit", tmp_path / "t.csv", "--model", "mixture", "--out", run, *more).code == 0
        assert vgi("impute", "--checkpoint", run, "--m", 1, "--out", tmp_path / f"{how}.csv").code == 0
        assert vgi("sample", run, "-n", 200, "--out", rows).code == 0
        tables = [pd.read_csv(tmp_path / f"{how}.1.csv"), pd.read_csv(rows)]
        levels[how] = [table.level.tolist() for table in tables]
        assert [bool((table.number[table.level == "a"] > 20).any()) for table in tables] == [how == "ignore"] * 2
    assert levels["keep"] == levels["ignore"]
