"""`vgi evaluate` scores the fills that `vgi impute` writes, also where blank answers speak: in the fitted table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import vgi_cli
from tests.program import Vgi, fit_once
from vgi_cli.evaluation.imputation import COVERAGE_DRAWS, fair_crps

N = 300
FLAGS = ["--model", "mixture", "--set", "model.components=1", "--set", "bootstrap=none", "--threads", "1"]
SAID = "blank in column 'cause'"
"""Of the line that says that blanks do not speak."""


def trial(N: int = N) -> tuple[pd.DataFrame, pd.DataFrame]:
    """A table with holes and the whole one: `cause` has a cell exactly where `died` is 1; `died` depends on little."""
    rng = np.random.default_rng(0)
    age, died = rng.integers(30, 90, N), rng.integers(0, 2, N)
    cause = np.where(died == 1, rng.choice(["cardiac", "cancer", "other"], N), None)
    truth = pd.DataFrame({"age": age, "died": died, "cause": cause, "score": rng.normal(age / 9, 1).round(2)})
    holes = rng.random(truth.shape) < 0.15
    holes[:, 2] = False  # of who died every cause is known
    return truth.astype(object).mask(holes), truth


@pytest.fixture
def fitted(vgi: Vgi) -> Path:
    for frame, name in zip(trial(), ("t.csv", "truth.csv"), strict=True):
        frame.to_csv(name, index=False)
    return fit_once(vgi, "t.csv", *FLAGS)


def scores(tables: list[pd.DataFrame], table: pd.DataFrame, truth: pd.DataFrame) -> dict[str, Any]:
    """The share of wrong draws of `died`, and the CRPS of `score`."""
    died, score = (table[name].isna().to_numpy() for name in ("died", "score"))
    wrong = [(each.died.astype(int) != truth.died)[died].mean() for each in tables]
    draws = np.stack([each.score[score].to_numpy(float) for each in tables])
    crps = fair_crps(torch.tensor(draws), torch.tensor(truth.score[score].to_numpy(float))).mean()
    return {"wrong": float(np.mean(wrong)), "crps": float(crps)}


def test_scores_are_those_of_the_tables_that_impute_writes(vgi: Vgi, fitted: Path) -> None:
    done = vgi("impute", "--checkpoint", "run", "--m", str(COVERAGE_DRAWS), "-o", "f.csv")
    assert done.code == 0 and SAID not in done.err
    tables = [pd.read_csv(f"f.{i}.csv") for i in range(1, COVERAGE_DRAWS + 1)]
    own = scores(tables, pd.read_csv("t.csv"), pd.read_csv("truth.csv"))
    done = vgi("evaluate", "--checkpoint", "run", "t.csv", "--truth", "truth.csv", "--json")
    columns = json.loads(done.out)["imputation"]["columns"]
    assert SAID not in done.err
    assert columns["died"]["error"] == 0 and own["wrong"] == 0  # its blank beside it says so
    assert columns["score"]["crps"] == pytest.approx(own["crps"], rel=1e-9)


def test_fills_that_would_read_as_missing_are_scored_as_they_are_written(vgi: Vgi, fitted: Path) -> None:
    whole = pd.read_csv("truth.csv")
    ages = ",".join(f"age={age}" for age in range(40, 80, 2))
    codes = [part for age in ages.split(",") for part in ("--na-values", age)]
    assert vgi("fit", "t.csv", *FLAGS, *codes, "--out", "coded").code == 0
    assert vgi("impute", "--checkpoint", "coded", "--m", str(COVERAGE_DRAWS), "-o", "f.csv").code == 0
    hidden = pd.read_csv("t.csv").age.isna().to_numpy()
    draws = np.stack([pd.read_csv(f"f.{i}.csv").age[hidden] for i in range(1, COVERAGE_DRAWS + 1)])
    known = ~whole.age[hidden].isin(range(40, 80, 2)).to_numpy()
    crps = fair_crps(torch.tensor(draws[:, known] * 1.0), torch.tensor(whole.age[hidden][known].to_numpy(float)))
    done = vgi("evaluate", "--checkpoint", "coded", "t.csv", "--truth", "truth.csv", "--json")
    found = json.loads(done.out)["imputation"]["columns"]["age"]
    assert "were what means missing" in done.err
    assert found["cells"] == known.sum() and found["crps"] == pytest.approx(float(crps.mean()), rel=1e-9)


def test_of_another_table_blanks_do_not_speak_and_a_line_says_so(vgi: Vgi, fitted: Path) -> None:
    table, truth = trial()
    some = table.iloc[:200], truth.iloc[:200]
    for frame, name in zip(some, ("u.csv", "utruth.csv"), strict=True):
        frame.to_csv(name, index=False)
    rows = int((some[0].died.isna() & some[0].cause.isna()).sum())
    for command in (["impute", "u.csv", "-o", "u2.csv"], ["evaluate", "u.csv", "--truth", "utruth.csv", "--json"]):
        done = vgi(command[0], "--checkpoint", "run", *command[1:])
        assert done.code == 0 and done.err.count(SAID) == 1
        assert f"{rows} rows lack a cell of column 'died' and are {SAID}: only where the fitted table" in done.err
    error = json.loads(done.out)["imputation"]["columns"]["died"]["error"]
    assert 0.1 < error < 0.5
    assert SAID not in vgi("impute", "--checkpoint", "run", "truth.csv", "-o", "whole.csv").err  # no row of that kind


def test_tables_in_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    table, truth = (frame.convert_dtypes() for frame in trial())
    settings = {"model.components": 1, "bootstrap": "none"}
    run = vgi_cli.fit(table, model="mixture", set=settings, threads=1, out="run")
    found = run.evaluate(table, truth=truth)["imputation"]["columns"]
    assert found["died"]["error"] == 0
    part, whole = table.iloc[50:], truth.iloc[50:]
    lines: list[str] = []
    report = run.evaluate(part, truth=whole, say=lines.append)["imputation"]["columns"]
    assert sum(SAID in line for line in lines) == 1
    own = scores(run.impute(part, m=COVERAGE_DRAWS), part, whole)
    assert report["score"]["crps"] == pytest.approx(own["crps"], rel=1e-9)
    assert report["died"]["error"] > 0 and own["wrong"] > 0


def test_an_imputer_hears_blanks_in_the_table_of_its_fit_alone() -> None:
    table = trial()[0].convert_dtypes()
    settings = {"model.components": 1, "bootstrap": "none"}
    fitted = vgi_cli.Imputer(model="mixture", set=settings, threads=1).fit(table)
    rows = (table.died.isna() & table.cause.isna()).to_numpy()
    assert all((each.died[rows] == 0).all() for each in fitted.sample(m=3))
    assert all((each.died[rows] == 0).all() for each in fitted.sample(3, table))
    some = fitted.sample(3, table.iloc[50:])
    assert any((each.died[rows[50:]] == 1).any() for each in some)
    every = fitted.transform(table)
    pd.testing.assert_frame_equal(every.iloc[50:], fitted.transform(table.iloc[50:]))
