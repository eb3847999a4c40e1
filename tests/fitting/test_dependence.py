"""Fits whose numbers are shifted by the levels: refits, further ones, resumption, trees, recipes, what is said."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import vgi_cli
from tests.selection import first
from vgi_cli.fitting import refits, trees
from vgi_cli.fitting.fitted import load_run
from vgi_cli.models.gaussian.mixture import GaussianMixture
from vgi_cli.models.gaussian.shifted import Shifted
from vgi_cli.reporting import Silent

LINEAR = {"model.dependence": "linear", "model.components": 2}


def table(rows: int = 160, holes: float = 0.25) -> pd.DataFrame:
    """Two clusters; within both `kind` moves x and y, and nothing else does."""
    rng = np.random.default_rng(0)
    cluster, kind = rng.random(rows) < 0.5, rng.integers(0, 3, rows)
    x = 6.0 * cluster + 1.5 * (kind == 1) + rng.standard_normal(rows)
    y = 4.0 * cluster - 2.0 * (kind == 2) + rng.standard_normal(rows)
    group = np.where(rng.random(rows) < 0.9, cluster, ~cluster)
    words = {"kind": np.array(["a", "b", "c"])[kind], "group": np.array(["no", "yes"])[group.astype(int)]}
    frame = pd.DataFrame({"x": x.round(3), "y": y.round(3), **words}).astype({"kind": object, "group": object})
    return frame.mask(rng.random(frame.shape) < holes)


def differences(rows: int = 300, holes: float = 0.3) -> pd.DataFrame:
    """Two groups in two periods; y is lower by 3 in one group and one of them, and lacks a share of its cells."""
    rng = np.random.default_rng(1)
    treated, after = rng.integers(0, 2, (2, rows))
    x = rng.standard_normal(rows)
    y = 10 + treated + 1.5 * after - 3.0 * treated * after + x + rng.standard_normal(rows)
    words = {"group": np.array(["control", "treated"])[treated], "period": np.array(["before", "then"])[after]}
    frame = pd.DataFrame({"x": x.round(3), "y": y.round(3), **words}).astype({"group": object, "period": object})
    frame["y"] = frame["y"].mask(rng.random(rows) < holes)
    return frame


def difference(frame: pd.DataFrame) -> float:
    """Of y between the periods, in one group less in the other."""
    mean = frame.groupby(["group", "period"])["y"].mean()
    then, before = (
        mean["treated", "then"] - mean["control", "then"],
        mean["treated", "before"] - mean["control", "before"],
    )
    return float(then - before)


def fit(out: Path, **options: Any) -> vgi_cli.Run:
    settings = {**LINEAR, **options.pop("set", {})}
    return vgi_cli.fit(options.pop("data", table()), out=out, model="mixture", threads=1, set=settings, **options)


def shifted(model: torch.nn.Module) -> Shifted:
    assert isinstance(model, GaussianMixture) and isinstance(model.gaussians, Shifted)
    return model.gaussians


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refits, "COUNT", 3)


def test_refits_choose_their_columns_and_further_ones_are_those_of_a_larger_fit(
    tmp_path: Path, few: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where both find that trees predict every column better: three refits may find another choice than four."""
    monkeypatch.setattr(trees, "gain_of", lambda *_: trees.Gain(1.0, 0.0))
    frame = table(240)
    run, told = fit(tmp_path / "run", data=frame), fit(tmp_path / "told", data=frame, set={"bootstrap": 4})
    fitted = load_run(run.path, Silent())
    (line,) = fitted.model.remarks(fitted.layout)
    assert line.startswith("levels that shift the numbers within clusters: kind")
    assert fitted.recipe.model.settings["dependence"] == "linear"
    assert fitted.recipe.trees == "held-out"
    for model in (fitted.model, *fitted.refits):
        moves = shifted(model)
        shift = moves.shift.detach()
        assert 0 in moves.places  # kind
        assert shift[1, 0] - shift[0, 0] > 0.3 and shift[2, 1] - shift[0, 1] < -0.3  # in units of the columns
    assert len({float(shifted(model).shift[0, 0].detach()) for model in fitted.refits}) == 3
    for one, other in zip(vgi_cli.impute(run, frame, m=4), vgi_cli.impute(told, frame, m=4), strict=True):
        pd.testing.assert_frame_equal(one, other)
        assert not one.isna().any().any()
        pd.testing.assert_frame_equal(one.where(frame.notna()), frame, check_dtype=False)


