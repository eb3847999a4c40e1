"""Posterior draws in place of bootstrap refits: kept, used, named and refused."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import vgi_cli
from vgi_cli.commands.fit import dry_run
from vgi_cli.commands.fit import fit as command_fit
from vgi_cli.commands.requests import FitRequest
from vgi_cli.data import make_table
from vgi_cli.errors import UsageError
from vgi_cli.fitting import refits
from vgi_cli.fitting.contest import contest
from vgi_cli.fitting.fitted import load_run
from vgi_cli.fitting.rows import read
from vgi_cli.machine.work import TimeLimit, Work
from vgi_cli.methods.em import posterior
from vgi_cli.models.gaussian.mixture import MixtureConfig
from vgi_cli.reporting import POSTERIOR, Lines, Silent
from vgi_cli.settings.problems import Setting
from vgi_cli.settings.recipe import MethodChoice, ModelChoice, Recipe


def frame(N: int = 60) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(N, 1)) + rng.normal(size=(N, 3)), columns=list("abc")).round(3)
    return table.mask(rng.random((N, 3)) < 0.3)


@pytest.fixture(autouse=True)
def few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Short chains of two draws, in a folder with a table."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(refits, "COUNT", 2)
    monkeypatch.setattr(posterior, "BURN", 2)
    monkeypatch.setattr(posterior, "FEWEST_BURN", 2)
    monkeypatch.setattr(posterior, "THIN", 2)
    frame().to_csv("data.csv", index=False)


def fit(out: str = "run", data: Any = "data.csv", **options: Any) -> vgi_cli.Run:
    settings = {"uncertainty": "posterior", **options.pop("set", {})}
    options = {"model": "mixture", "threads": 1, **options}
    return vgi_cli.fit(data, out=out, set=settings, **options)


def test_a_fit_keeps_draws_and_imputes_from_each() -> None:
    said: list[str] = []
    run = fit(say=said.append)
    assert (run.manifest["bootstrap"], run.manifest["bootstrap_by"]) == (2, "posterior")
    line = next(line for line in said if line.startswith("the uncertainty of the fit: "))
    assert line.endswith("2 draws from the posterior of 12 components or fewer, 2 sweeps apart after 2")
    fitted = load_run(run.path, Silent())
    assert fitted.recipe.posterior_components == 12 and fitted.recipe.model_settings.components < 12
    means = [model.gaussians.learnt.mean for model in fitted.refits]  # type: ignore[attr-defined]
    assert [len(mean) for mean in means] == [12, 12] and not torch.equal(*means)
    said.clear()
    tables = run.impute(m=2, say=said.append)
    assert "the draws include the uncertainty of the fit: 2 posterior draws" in said
    assert not tables[0].equals(tables[1]) and not any(table.isna().any(axis=None) for table in tables)
    named = run.impute(m=2, uncertainty="posterior")
    for a, b in zip(tables, named, strict=True):
        pd.testing.assert_frame_equal(a, b)


def test_of_rows_enough_for_trees_the_draws_have_these_too() -> None:
    """A fit of a hundred rows was refused as damaged: the trees were learnt for models of the size of the fit."""
    run = fit(data=frame(120), out="trees", set={"model.components": 1, "posterior_components": 3})
    assert load_run(run.path, Silent()).recipe.trees == "held-out"
    assert not any(table.isna().any(axis=None) for table in run.impute(m=3))


def test_more_draws_are_those_that_a_fit_of_more_would_have_kept() -> None:
    size = {"model.components": 1, "posterior_components": 3}
    run, told = fit(set=size), fit("told", set={**size, "bootstrap": 4})
    said: list[str] = []
    more = run.impute(m=4, say=said.append)
    assert (
        "the draws include the uncertainty of the fit: 2 posterior draws, and 2 made now for the further draws" in said
    )
    for a, b in zip(more, told.impute(m=4), strict=True):
        pd.testing.assert_frame_equal(a, b)


def test_the_recipe_repeats_the_fit_and_named_components_are_kept() -> None:
    run = fit(set={"model.components": 2})
    fitted = load_run(run.path, Silent())
    assert fitted.recipe.posterior_components == 2
    again = vgi_cli.fit(recipe=run.path / "recipe.yaml", out="again")
    for a, b in zip(run.impute(m=2), again.impute(m=2), strict=True):
        pd.testing.assert_frame_equal(a, b)


def test_without_it_a_fit_has_refits() -> None:
    run = fit(set={"uncertainty": "auto", "model.components": 1})
    assert run.manifest["bootstrap_by"] == "em" and load_run(run.path, Silent()).recipe.uncertainty == "bootstrap"
    with pytest.raises(UsageError, match="--uncertainty posterior: run 'run' holds bootstrap refits instead") as error:
        vgi_cli.impute("run", uncertainty="posterior", out="o.csv")
    assert error.value.hint == "use --uncertainty bootstrap, or leave it out"
    drawn = fit("drawn", set={"model.components": 1})
    with pytest.raises(UsageError, match="--uncertainty bootstrap: run 'drawn' holds posterior draws instead"):
        vgi_cli.impute("drawn", uncertainty="bootstrap", out="o.csv")
    assert drawn.impute(uncertainty="none", m=1) is not None
    none = fit("none", set={"uncertainty": "auto", "model.components": 1, "bootstrap": "none"})
    with pytest.raises(UsageError, match="holds no posterior draws") as error:
        none.impute(uncertainty="posterior")
    assert error.value.hint == "fit again with --set uncertainty=posterior"


def test_the_chain_is_the_same_by_any_number_of_threads() -> None:
    run = fit(set={"model.components": 2})
    fitted = load_run(run.path, Silent())
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        other = fit("other", threads=2, set={"model.components": 2})
    finally:
        torch.set_num_threads(before)
    for a, b in zip(fitted.refits, load_run(other.path, Silent()).refits, strict=True):
        for x, y in zip(a.state_dict().values(), b.state_dict().values(), strict=True):
            torch.testing.assert_close(x, y, rtol=1e-9, atol=1e-9)


def test_auto_compares_what_has_posterior_draws() -> None:
    said: list[str] = []
    run = fit(model="auto", say=said.append, set={"posterior_components": 2, "table.transform": "linear"})
    assert run.manifest["model"] == "mixture" and run.manifest["bootstrap_by"] == "posterior"
    assert not any("factor" in line for line in said)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model": "fa"}, "posterior: --model fa --method em: posterior draws are those of a mixture"),
        ({"method": "vgi"}, "posterior: --model mixture --method vgi: posterior draws are those of a mixture"),
        ({"set": {"model.covariance": "factor"}}, "model.covariance or model.factors says otherwise"),
        ({"set": {"model.factors": 1}}, "model.covariance or model.factors says otherwise"),
        (
            {"set": {"uncertainty": "bootstrap", "posterior_components": 4}},
            "has no effect without uncertainty=posterior",
        ),
        ({"set": {"bootstrap": "none"}}, "posterior: bootstrap is how many draws are made, and bootstrap=none makes"),
        ({"set": {"bootstrap": 0}, "model": "auto"}, "and bootstrap=0 makes none"),
    ],
)
def test_what_has_no_posterior_draws_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        fit(**options)


def test_levels_and_many_columns_are_refused() -> None:
    mixed = frame().assign(d=list("xyz") * 20)
    with pytest.raises(UsageError, match="takes tables of numbers: column 'd' is of another kind"):
        fit(data=mixed, out="mixed")
    rng = np.random.default_rng(1)
    wide = pd.DataFrame(rng.normal(size=(30, 42))).add_prefix("x").mask(rng.random((30, 42)) < 0.1)
    with pytest.raises(
        UsageError, match="needs full covariances, and those of 42 columns are factor-analytic"
    ) as error:
        fit(data=wide, out="wide", set={"model.components": 1, "model.factors": None})
    assert error.value.hint == "leave it out, or add --set model.covariance=full"


@pytest.mark.parametrize("dry", [False, True])
def test_what_is_known_before_models_are_compared_is_refused_before(dry: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hint was one that is refused where nobody names a model."""

    def hold(*_: object) -> None:
        raise AssertionError("models are compared")

    monkeypatch.setattr(contest, "hold", hold)
    rng = np.random.default_rng(1)
    wide = pd.DataFrame(rng.normal(size=(60, 42))).add_prefix("x").mask(rng.random((60, 42)) < 0.1)
    wide.to_csv("wide.csv", index=False)
    frame().assign(d=list("xyz") * 20).to_csv("mixed.csv", index=False)
    for name, message, hint in (
        ("wide", "needs full covariances", "leave it out, or take --model mixture --set model.covariance=full"),
        ("mixed", "takes tables of numbers", "leave it out: bootstrap refits take every kind"),
    ):
        settings = {"data": Setting((f"{name}.csv",), "DATA"), "uncertainty": Setting("posterior", "--set")}
        with pytest.raises(UsageError, match=message) as error:
            (dry_run if dry else command_fit)(FitRequest(settings=settings), Silent())
        assert error.value.hint == hint


