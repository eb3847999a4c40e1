"""Imputations from several models in turn: weights, turns, fits, recipes, resumption, refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from torch import Tensor

import vgi_cli
from vgi_cli.errors import Interrupted, RunError, UsageError
from vgi_cli.fitting import refits
from vgi_cli.fitting.averaging import LEAST, SELECTIONS, averaged, selected, turns
from vgi_cli.fitting.contest.scoring import DRAWS, Drawn, _drawn
from vgi_cli.fitting.fitted import load_run
from vgi_cli.methods.em import bootstrap
from vgi_cli.reporting import Silent

LINEAR, NORMAL = (
    {"model": {"name": "mixture", "components": K}, "transform": transform, "weight": weight}
    for K, transform, weight in ((1, "linear", 0.5), (2, "normal", 0.5))
)
FACTORS = {"model": {"name": "fa", "factors": 1}, "transform": "normal", "weight": 1.0}


def table(rows: int = 90, holes: float = 0.2, levels: bool = False) -> pd.DataFrame:
    """A skewed, rounded column, one with a spike, one that is neither, and a moment."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal(rows)
    y = np.exp(0.8 * x + 0.3 * rng.standard_normal(rows)).round(1)
    spike = np.where(rng.random(rows) < 0.4, 0.0, (x + rng.standard_normal(rows)).round(2))
    days = pd.Timestamp("2021-03-01") + pd.to_timedelta((40 * x).round(), unit="D")
    frame = pd.DataFrame({"x": x, "y": y, "spike": spike, "when": days})
    if levels:
        frame["kind"] = np.where(x + 0.5 * rng.standard_normal(rows) > 0, "high", "low")
    return frame.mask(rng.random(frame.shape) < holes)


def fit(out: Path, *members: dict[str, Any], data: Any = None, **more: Any) -> vgi_cli.Run:
    settings = {"average": list(members), "model.components": 2, "table.transform": "normal", **more.pop("set", {})}
    return vgi_cli.fit(table() if data is None else data, out=out, model="mixture", threads=1, set=settings, **more)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refits, "COUNT", 4)


# -- weights and turns -----------------------------------------------------------------------------------------------


@given(st.lists(st.floats(0.01, 1.0), min_size=1, max_size=6), st.integers(1, 60))
def test_the_first_refits_have_the_models_in_proportion_to_their_weights(weights: list[float], count: int) -> None:
    order = turns(weights, count)
    assert order == turns(weights, count + 3)[:count]
    for i, weight in enumerate(weights):
        assert abs(order.count(i) - count * weight / sum(weights)) < len(weights)
        assert len(weights) > 2 or abs(order.count(i) - count * weight / sum(weights)) <= 1


def test_selected_weights_are_those_of_the_quadratic_programme() -> None:
    """The score of an average is a convex quadratic function of the weights: scipy finds its least value."""
    rng = np.random.default_rng(1)
    truth = rng.standard_normal(400)
    draws = np.stack([rng.normal(bias, spread, (60, 400)) for bias, spread in ((0, 0.6), (0.5, 1.2), (0, 1.6), (3, 1))])
    errors = np.abs(draws - truth).mean((1, 2))
    apart = np.array([[np.abs(a[:, None] - b[None]).mean() for b in draws] for a in draws])
    found = selected(torch.tensor(errors), torch.tensor(apart)).numpy()

    def value(w: np.ndarray) -> float:
        return float(w @ errors - 0.5 * w @ apart @ w)

    simplex = {"type": "eq", "fun": lambda w: w.sum() - 1}
    best = minimize(value, np.full(4, 0.25), bounds=[(0, 1)] * 4, constraints=[simplex])
    assert value(found) < best.fun + 1e-4 and min(value(w) for w in np.eye(4)) > best.fun + 1e-3
    assert found.sum() == pytest.approx(1) and found[3] == 0
    assert all(w == 0 or w >= LEAST for w in found)
    assert np.allclose(found, np.where(best.x < LEAST, 0, best.x), atol=2 / SELECTIONS)