def test_fills_have_the_interaction_that_observed_cells_have(tmp_path: Path, few: None) -> None:
    """Half of its cells are filled: additive fills would have none."""
    frame = differences(holes=0.5)
    run = fit(tmp_path / "run", data=frame, set={"model.components": 1, "trees": "none"})
    fitted = load_run(run.path, Silent())
    for model in (fitted.model, *fitted.refits):
        assert shifted(model).pairs.tolist() == [[0, 1]] and shifted(model).crossing.abs().max() > 0.1
    assert len({float(shifted(model).crossing[0, 1].detach()) for model in fitted.refits}) == 3
    assert fitted.model.remarks(fitted.layout)[0].endswith("group × period")
    filled = run.impute(m=10)
    hidden = [one[frame["y"].isna().to_numpy()] for one in filled]
    assert abs(np.mean([difference(one) for one in hidden]) - difference(frame)) < 0.6
    again = vgi_cli.impute(vgi_cli.load(run.path), frame, m=10)
    for one, two in zip(filled, again, strict=True):
        pd.testing.assert_frame_equal(one, two)


@pytest.mark.parametrize("rows", [pytest.param(table, marks=pytest.mark.slow), differences])
def test_a_resumed_fit_ends_in_the_same_bits(tmp_path: Path, few: None, rows: Callable[[], pd.DataFrame]) -> None:
    frame = tmp_path / "data.csv"
    rows().to_csv(frame, index=False)
    own = {"trees": "none"}
    whole, part = fit(tmp_path / "whole", data=frame, set=own), fit(tmp_path / "part", data=frame, set=own, epochs=2)
    again = vgi_cli.fit(out=part.path, resume=True, epochs=300)
    one, two = (load_run(run.path, Silent()).run.tensors("model") for run in (whole, again))
    assert one.keys() == two.keys() and "gaussians.shift" in one
    assert ("gaussians.crossing" in one) == (rows is differences)
    assert all(torch.equal(value, two[key]) for key, value in one.items())


def test_held_out_rows_are_described_better_where_levels_shift(tmp_path: Path) -> None:
    frame = table(900)
    scores = []
    for dependence in ("linear", "none"):
        settings = {"model.dependence": dependence, "bootstrap": "none"}
        run = fit(tmp_path / dependence, data=frame[:600], set=settings)
        scores.append(run.evaluate(frame[600:])["loglik"]["mean"])
    assert scores[0] > scores[1] + 0.05


@pytest.mark.parametrize(
    ("columns", "why"), [(["x", "y"], "of levels, which could"), (["kind", "group"], "of numbers")]
)
def test_a_table_in_which_nothing_can_shift_is_fitted_and_a_line_says_so(
    tmp_path: Path, columns: list[str], why: str
) -> None:
    said: list[str] = []
    frame = table()[columns]
    run = fit(tmp_path / "run", data=frame, set={"bootstrap": "none"}, say=said.append)
    assert any(
        line.startswith(f"model.dependence=linear has no effect: the table has no column {why}") for line in said
    )
    plain = fit(tmp_path / "plain", data=frame, set={"bootstrap": "none", "model.dependence": "none"})
    one, two = (load_run(each.path, Silent()).run.tensors("model") for each in (run, plain))
    assert all(torch.equal(value, two[key]) for key, value in one.items()) and one.keys() == two.keys()


