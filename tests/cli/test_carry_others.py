"""`--carry-others`: columns that a model cannot take are refused by name, or carried."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.program import Vgi, vgi

__all__ = ["vgi"]

FA = ["fit", "t.csv", "--model", "fa", "--set", "model.factors=1", "--epochs", "3", "--column", "sex=categorical"]


@pytest.fixture(autouse=True)
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 2))
    rows = [f"{a:.3f},{'' if i % 7 == 0 else f'{b:.3f}'},{'fm'[int(a > 0)]}" for i, (a, b) in enumerate(x)]
    Path("t.csv").write_text("a,b,sex\n" + "\n".join([*rows[:-1], "0.1,0.2,"]) + "\n")


def test_a_model_of_numbers_refuses_levels_by_name(vgi: Vgi) -> None:
    done = vgi(*FA)
    assert done.code == 2 and "--model fa takes numbers only: column 'sex' is of another kind" in done.err
    assert "--carry-others carries them as they are" in done.err
    assert not Path("run1").exists()


def test_the_others_are_carried(vgi: Vgi) -> None:
    fitted = [argument for argument in FA if not argument.startswith("sex=") and argument != "--column"]
    done = vgi(*fitted, "--carry-others", "--out", "run")
    assert done.code == 0, done.err
    assert vgi("impute", "--checkpoint", "run", "--m", "1", "-o", "filled.csv").code == 0
    before, after = Path("t.csv").read_text().splitlines(), Path("filled.1.csv").read_text().splitlines()
    assert [line.split(",")[2] for line in before] == [line.split(",")[2] for line in after]
    assert all(line.split(",")[1] for line in after)


def test_the_report_says_which_columns_are_in_the_likelihood(vgi: Vgi) -> None:
    """Of two runs of one table, one of which carries the levels that the other models."""
    assert vgi("fit", "t.csv", "--model", "fa", "--carry-others", "--epochs", "3", "--out", "numbers").code == 0
    plain = ["--model", "mixture", "--epochs", "3", "--set", "bootstrap=none"]
    assert vgi("fit", "t.csv", *plain, "--out", "all").code == 0
    found = {}
    for run in ("numbers", "all"):
        found[run] = json.loads(vgi("evaluate", "--checkpoint", run, "t.csv", "--json").out)["loglik"]
    assert found["numbers"]["carried"] == ["sex"] and "probability" not in found["numbers"]
    assert found["all"]["probability"] == ["sex"] and "carried" not in found["all"]
    assert found["numbers"]["dequantised"] == found["all"]["dequantised"] == ["a", "b"]
    text = vgi("evaluate", "--checkpoint", "numbers", "t.csv").out
    assert "- not in the log-likelihood, as the run carries them: sex" in text
    assert "- to be compared only with a run in whose log-likelihood the same columns are" in text


def test_values_that_pile_up_are_numbers_to_a_model_of_numbers(vgi: Vgi) -> None:
    rng = np.random.default_rng(1)
    spent = np.where(rng.random(200) < 0.3, 0.0, np.exp(rng.normal(3, 1, 200)))
    rows = [f"{i % 9}.5,{v:.2f}" for i, v in enumerate(spent)]
    Path("spent.csv").write_text("a,spent\n" + "\n".join([*rows, ",1.5", "2.5,"]) + "\n")
    fa = ["fit", "spent.csv", "--model", "fa", "--set", "model.factors=1", "--epochs", "3"]
    done = vgi(*fa, "--set", "table.spikes=split")
    assert done.code == 2 and "--model fa takes numbers only: column 'spent' is of another kind" in done.err
    assert "`--set table.spikes=room` models columns of numbers in which a value piles up" in done.err
    assert vgi(*fa, "--out", "run").code == 0 and "spikes: room" in Path("run/recipe.yaml").read_text()
    assert vgi("fit", "spent.csv", "--out", "split", "--model", "mixture", "--set", "bootstrap=none").code == 0
    assert "spikes: split" in Path("split/recipe.yaml").read_text()


def test_where_that_leaves_no_column_models_that_take_levels_are_named(vgi: Vgi) -> None:
    Path("levels.csv").write_text("a,b\n" + "".join(f"{'xyz'[i % 3]},{'lh'[i % 2]}\n" for i in range(60)) + "x,\n")
    for flags in ([], ["--dry-run"]):
        done = vgi("fit", "levels.csv", "--model", "fa", "--carry-others", *flags)
        assert done.code == 2
        what = "levels.csv: no column left to model: --carry-others carries columns 'a', 'b' of levels"
        assert what in done.err and "--model mixture or flow or flow-ar or vae takes them" in done.err