def test_distances_of_draws_are_means_over_cells_columns_and_pairs_of_other_draws() -> None:
    """Cells of a column by how much they count."""
    generator = torch.Generator().manual_seed(0)
    odds = 0.5 + torch.rand(17, dtype=torch.float64, generator=generator)

    def one() -> Drawn:
        places = ((0, odds[:3]), (1, odds[3:8]), (0, odds[8:10]))
        numbers = [(i, part, torch.randn(DRAWS, len(part), generator=generator)) for i, part in places]
        codes = torch.randint(3, (DRAWS, 7), generator=generator).double()
        return _drawn(numbers, [(2, odds[10:], codes, torch.tensor([0.0, 1, 1, 2, 0, 0, 0]))])

    def mean(of_cells: Tensor, weight: Tensor) -> Tensor:
        return (of_cells.double() * weight).sum(-1) / weight.sum()

    first, second = one(), one()
    shares = torch.tensor([4, 2, 1], dtype=torch.float64) / 7
    other = float(
        mean((1 - shares)[torch.tensor([0, 1, 1, 2, 0, 0, 0])], odds[10:])
    )  # a draw from the column is another
    differ = 2 * other - (1 - float(shares.square().sum()))  # so that these draws alone score 1
    own = torch.tensor([0, 0, 0, 1, 1, 1, 1, 1, 0, 0])
    for a, b in ((first, second), (first, first)):
        pairs = [(i, j) for i in range(DRAWS) for j in range(DRAWS) if i != j]
        numbers = torch.stack([(a.errors[i] - b.errors[j]).abs() for i, j in pairs]).mean(0)
        levels = mean(torch.stack([(a.levels[i] != b.levels[j]).float() for i, j in pairs]).mean(0), odds[10:])
        of_numbers = sum(mean(numbers[own == i], odds[:10][own == i]) for i in (0, 1))
        expected = (of_numbers + levels * 2 / differ) / 3
        assert a.apart(b) == pytest.approx(float(expected), rel=1e-5)
    missed = mean((first.levels != first.truth).float().mean(0), odds[10:]) * 2 / differ
    nothing = (3, odds[:0], torch.zeros(DRAWS, 0), torch.zeros(0))  # a column of levels of which no cell was hidden
    alone = _drawn([(0, torch.ones(2, dtype=torch.float64), torch.ones(DRAWS, 2))], [nothing])
    assert alone.weight.tolist() == [0.5, 0.5] and alone.levels.shape == (DRAWS, 0)
    errors = first.errors.abs().mean(0)
    expected = (sum(mean(errors[own == i], odds[:10][own == i]) for i in (0, 1)) + missed) / 3
    assert first.from_truth() == pytest.approx(float(expected), rel=1e-5)


# -- fits ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_refits_are_of_the_models_in_turn_and_further_ones_are_those_of_a_larger_fit(tmp_path: Path, few: None) -> None:
    run, told = (fit(tmp_path / name, LINEAR, NORMAL, set=more) for name, more in (("a", {}), ("b", {"bootstrap": 6})))
    fitted = load_run(run.path, Silent())
    assert [len(model.log_weights()) for model in (fitted.model, *fitted.refits)] == [4, 3, 4, 3, 4]
    assert [member.weight for member in averaged(fitted.recipe)] == [0.5, 0.5]
    assert averaged(fitted.recipe)[1].model == fitted.recipe.model
    frame = table()
    said: list[str] = []
    one, two = vgi_cli.impute(run, frame, m=6, say=said.append), vgi_cli.impute(told, frame, m=6)
    assert any("4 bootstrap refits by em of 2 models, and 2 made now" in line for line in said)
    for filled, other in zip(one, two, strict=True):
        pd.testing.assert_frame_equal(filled, other)
        assert not filled.isna().any().any()
        pd.testing.assert_frame_equal(filled.where(frame.notna()), frame, check_dtype=False)