@pytest.mark.parametrize("components", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_in_turn_every_second_refit_is_shifted_and_nothing_else(tmp_path: Path, few: None, components: int) -> None:
    """The fit and the other refits are those of a fit without shifts."""
    own = {"model.components": components, "trees": "none"}
    run = fit(tmp_path / "run", set={**own, "model.dependence": "turn"})
    plain = fit(tmp_path / "plain", set={**own, "model.dependence": "none"})
    turned, other = (load_run(each.path, Silent()) for each in (run, plain))
    assert turned.recipe.model.settings["dependence"] == "turn"
    assert [shifted(model).places for model in (turned.model, *turned.refits)] == [(), (), (0, 1), ()] or (
        shifted(turned.refits[1]).places == (0,) and not shifted(turned.refits[2]).places
    )
    x = torch.tensor([[0.3, -0.2, 1.0, 0.0], [-1.0, 0.5, 2.0, 1.0]]).double()
    pairs = zip((turned.model, *turned.refits), (other.model, *other.refits), strict=True)
    apart = [(a.double().log_prob(x) - b.double().log_prob(x)).abs().max().item() for a, b in pairs]
    assert max(apart[0], apart[1], apart[3]) < 1e-6 and apart[2] > 1e-3
    frame = table()
    more, told = (
        run.impute(m=5),
        fit(tmp_path / "told", set={**own, "model.dependence": "turn", "bootstrap": 5}).impute(m=5),
    )
    for one, two in zip(vgi_cli.impute(run, frame, m=5), told, strict=True):
        pd.testing.assert_frame_equal(one, two)
        assert not one.isna().any().any()
    assert len(more) == 5


def test_without_refits_there_are_no_turns_and_a_line_says_so(tmp_path: Path) -> None:
    said: list[str] = []
    fit(tmp_path / "run", set={"model.dependence": "turn", "bootstrap": "none"}, say=said.append)
    assert any("model.dependence=turn has no effect: no bootstrap refits are made" in line for line in said)


@pytest.mark.parametrize(
    ("rows", "more", "settings", "taken"),
    first(
        5,
        [
            (60, 0, {}, "turn"),
            (110, 0, {}, "linear"),
            (20, 6, {}, "turn"),  # too few rows for each level
            (110, 0, {"bootstrap": "none"}, "linear"),
            (60, 0, {"bootstrap": 1}, "none"),
            (60, 6, {}, "linear"),  # wide
            (60, 0, {"bootstrap": "none"}, "none"),
        ],
    ),
)
def test_where_nobody_says_levels_shift_the_numbers_and_take_turns_in_few_rows(
    tmp_path: Path, few: None, rows: int, more: int, settings: dict[str, Any], taken: str
) -> None:
    """`more`: numbers that say nothing."""
    own = {"model.components": 1, "trees": "none", **settings}
    noise = np.random.default_rng(0).normal(size=(rows, more)).round(3)
    some = table()[:rows].reset_index(drop=True).join(pd.DataFrame(noise, columns=[f"n{i}" for i in range(more)]))
    run = vgi_cli.fit(some, out=tmp_path / "run", model="mixture", threads=1, set=own)
    fitted = load_run(run.path, Silent())
    assert fitted.recipe.model.settings["dependence"] == taken
    assert run.manifest["chosen"]["model.dependence"] == taken
    turns = [isinstance(model.gaussians, Shifted) and bool(model.gaussians.places) for model in fitted.refits]
    assert not turns or (any(turns[1::2]), any(turns[::2])) == (taken != "none", taken == "linear")


@pytest.mark.slow
@pytest.mark.full_fits
def test_no_refit_fills_a_column_far_off_where_it_is_hardly_observed(tmp_path: Path) -> None:
    """Where y is missing for large x, a component of a refit may have next to no y: the mean of y there was 7 standard
    deviations off in two refits, where the levels explain y too."""
    rng = np.random.default_rng(41305)
    clinic = rng.integers(0, 40, 600)
    effect, x = 0.6 * rng.normal(size=40), rng.normal(size=600)
    y = effect[clinic] + 0.5 * x + 0.8 * rng.normal(size=600)
    table = pd.DataFrame({"clinic": [f"C{i:02d}" for i in clinic], "x": x.round(2), "y": y.round(2)})
    table.loc[rng.random(600) < 1 / (1 + np.exp(1 - 1.5 * x)), "y"] = np.nan
    table.loc[rng.random(600) < 0.1, "x"] = np.nan
    few = {"model.components": 3, "trees": "none"}
    run = vgi_cli.fit(table, model="mixture", set=few, out=tmp_path / "run", threads=1)
    most = [fill.y.abs().max() for fill in run.impute(m=20)]
    assert max(most) < 1.5 * table.y.abs().max()


@pytest.mark.full_fits(
    "methods.em.bootstrap.TOLERANCE", "methods.em.bootstrap.ANEW_TOLERANCE", "methods.start.ITERATIONS"
)
def test_no_refit_loses_what_the_rows_of_a_subject_say(tmp_path: Path) -> None:
    """Subjects of four rows, whose age is the same in each. In a refit without rows of one, or that took these for
    outliers at its start, the age that is observed spoke for fills up to twelve times beyond the observed ones."""
    rng = np.random.default_rng(4)
    subject, age, level = np.repeat(np.arange(60), 4), rng.normal(50, 9, 60).round(1), rng.normal(0, 1.2, 60)
    x = level[subject] + rng.normal(0, 0.6, 240)
    y = 0.5 * x + level[subject] + rng.normal(0, 0.6, 240)
    numbers = pd.DataFrame({"age": age[subject], "x": x.round(3), "y": y.round(3)})
    frame = pd.DataFrame({"subject": [f"s{i}" for i in subject], **numbers.mask(rng.random((240, 3)) < 0.2)})
    settings = {"bootstrap": 5, "model.components": 1, "table.transform": "linear"}
    run = fit(tmp_path / "run", data=frame, columns={"subject": "categorical"}, set=settings)
    most = pd.concat(run.impute(m=5))[["x", "y"]].abs().max()
    assert (most <= 1.5 * numbers[["x", "y"]].abs().max()).all()
