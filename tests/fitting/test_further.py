"""Refits for more imputations than the fit made refits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import vgi_cli
from tests.selection import first
from vgi_cli.fitting import further, refits
from vgi_cli.fitting.fitted import load_run
from vgi_cli.machine.work import TimeLimit, TimeUp, Work
from vgi_cli.reporting import Silent

SMALL = {"model": "fa", "threads": 1}


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table with holes in the current folder, and fits that make two refits by default."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(refits, "COUNT", 2)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(60, 1)) + rng.normal(size=(60, 3)), columns=list("abc")).round(3)
    frame[rng.random((60, 3)) < 0.3] = np.nan
    frame.to_csv("data.csv", index=False)
    return tmp_path / "data.csv"


def fit(data: object = "data.csv", out: str = "run", factors: int = 1, **options: object) -> vgi_cli.Run:
    settings = {"model.factors": factors, **options.pop("set", {})}  # type: ignore[dict-item]
    return vgi_cli.fit(data, out=out, set=settings, **SMALL, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("val", first(1, [0.3, None]))
def test_each_imputation_has_a_refit_of_its_own(table: Path, val: float | None) -> None:
    """Those made at impute are the very ones that the fit makes where it is told their number."""
    run, told = fit(val=val), fit(val=val, out="told", set={"bootstrap": 5})
    said: list[str] = []
    more, few = run.impute(m=5, say=said.append), run.impute(m=2)
    assert (
        "the draws include the uncertainty of the fit: 2 bootstrap refits by em, and 3 made now for the further draws"
        in said
    )
    for a, b in zip(more, told.impute(m=5), strict=True):
        pd.testing.assert_frame_equal(a, b)
    for a, b in zip(more, few, strict=False):
        pd.testing.assert_frame_equal(a, b)
    fitted = load_run(run.path, Silent())
    models = further.enough_refits(fitted, 5, None, Work()).models
    assert len({float(model.gaussians.mean.detach().sum()) for model in models}) == 5  # type: ignore[attr-defined, union-attr]


def test_more_draws_leave_the_first_ones_of_a_run_of_few_refits(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run with fewer refits than a fit makes by default: these serve as many draws as that, further ones the rest."""
    monkeypatch.setattr(refits, "COUNT", 5)
    run, told = fit(set={"bootstrap": 2}), fit(out="told", set={"bootstrap": 7})
    said: list[str] = []
    few, more, every = run.impute(m=5), run.impute(m=7, say=said.append), told.impute(m=7)
    assert (
        "the draws include the uncertainty of the fit: 2 bootstrap refits by em (they are reused for the first 5 "
        "draws), and 2 made now for the further draws"
    ) in said
    assert [a.equals(b) for a, b in zip(more, few, strict=False)] == [True] * 5
    assert [a.equals(b) for a, b in zip(more, every, strict=True)] == [True, True, False, False, False, True, True]


def test_other_rows_are_imputed_with_refits_to_the_fitted_ones(table: Path) -> None:
    fit()
    Path("new.csv").write_text("a,b,c\n0.5,,\n,1,\n")
    said: list[str] = []
    vgi_cli.impute("run", "new.csv", m=4, out="new.out.csv", say=said.append)
    assert (
        "the draws include the uncertainty of the fit: 2 bootstrap refits by em, and 2 made now for the further draws"
        in said
    )


@pytest.mark.parametrize("case", first(3, ["changed", "memory", "told", "gone"]))
def test_without_the_fitted_table_the_refits_serve_again(
    table: Path, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = pd.read_csv("data.csv")
    if case == "told":  # fewer draws than a fit has refits by default, and fewer refits
        monkeypatch.setattr(refits, "COUNT", 4)
    run = fit(frame if case == "memory" else "data.csv", set={"bootstrap": 2} if case == "told" else {})
    if case == "gone":
        table.unlink()
    elif case == "changed":
        frame.iloc[:50].to_csv("data.csv", index=False)
    said: list[str] = []
    made = vgi_cli.impute("run", frame.iloc[:9], m=4, say=said.append)
    assert len(made) == 4
    warned = [line for line in said if line.startswith("warning: draws 3 to 4 use the 2 bootstrap refits again: ")]
    reason = {
        "gone": "data.csv",
        "changed": "data.csv has changed since run was fitted",
        "memory": "the run was fitted on a table in memory, which it does not keep",
    }
    if case == "told":
        assert not warned
        assert "the uncertainty of the fit: 2 bootstrap refits by em (they are reused: 4 draws were asked for)" in str(
            said
        )
    else:
        assert reason[case] in warned[0] and warned[0].endswith("; a fit with --set bootstrap=4 has one for each")
    if case == "memory":  # the object holds its table
        run.impute(m=4, say=said.append)
        assert any("and 2 made now" in line for line in said)


def test_every_size_of_table_has_refits(table: Path) -> None:
    recipe = load_run(fit().path, Silent()).recipe
    assert refits.refit_count(recipe) == 2
    assert refits.refit_count(recipe.replace(bootstrap="none")) == 0
    assert refits.refit_count(recipe.with_model("flow").with_method("vgi")) == 2
    assert refits.refit_count(recipe.with_model("flow").with_method("plmcmc")) == 0
    assert refits.refit_count(recipe.with_method("impute-then-fit")) == 0
    assert refits.refit_count(recipe.replace(bootstrap=7)) == 7


def test_refits_that_were_cut_short_are_named(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vgi_cli.methods.em.bootstrap.MOST_STEPS", 2)
    monkeypatch.setattr("vgi_cli.methods.em.bootstrap.FEWEST_STEPS", 2)
    said: list[str] = []
    run = fit(say=said.append)
    (line,) = [line for line in said if "had settled" in line]
    assert line.startswith("2 of 2 bootstrap refits were stopped after 2 EM steps, before they had settled: ")
    assert line.endswith("; fewer columns (`--exclude NAME`) settle sooner")
    assert run.manifest["bootstrap_unsettled"] == 2
    said.clear()
    fit(out="again", say=said.append, set={"bootstrap": 1})
    assert any(line.startswith("1 of 1 bootstrap refits was stopped") for line in said)
    said.clear()
    average = [{"model": {"name": "fa", "factors": 1}, "transform": "linear", "weight": 1.0}]
    fit(out="averaged", say=said.append, set={"bootstrap": 1, "average": average})
    assert any(line.startswith("1 of 1 bootstrap refits was stopped at the limit of steps that a") for line in said)
    said.clear()
    settings = {"bootstrap": 1, "model.components": 4}
    vgi_cli.fit("data.csv", out="four", say=said.append, model="mixture", threads=1, set=settings)
    (line,) = [line for line in said if "had settled" in line]
    assert line.endswith("takes less work a step (`--model mixture --set model.components=2`)")


def test_a_time_limit_ends_further_refits(table: Path) -> None:
    fitted = load_run(fit().path, Silent())
    over = TimeLimit(1.0, 0.0, clock=lambda: 2.0)
    with pytest.raises(
        TimeUp, match="stopped while further refits were made: the time limit of 1 s was over"
    ) as caught:
        further.enough_refits(fitted, 5, None, Work(limit=over))
    assert caught.value.hint == "give it more time, or ask for 2 draws (--m)"
    four = load_run(fit(out="four", set={"bootstrap": 4}).path, Silent())
    with pytest.raises(TimeUp) as caught:
        further.enough_refits(four, 5, None, Work(limit=over))
    assert caught.value.hint == "give it more time, or ask for 4 draws (--m)"