def test_more_draws_of_few_refits_leave_the_first_ones(tmp_path: Path, few: None) -> None:
    """Each is of the model and the transform that its refit has, whether the refit is used again or made anew."""
    run, told = (fit(tmp_path / name, LINEAR, NORMAL, set={"bootstrap": b}) for name, b in (("a", 3), ("b", 6)))
    frame = table()
    first, more, every = run.impute(m=4), run.impute(m=6), told.impute(m=6)
    assert [a.equals(b) for a, b in zip(more, first, strict=False)] == [True] * 4
    assert [a.equals(b) for a, b in zip(more, every, strict=True)] == [True, True, True, False, True, True]
    assert not any(filled.isna().any(axis=None) for filled in more) and len(more) == 6 and len(frame) == len(more[0])


@pytest.mark.slow
def test_the_refits_of_one_model_are_those_of_a_fit_that_averages_over_none(tmp_path: Path, few: None) -> None:
    """By weights of 1/2 and 1 the second of four refits is of the fitted model."""
    both, alone = fit(tmp_path / "both", NORMAL, FACTORS), fit(tmp_path / "alone", set={"average": "none"})
    one, two = (load_run(run.path, Silent()) for run in (both, alone))
    own = two.model.state_dict().keys()
    assert [model.state_dict().keys() == own for model in one.refits] == [False, True, False, False]
    frame = table()
    same = [
        filled.equals(other)
        for filled, other in zip(vgi_cli.impute(both, frame, m=4), vgi_cli.impute(alone, frame, m=4), strict=True)
    ]
    assert same == [False, True, False, False]


@pytest.mark.slow
def test_a_model_of_the_average_is_what_it_is_alone(tmp_path: Path, few: None) -> None:
    """Draws of a model that sees other coordinates are those of a fit in these coordinates, but for its start."""
    frame = table(400, holes=0.3)
    average = fit(tmp_path / "average", {**LINEAR, "weight": 1.0}, data=frame)
    own = {"average": "none", "model.components": 1, "table.transform": "linear", "model.outliers": True}
    alone = fit(tmp_path / "alone", data=frame, set=own)
    means = [
        np.mean([filled[["x", "y", "spike"]].to_numpy() for filled in vgi_cli.impute(run, frame, m=4)], (0, 1))
        for run in (average, alone)
    ]
    spread = frame[["x", "y", "spike"]].std().to_numpy()
    assert np.allclose(means[0] / spread, means[1] / spread, atol=0.02)


def test_a_recipe_repeats_the_fit_and_a_resumed_fit_ends_in_the_same_bits(tmp_path: Path, few: None) -> None:
    data = tmp_path / "data.csv"
    table(60).to_csv(data, index=False)
    whole, part = (
        fit(tmp_path / name, LINEAR, NORMAL, data=data, set={"trees": "none"}, **more)
        for name, more in (("w", {}), ("p", {"epochs": 2}))
    )
    again = vgi_cli.fit(out=part.path, resume=True, epochs=300)
    repeated = vgi_cli.fit(data, recipe=whole.path / "recipe.yaml", out=tmp_path / "r")
    kept = [load_run(run.path, Silent()).run.tensors("model") for run in (whole, again, repeated)]
    for other in kept[1:]:
        assert kept[0].keys() == other.keys() and all(torch.equal(value, other[key]) for key, value in kept[0].items())
    assert (whole.path / "recipe.yaml").read_text() == (repeated.path / "recipe.yaml").read_text()
    assert (whole.path / "schema-linear.json").read_text() == (again.path / "schema-linear.json").read_text()


