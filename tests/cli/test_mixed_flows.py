"""Flows of tables with columns of levels, from the command line."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from tests.program import Vgi, vgi

__all__ = ["vgi"]

SIZES = ("steps=2", "hidden=8", "bins=4", "blocks=1", "level_hidden=8", "embedding=4")
SMALL = [argument for size in SIZES for argument in ("--set", f"model.{size}")]
KINDS = ["--column", "sex=categorical", "--column", "grade=categorical"]


@pytest.fixture(autouse=True)
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """whole.csv, and holes.csv: a third of its cells missing."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    n = 90
    sex = rng.integers(2, size=n)
    grade = np.clip(np.rint(1 + 0.7 * sex + rng.normal(size=n)), 0, 2).astype(int)
    height = 165 + 12 * sex + 6 * rng.normal(size=n)
    weight = height - 100 + 4 * grade + 5 * rng.normal(size=n)
    rows = [
        [f"{h:.1f}", "fm"[s], ("low", "mid", "high")[g], f"{w:.1f}"]
        for h, s, g, w in zip(height, sex, grade, weight, strict=True)
    ]
    shown = rng.random((n, 4)) > 0.33
    header = ["height", "sex", "grade", "weight"]
    for name, cells in (
        ("whole", rows),
        (
            "holes",
            [[c if s else "" for c, s in zip(r, line, strict=True)] for r, line in zip(rows, shown, strict=True)],
        ),
    ):
        with Path(f"{name}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([header, *cells])


@pytest.mark.parametrize("model", ["flow", "flow-ar"])
def test_chains_in_the_base_space_are_refused_by_name(vgi: Vgi, model: str) -> None:
    done = vgi("fit", "holes.csv", "--model", model, "--method", "plmcmc", "--epochs", "1", *KINDS)
    assert done.code == 2
    assert "--method plmcmc takes numbers only: columns 'sex', 'grade' are of another kind" in done.err
    assert "--method vgi or vbgi or complete or impute-then-fit takes them; --carry-others carries them" in done.err


def test_a_whole_table_is_fitted_and_scored_exactly(vgi: Vgi) -> None:
    fitted = vgi(
        "fit", "whole.csv", "--model", "flow", "--method", "complete", "--epochs", "2", *KINDS, *SMALL, "--out", "run"
    )
    assert fitted.code == 0, fitted.err
    done = vgi("evaluate", "--checkpoint", "run", "whole.csv", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["loglik"]["estimator"] == "exact"
    for sampler in ([], ["--sampler", "plmcmc"]):
        done = vgi("impute", "holes.csv", "--checkpoint", "run", "-o", "filled.csv", *sampler)
        assert done.code == 2 and "with columns of levels" in done.err and "fit again by vgi" in done.err