def test_where_nothing_is_to_be_filled_draws_that_were_asked_for_are_made() -> None:
    """None were kept, and no line said so."""
    run = fit(data=frame().fillna(0.5), out="full", model="auto", set={"posterior_components": 1})
    assert (run.manifest["bootstrap"], run.manifest["bootstrap_by"]) == (2, "posterior")


def test_a_time_limit_leaves_out_what_it_leaves_no_time_for() -> None:
    run = fit(set={"model.components": 1})
    fitted = load_run(run.path, Silent())
    recipe = Recipe(model=ModelChoice("mixture"), method=MethodChoice("em"), bootstrap=5)
    recipe = recipe.replace(uncertainty="posterior", posterior_components=1, model=fitted.recipe.model)
    said: list[str] = []
    ticks = count()
    limit = TimeLimit(9.0, clock=lambda: float(next(ticks)))
    table = fitted.rows(read(("data.csv",), None, Recipe().table)).table
    made = refits.refit(
        recipe, refits.Fit(fitted.model, table, None, {}, [], lambda _: None), Work(Lines(said.append), limit)
    )
    kept = {name.split("/")[1] for name in made.tensors}
    assert 0 < len(kept) < 5 and limit.cut == [POSTERIOR]
    assert f"warning: {len(kept)} of 5 posterior draws were made within the time limit" in said[-1]


def test_the_recipe_of_a_fit_without_time_for_draws_is_one_that_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(recipe: Recipe, fit: refits.Fit, work: Work) -> refits.Refitted:
        work.limit.cut.append(POSTERIOR)
        return refits.NO_REFITS

    monkeypatch.setattr(refits, "_posterior", none)
    run = fit(set={"model.components": 1})
    assert run.manifest["bootstrap"] == 0
    again = vgi_cli.fit(recipe=run.path / "recipe.yaml", out="again", threads=1)
    assert again.manifest["bootstrap"] == 0
    assert load_run(again.path, Silent()).recipe.uncertainty == "bootstrap"


def test_work_bounds_the_sweeps_of_large_tables() -> None:
    config = MixtureConfig(components=16, covariance="full", outliers=True)

    def size(N: int, D: int) -> posterior.Size:
        return posterior.size_of(config, make_table(torch.zeros(N, D), torch.zeros(N, D, dtype=torch.bool)))

    assert size(100, 4) == (posterior.BURN, posterior.THIN)
    assert size(10**5, 20) == (posterior.FEWEST_BURN, posterior.FEWEST_THIN)
