"""Flows of tables with columns of levels, from the command line."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from tests.program import Vgi, vgi
from tests.tensors import same_tensors
from vgi_cli.runs.folder import RunFolder

__all__ = ["vgi"]

SIZES = ("steps=2", "hidden=8", "bins=4", "blocks=1", "level_hidden=8", "embedding=4")
SMALL = ["--set", "bootstrap=none", *(word for size in SIZES for word in ("--set", f"model.{size}"))]
KINDS = ["--column", "sex=categorical", "--column", "grade=categorical"]


@pytest.fixture(autouse=True)
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """whole.csv, and holes.csv: a third of its cells missing."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    n = 60
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


VGI = ["--set", "method.trunk=[8]", "--set", "method.hidden=[8]", "--set", "optim.warmup_conditionals=1",
       "--set", "optim.warmup_model=1", "--set", "optim.schedule=constant", "--set", "optim.average=0"]  # fmt: skip


def cells(path: str) -> list[list[str]]:
    with Path(path).open(newline="") as file:
        return list(csv.reader(file))


@pytest.mark.parametrize(
    ("model", "grade"),
    [
        pytest.param("flow", "categorical", marks=pytest.mark.slow),
        pytest.param("flow", "ordinal:low,mid,high", marks=pytest.mark.slow),
        pytest.param("flow-ar", "ordinal:low,mid,high", marks=pytest.mark.slow),
    ],
)
def test_a_fit_by_vgi_fills_every_hole_and_resumes_bit_for_bit(vgi: Vgi, model: str, grade: str) -> None:
    fit = [
        "fit",
        "holes.csv",
        "--model",
        model,
        "--column",
        "sex=categorical",
        "--column",
        f"grade={grade}",
        *SMALL,
        *VGI,
    ]
    assert vgi(*fit, "--epochs", "1", "--out", "run").code == 0
    assert vgi("fit", "--resume", "--epochs", "2", "--out", "run").code == 0
    done = vgi(*fit, "--epochs", "2", "--out", "whole")
    assert done.code == 0, done.err
    run, whole = (RunFolder.open(Path(name)) for name in ("run", "whole"))
    for part in ("model", "conditionals", "imputations", "state"):
        assert same_tensors(run.tensors(part), whole.tensors(part)), part
    before = cells("holes.csv")
    for sampler in ("metropolis", "gibbs", "chains"):
        done = vgi("impute", "--checkpoint", "run", "--sampler", sampler, "--m", "1", "-o", f"{sampler}.csv")
        assert done.code == 0, done.err
        after = cells(f"{sampler}.1.csv")
        for old, new in zip(before[1:], after[1:], strict=True):
            assert all(b == a for b, a in zip(old, new, strict=True) if b != "")
            assert new[1] in ("f", "m") and new[2] in ("low", "mid", "high") and float(new[0]) > 0 and float(new[3]) > 0


@pytest.mark.slow  # as those of a flow in test_mixed_rows.py
def test_new_rows_are_filled_finetuned_and_scored(vgi: Vgi) -> None:
    fitted = vgi("fit", "holes.csv", "--model", "flow", *KINDS, *SMALL, *VGI, "--epochs", "1", "--out", "run")
    assert fitted.code == 0, fitted.err
    Path("new.csv").write_text("height,sex,grade,weight\n170.0,,mid,\n,f,,61.5\n181.2,m,high,88.0\n")
    done = vgi("impute", "new.csv", "--checkpoint", "run", "--m", "1", "-o", "filled.csv")
    assert done.code == 0, done.err
    assert all(cell != "" for line in cells("filled.1.csv") for cell in line)
    assert vgi("finetune", "new.csv", "--checkpoint", "run", "--epochs", "1", "--out", "tuned").code == 0
    one, other = (RunFolder.open(Path(name)) for name in ("run", "tuned"))
    assert same_tensors(one.tensors("model"), other.tensors("model"))  # only the conditionals move
    done = vgi("evaluate", "new.csv", "--checkpoint", "run", "--json")
    assert done.code == 0, done.err
    loglik = json.loads(done.out)["loglik"]
    assert loglik["estimator"] == "annealed" and np.isfinite(loglik["mean"])


def test_a_run_that_imputes_by_its_chains_alone_says_so_of_held_out_rows(vgi: Vgi) -> None:
    """No sampler is named in the hint that is the one refused."""
    fit = ["fit", "holes.csv", "--model", "flow", "--imputer", "empirical", *SMALL, "--epochs", "1"]
    assert vgi(*fit, "--val", "0.2", "--out", "chained").code == 0
    done = vgi("impute", "--checkpoint", "chained", "-o", "filled.csv")
    assert done.code == 2 and "needs chains of every row" in done.err
    assert "fit again without --val" in done.err and "--sampler" not in done.err
