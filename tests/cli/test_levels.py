"""Columns of levels through impute and evaluate: point estimates, scores by kind, a truth in another spelling."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.cli.test_refusals import FA, refused, text
from tests.program import Vgi, fit_once

KINDS = ["--column", "sex=categorical", "--column", "code=categorical", "--column", "grade=ordinal:low,mid,high"]
FIT = [
    *("--model", "mixture", "--epochs", "3", "--threads", "1", *KINDS),
    *("--set", "model.components=2", "--set", "bootstrap=none"),
]


def table(rows: int = 40) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "size": rng.normal(size=rows).round(6),
            "sex": rng.choice(["Male", "Female"], rows),
            "code": rng.choice(["1", "2", "7"], rows),
            "grade": rng.choice(["low", "mid", "high"], rows),
        }
    )


@pytest.fixture
def run(vgi: Vgi) -> pd.DataFrame:
    whole = table()
    holes = whole.mask(np.random.default_rng(1).random(whole.shape) < 0.3)
    whole.to_csv("whole.csv", index=False)
    holes.to_csv("holes.csv", index=False)
    fit_once(vgi, "holes.csv", *FIT)
    return holes


def test_point_estimates_of_levels_are_modes(vgi: Vgi, run: pd.DataFrame) -> None:
    assert vgi("impute", "--checkpoint", "run", "--m", "9", "-o", "draw.csv").code == 0
    draws = [pd.read_csv(f"draw.{i}.csv", dtype={"code": str}) for i in range(1, 10)]
    said = {
        "mean": "the mean of 9 draws (of levels: the one drawn most often) is a best guess without its",
        "median": "the median of 9 draws (of levels without an order: the one drawn most often) is a best guess",
        "mode": "the mode of 9 draws (of numbers: the median) is a best guess without its uncertainty",
    }
    for how, line in said.items():
        done = vgi("impute", "--checkpoint", "run", "--m", "9", "--point", how, "-o", f"{how}.csv")
        assert done.code == 0 and line in done.err, done.err
        filled = pd.read_csv(f"{how}.csv", dtype={"code": str})
        assert not filled.isna().any().any()
        for name in ("sex", "code", "grade") if how != "median" else ("sex", "code"):
            counts = pd.DataFrame([draw[name] for draw in draws]).T.apply(pd.Series.value_counts, axis=1).fillna(0)
            drawn = [counts.loc[i, level] for i, level in enumerate(filled[name])]
            assert (drawn == counts.max(axis=1)).all(), (how, name)
        of = np.mean if how == "mean" else np.median
        expected = of([draw["size"] for draw in draws], 0)
        assert np.abs(filled["size"] - expected).max() < 1e-5


def test_the_mode_of_numbers_alone_is_refused(vgi: Vgi) -> None:
    Path("data.csv").write_text(text())
    assert vgi("fit", "data.csv", *FA, "--out", "run").code == 0
    error, hint = refused(vgi, "impute", "--checkpoint", "run", "--point", "mode")[:2]
    assert "--point mode: run 'run' has no column of levels" in error and "--point mean or median" in hint


def test_scores_are_reported_by_kind(vgi: Vgi, run: pd.DataFrame) -> None:
    done = vgi("evaluate", "--checkpoint", "run", "holes.csv", "--truth", "whole.csv", "--json")
    assert done.code == 0, done.err
    report = json.loads(done.out)
    found = report["imputation"]
    assert set(found) >= {"crps", "rmse", "mae", "coverage90", "log_score", "brier", "error", "ece", "rps", "kinds"}
    assert found["kinds"]["categorical"]["columns"] == 2 and found["kinds"]["ordinal"]["rps"] == found["rps"]
    assert set(found["columns"]["sex"]) == {"cells", "log_score", "brier", "error", "ece", "marginal"}
    assert found["columns"]["sex"]["cells"] == int(run["sex"].isna().sum())
    assert report["loglik"]["probability"] == ["sex", "code", "grade"]
    ask = ["evaluate", "--checkpoint", "run", "holes.csv", "--truth", "whole.csv"]
    page = vgi(*ask).out
    assert "| overall, categorical |" in page and "| overall, ordinal |" in page and "| RPS |" in page
    assert "- probability of a cell: sex, code, grade" in page
    paths = ("imputation.brier", "imputation.columns.grade.rps", "imputation.kinds.ordinal.log_score")
    done = vgi(*ask, *(word for path in paths for word in ("--fail-if", f"{path} > 0.0001")))
    assert done.code == 3 and all(f"{path} is 0." in done.err or f"{path} is 1." in done.err for path in paths), (
        done.err
    )


def test_a_truth_in_another_spelling(vgi: Vgi, run: pd.DataFrame) -> None:
    """Other letters, blanks, numbers as floats, a Parquet dictionary: the same scores. A level that the fit has not
    seen is an error of every draw."""
    whole = table()
    other = whole.assign(
        sex=" " + whole["sex"].str.upper(), code=whole["code"].astype(float), grade=whole["grade"].astype("category")
    )
    other.drop(columns="grade").assign(grade=whole["grade"]).to_csv("spelled.csv", index=False)
    other.to_parquet("spelled.parquet")
    ask = ["evaluate", "--checkpoint", "run", "holes.csv", "--json", "--truth"]
    expected = json.loads(vgi(*ask, "whole.csv").out)["imputation"]
    for name in ("spelled.csv", "spelled.parquet"):
        done = vgi(*ask, name)
        assert done.code == 0, done.err
        assert json.loads(done.out)["imputation"] == expected
    whole["sex"] = "neither"
    whole.to_csv("unseen.csv", index=False)
    unseen = json.loads(vgi(*ask, "unseen.csv").out)["imputation"]
    assert unseen["columns"]["sex"]["error"] == 1.0
    assert unseen["columns"]["sex"]["log_score"] == pytest.approx(np.log(21))
    assert unseen["columns"]["code"] == expected["columns"]["code"]


def test_the_truth_may_be_a_run_with_levels(vgi: Vgi, run: pd.DataFrame) -> None:
    """A run against itself is at distance 0; against another of which a category lists its levels in another order, KL
    is the same whichever order was listed (nine in ten are of one sex: levels that are mixed up would show)."""
    assert len(run)
    ask = ["evaluate", "--checkpoint", "run", "holes.csv", "--json", "--truth-model"]
    done = vgi(*ask, "run")
    assert done.code == 0, done.err
    found = json.loads(done.out)["truth"]
    assert found["kl"] == pytest.approx(0, abs=1e-9) and found["kl_estimator"] == "monte carlo"
    assert found["sliced_wasserstein"]["standardised"] < 0.1 and "rmse" not in found
    more = table(60)
    more.assign(sex=["Female" if i % 10 == 0 else "Male" for i in range(60)]).to_csv("more.csv", index=False)
    gaps = {}
    for out, listed in (("one", "Female,Male"), ("two", "Male,Female")):
        kinds = [f"sex=categorical:{listed}" if word.startswith("sex=") else word for word in FIT]
        done = vgi("fit", "more.csv", *kinds, "--out", out)
        assert done.code == 0, done.err
        done = vgi(*ask, out)
        assert done.code == 0, done.err
        gaps[out] = json.loads(done.out)["truth"]
        assert gaps[out]["kl"] > 3 * gaps[out]["kl_se"] > 0
    noise = gaps["one"]["kl_se"] + gaps["two"]["kl_se"]
    assert abs(gaps["one"]["kl"] - gaps["two"]["kl"]) < 4 * noise


def test_truth_models_that_cannot_be_compared(vgi: Vgi, run: pd.DataFrame) -> None:
    """Parameters in a file are of numbers; the levels of both runs must be the same, of a scale in the same order."""
    whole = table().assign(sex=run["sex"])
    law = {"columns": list(whole), "mean": [0.0] * 4, "F": [[1.0]] * 4, "psi": [1.0] * 4}
    Path("law.json").write_text(json.dumps(law))
    ask = ["evaluate", "--checkpoint", "run", "holes.csv", "--truth-model"]
    error, hint = refused(vgi, *ask, "law.json")[:2]
    assert "law.json is a law of numbers, and column 'sex' of run 'run' holds levels" in error and "run folder" in hint
    for name, word, kind, what in (
        ("turned", "grade=", "grade=ordinal:high,mid,low", "'grade' has its levels in another order in the two"),
        ("wider", "grade=", "grade=ordinal:low,mid,high,top", "'grade' has different levels in the two"),
        ("number", "code=", "code=integer", "'code' holds levels in one of the two, and numbers in the other"),
    ):
        kinds = [kind if one.startswith(word) else one for one in FIT]
        done = vgi("fit", "whole.csv", *kinds, "--out", name)
        assert done.code == 0, done.err
        error, hint = refused(vgi, *ask, name)[:2]
        if name != "number":
            assert f"--truth-model: column {what} (runs '{name}' and 'run')" in error and "same levels" in hint
        else:
            assert "column 'code'" in error


def test_a_truth_whose_dictionary_has_another_order(vgi: Vgi, run: pd.DataFrame) -> None:
    """The order of a dictionary says nothing about a category: the scores are the same."""
    assert len(run)
    whole = table().assign(code=lambda t: t["code"].astype(str))
    ask = ["evaluate", "--checkpoint", "run", "holes.csv", "--json", "--truth"]
    expected = json.loads(vgi(*ask, "whole.csv").out)["imputation"]
    for ordered in (False, True):
        kind = pd.CategoricalDtype(["Male", "Female"], ordered), pd.CategoricalDtype(["7", "1", "2"], ordered)
        whole.assign(sex=whole["sex"].astype(kind[0]), code=whole["code"].astype(kind[1])).to_parquet("turned.parquet")
        done = vgi(*ask, "turned.parquet")
        assert done.code == 0, done.err
        assert json.loads(done.out)["imputation"] == expected


class TestWordsThatUsuallyMeanMissing:
    """Levels called None, of a column whose levels are known."""

    WORDS = ("--model", "mixture", "--epochs", "2", "--set", "model.components=1", "--set", "bootstrap=none")

    @staticmethod
    def symptoms() -> pd.DataFrame:
        rng = np.random.default_rng(0)
        pain = rng.choice(["None", "Mild", "Severe"], 60).astype(object)
        pain[::10] = None
        return pd.DataFrame({"size": rng.normal(size=60).round(4), "pain": pain})

    def kept(self, vgi: Vgi) -> None:
        whole = self.symptoms()
        whole.to_csv("new.csv", index=False)
        assert vgi("impute", "--checkpoint", "run", "new.csv", "--m", "1", "-o", "draw.csv").code == 0
        filled = pd.read_csv("draw.1.csv", keep_default_na=False)["pain"]
        seen = whole["pain"].notna()
        assert (filled[seen] == whole["pain"][seen]).all() and set(filled) == {"None", "Mild", "Severe"}
        done = vgi("evaluate", "--checkpoint", "run", "draw.1.csv")
        assert done.code == 0, done.err

    def test_listed_levels_are_no_holes(self, vgi: Vgi) -> None:
        self.symptoms().to_csv("t.csv", index=False)
        done = vgi("fit", "t.csv", *self.WORDS, "--column", "pain=ordinal:None,Mild,Severe", "--out", "run")
        assert done.code == 0 and "taken for missing" not in done.err, done.err
        self.kept(vgi)

    def test_levels_of_a_fitted_parquet_are_no_holes_of_csv(self, vgi: Vgi) -> None:
        self.symptoms().to_parquet("t.parquet")
        assert vgi("fit", "t.parquet", *self.WORDS, "--out", "run").code == 0
        self.kept(vgi)

    def test_the_empty_token_of_a_column_is_kept_by_the_run(self, vgi: Vgi) -> None:
        self.symptoms().to_csv("t.csv", index=False)
        done = vgi("fit", "t.csv", *self.WORDS, "--na-values", "pain=", "--out", "run")
        assert done.code == 0 and "taken for missing" not in done.err, done.err
        self.kept(vgi)