def test_refits_that_were_made_before_a_stop_are_kept(
    tmp_path: Path, few: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "data.csv"
    table(levels=True).to_csv(data, index=False)
    whole = fit(tmp_path / "whole", LINEAR, NORMAL, data=data)
    climbed, fitted = list[int](), list[int]()
    settle, alone = bootstrap.settle, refits.fitted_alone

    def stopped(*args: Any, **more: Any) -> bool:
        climbed.append(len(climbed))
        if len(climbed) == 4:
            raise Interrupted("stopped by SIGTERM", 143)
        return settle(*args, **more)

    def counted(*args: Any) -> Any:
        fitted.append(len(fitted))
        return alone(*args)

    monkeypatch.setattr(bootstrap, "settle", stopped)
    monkeypatch.setattr(refits, "fitted_alone", counted)
    with pytest.raises(Interrupted, match="stopped by SIGTERM in the bootstrap refits; the fit is saved in"):
        fit(tmp_path / "run", LINEAR, NORMAL, data=data)
    kept = load_run(tmp_path / "run", Silent())
    assert len(kept.refits) == 3 and len(vgi_cli.impute(tmp_path / "run", data, m=2)) == 2
    again = vgi_cli.fit(out=tmp_path / "run", resume=True)
    assert len(climbed) == 5 and len(fitted) == 1  # one refit more, and no model of the average was fitted again
    tensors = [load_run(run.path, Silent()).run.tensors("model") for run in (whole, again)]
    assert tensors[0].keys() == tensors[1].keys()
    assert all(torch.equal(value, tensors[1][key]) for key, value in tensors[0].items())
    assert again.manifest["bootstrap_unsettled"] == whole.manifest["bootstrap_unsettled"]


def test_the_fit_of_another_model_takes_its_part_of_the_progress(tmp_path: Path, few: None) -> None:
    seen: list[Any] = []
    fit(tmp_path / "run", LINEAR, NORMAL, progress=seen.append)
    shares = [one.share for one in seen if one.name == "refitting to resampled rows"]
    assert shares == sorted(shares) and shares[-1] == 1.0
    done = [one for one in seen if one.name == "refitting to resampled rows" and one.done == 0 and one.share > 0]
    assert len(done) > 3 and done[-1].share == pytest.approx(2.4 / 6.4)  # of the fit that comes before the first refit


@pytest.mark.full_fits(
    "models.gaussian.fa.FactorAnalysis.tolerance", "models.gaussian.mixture.GaussianMixture.tolerance"
)
def test_each_model_has_the_pooling_and_tolerance_of_its_own_kind(tmp_path: Path, few: None) -> None:
    """Factor analysis is not pooled, a mixture beside it is: by 2 (D + 2) pseudo-rows."""
    settings = {"average": [LINEAR, FACTORS], "model.factors": 1, "bootstrap": 3, "table.transform": "normal"}
    run = vgi_cli.fit(table(), out=tmp_path / "run", model="fa", threads=1, set=settings)
    recipe = load_run(run.path, Silent()).recipe
    assert recipe.method.settings["pooling"] == 0
    assert [(one.pooling, one.tolerance) for one in averaged(recipe)] == [(12.0, 1e-5), (0.0, 1e-6)]
    again = vgi_cli.fit(table(), out=tmp_path / "again", recipe=run.path / "recipe.yaml")
    assert load_run(again.path, Silent()).recipe.average == recipe.average


def test_trees_are_learnt_in_the_coordinates_of_each_model(tmp_path: Path, few: None) -> None:
    frame = table(160, levels=True)
    run = fit(tmp_path / "run", LINEAR, NORMAL, data=frame)
    fitted = load_run(run.path, Silent())
    assert [member.pooling for member in averaged(fitted.recipe)] == [12.0, 12.0]
    assert fitted.recipe.trees == "held-out" and len(fitted.trees) in (0, 4)
    for filled in vgi_cli.impute(run, frame, m=4):
        assert not filled.isna().any().any()
        pd.testing.assert_frame_equal(filled.where(frame.notna()), frame, check_dtype=False)


@pytest.mark.parametrize(
    ("more", "model"), [({"bootstrap": "none"}, "mixture"), ({"uncertainty": "posterior"}, "mixture")]
)
def test_a_fit_without_refits_by_em_averages_over_none(
    tmp_path: Path, few: None, more: dict[str, Any], model: str
) -> None:
    frame = table()[["x", "y", "spike"]]
    run = fit(tmp_path / "run", LINEAR, NORMAL, data=frame, set=more)
    assert load_run(run.path, Silent()).recipe.average == "none" and not (run.path / "schema-linear.json").exists()


@pytest.mark.usefixtures("two_models")
def test_a_comparison_averages_over_what_it_cannot_tell_apart(
    tmp_path: Path, few: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    frame = table()[["x", "y", "spike"]]
    run = vgi_cli.fit(frame, out=tmp_path / "run", threads=1, say=said.append)
    fitted = load_run(run.path, Silent())
    league = fitted.run.contest()
    assert league is not None
    weights = [one["weight"] for one in league["candidates"]]
    assert sum(weights) == pytest.approx(1, abs=1e-3) and weights == [w for w in weights if w == 0 or w >= LEAST]
    best = league["candidates"][0]["cells"]
    assert all(one["weight"] == 0 for one in league["candidates"] if one["cells"] > 1.05 * best)
    assert sum(member.weight for member in averaged(fitted.recipe)) == pytest.approx(1, abs=1e-2)
    assert any("imputations are drawn in turn from refits of" in line for line in said)


@pytest.mark.usefixtures("two_models")
@pytest.mark.parametrize(
    "more",
    [
        {"average": "none", "trees": "none", "table.transform": "linear"},
        pytest.param({"score": "loglik"}, marks=pytest.mark.slow),
    ],
)
def test_a_comparison_by_density_or_by_request_averages_nothing(tmp_path: Path, more: dict[str, str]) -> None:
    run = vgi_cli.fit(table(30)[["x", "y", "spike"]], out=tmp_path / "run", threads=1, set=more)
    assert load_run(run.path, Silent()).recipe.average == "none"


# -- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("members", "more", "message"),
    [
        (
            [{**LINEAR, "model": {"name": "flow"}}],
            {},
            "average.0: models that can be averaged are fa and mixture, got 'flow'",
        ),
        ([{**LINEAR, "model": {"name": "mixtur"}}], {}, "got 'mixtur'"),
        ([NORMAL, {**LINEAR, "model": {"name": "mixture", "component": 2}}], {}, "average.1: unknown key"),
        ([{**LINEAR, "weight": 0.0}], {}, "no model has a weight above 0"),
        ([{**LINEAR, "weight": 2.0}], {}, "average.0.weight"),
        ([{"model": {"name": "fa"}, "weight": 1.0}], {}, "average.0.transform"),
        ([LINEAR], {"method": "vgi"}, "models are averaged by bootstrap refits by em, and method 'vgi' makes none"),
    ],
)
def test_averages_that_cannot_be_are_refused(
    tmp_path: Path, members: list[dict[str, Any]], more: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message.replace("(", r"\(")):
        fit(tmp_path / "run", *members, **more)
    assert not (tmp_path / "run").exists()


def test_transforms_between_which_there_is_no_map_are_refused(tmp_path: Path, few: None) -> None:
    with pytest.raises(UsageError, match=r"rows by table\.transform=none cannot be turned into those by normal"):
        fit(tmp_path / "run", NORMAL, set={"table.transform": "none"})
    assert not (tmp_path / "run").exists()


def test_a_model_of_numbers_alone_is_refused_for_a_table_with_levels(tmp_path: Path, few: None) -> None:
    with pytest.raises(UsageError, match="--model fa takes numbers only: column 'kind'"):
        fit(tmp_path / "run", NORMAL, FACTORS, data=table(levels=True))


def test_a_run_without_the_schema_of_its_other_models_is_damaged(tmp_path: Path, few: None) -> None:
    run = fit(tmp_path / "run", LINEAR, NORMAL)
    (run.path / "schema-linear.json").unlink()
    with pytest.raises(RunError, match="damaged"):
        vgi_cli.impute(run, table(), m=2)
