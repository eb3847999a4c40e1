"""Columns of levels on which slopes depend: Welch's test, what is found, and which candidates give way then."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats

import vgi_cli
from tests.fitting.test_contest import recipe, rows, standings_of
from vgi_cli.fitting.contest import contest, slopes
from vgi_cli.fitting.contest.candidates import by_level, held
from vgi_cli.fitting.contest.slopes import FEWEST, LEVELS, WELL, column_of_slopes
from vgi_cli.fitting.rows import Rows
from vgi_cli.reporting import Lines


def table(n: int, seed: int, low: float, high: float, levels: int = 2, holes: float = 0.25) -> pd.DataFrame:
    """y on x with a slope that rises from the first level of `group` to the last; `other` says nothing."""
    rng = np.random.default_rng(seed)
    group, x, z = rng.integers(0, levels, n), rng.normal(size=n), rng.normal(size=n)
    y = (low + (high - low) * group / (levels - 1)) * x + 0.8 * rng.normal(size=n)
    names = np.array([f"level {i}" for i in range(levels)])
    frame = pd.DataFrame({"x": x, "y": y, "z": z, "group": names[group], "other": rng.choice(["p", "q"], n)})
    return frame.mask(rng.random(frame.shape) < holes)


@pytest.mark.parametrize("levels", [2, 4])
def test_the_chance_is_that_of_welch_s_test_of_slopes(levels: int) -> None:
    frame = table(100 * levels, 3, 0.1, 0.6, levels)
    frame.loc[frame.group == "level 0", "y"] *= 3  # scatters otherwise
    found, asked = slopes._chances(
        torch.tensor(frame[["x", "y"]].fillna(0).to_numpy()),
        torch.tensor(frame[["x", "y"]].notna().to_numpy()),
        torch.tensor(frame.group.str[-1].astype(float).fillna(-1.0).to_numpy()),
        levels,
    )
    chances = []
    for a, b in (("x", "y"), ("y", "x")):
        fits = [
            (stats.linregress(one[a], one[b]), len(one) - 2) for _, one in frame.dropna(subset=[a, b]).groupby("group")
        ]
        slope, w = np.array([f.slope for f, _ in fits]), np.array([1 / f.stderr**2 for f, _ in fits])
        free, k = np.array([n for _, n in fits]), len(fits)
        apart = (w * (slope - (w * slope).sum() / w.sum()) ** 2).sum() / (k - 1)
        spread = ((1 - w / w.sum()) ** 2 / free).sum()
        ratio = apart / (1 + 2 * (k - 2) / (k**2 - 1) * spread)
        chances.append(stats.f.sf(ratio, k - 1, (k**2 - 1) / (3 * spread)))
    assert asked.tolist() == [[False, True], [True, False]]
    assert [found[0, 1], found[1, 0]] == pytest.approx(chances, rel=1e-8)
    assert float(found.diag().min()) == 1.0


def test_a_column_on_whose_levels_slopes_depend_is_found_and_no_other() -> None:
    of = recipe("mixture")
    assert [column_of_slopes(rows(table(400, seed, 0.0, 0.8), of)) for seed in range(5)] == ["group"] * 5
    alike = [column_of_slopes(rows(table(400, 100 + seed, 0.4, 0.4), of)) for seed in range(40)]
    assert sum(name is not None for name in alike) <= 10  # CHANCE of 40 are 4; 10 or fewer with a probability of 0.998


def test_levels_that_are_many_or_have_few_rows_are_not_looked_at() -> None:
    of = recipe("mixture")
    assert column_of_slopes(rows(table(2000, 1, -2.0, 2.0, LEVELS), of)) == "group"
    assert column_of_slopes(rows(table(2000, 1, -2.0, 2.0, LEVELS + 1).drop(columns="other"), of)) is None
    assert column_of_slopes(rows(table(2 * 3 * int(WELL) - 1, 1, -2.0, 2.0), of)) is None
    assert column_of_slopes(rows(table(2 * 3 * int(WELL), 1, -2.0, 2.0), of)) == "group"
    seldom = table(400, 1, -2.0, 2.0)
    rare = seldom.index[seldom.group == "level 1"]
    assert column_of_slopes(rows(seldom.drop(rare[FEWEST - 2 :]), of)) != "group"
    assert column_of_slopes(rows(table(400, 1, 0, 1)[["x", "y", "z"]], of)) is None


def test_a_column_with_a_rare_level_is_not_looked_at() -> None:
    """A component of the level alone would say little, and would be drawn too often."""
    of = recipe("mixture", "linear")
    frame = table(2000, 1, 0.0, 0.8)
    rare = frame["group"].dropna().index
    for count, found in ((25, "group"), (10, None)):
        some = frame.assign(group=frame["group"].astype(object))
        some.loc[rare[:count], "group"] = "rare"
        assert column_of_slopes(rows(some.drop(columns="other"), of)) == found


def coded(frame: pd.DataFrame) -> dict[str, Rows]:
    return {transform: rows(frame, recipe("mixture", transform)) for transform in ("normal", "linear")}


def straight(n: int, seed: int) -> pd.DataFrame:
    """A skewed x that is greater at one level of `group`, and y on it with the same slope at both; a third of x is
    missing, the more often the greater y is."""
    rng = np.random.default_rng(seed)
    group, w = rng.integers(0, 2, n), rng.normal(size=n)
    x = np.exp(0.32 * w + 0.4 * group + 0.6 * rng.normal(size=n))
    y = 0.5 * group + 0.6 * x + 0.3 * w + rng.normal(size=n)
    hidden = rng.random(n) < 1 / (1 + np.exp(0.7 - 0.8 * (y - y.mean()) / y.std()))
    return pd.DataFrame({"x": x, "w": w, "y": y, "group": np.array(["p", "q"])[group]}).assign(
        x=np.where(hidden, np.nan, x)
    )


@pytest.mark.slow
def test_one_slope_on_a_skewed_number_is_taken_for_two_less_often_on_two_scales() -> None:
    one, both = 0, 0
    for seed in range(40):
        scales = coded(straight(400, seed))
        one += column_of_slopes(scales["normal"]) is not None
        both += column_of_slopes(*scales.values()) is not None
    assert one >= 8 and both <= 0.75 * one  # 4 of 40 are chance


def test_scales_that_lack_columns_of_the_first_are_not_looked_at() -> None:
    differ, alike = table(400, 1, -0.5, 0.5), table(400, 1, 0.5, 0.5)
    of = recipe("mixture")
    assert column_of_slopes(rows(differ, of), rows(differ.drop(columns="z"), of)) == "group"
    assert column_of_slopes(rows(differ, of), rows(alike, of)) is None


def test_there_are_candidates_with_slopes_of_each_level_where_these_differ() -> None:
    of = recipe("mixture")
    found = by_level(of, coded(table(400, 2, -0.5, 0.5)))
    assert [title for title, _ in found] == [
        "mixture shifted by the levels, columns bent to normal",
        "mixture shifted by the levels, columns standardised",
    ]
    assert [own.table.transform for _, own in found] == ["normal", "linear"]
    for _, own in found:
        assert held(own) == "group" and own.model.settings.get("components") is None  # held-out rows choose it
    assert by_level(of, coded(table(400, 2, 0.5, 0.5))) == []
    said = of.with_model(dependence="none")  # whoever says how numbers depend on levels compares that alone
    assert by_level(said, coded(table(400, 2, -0.5, 0.5))) == []


def skewed(n: int, seed: int) -> pd.DataFrame:
    """y on a skewed x with a slope of 0.3 or 1.2, as a group says; x has holes, the more often the greater y is."""
    rng = np.random.default_rng(seed)
    group, x = rng.integers(0, 2, n), rng.gamma(1.0, 1.0, n)
    y = np.where(group == 1, 1.2, 0.3) * x + 0.5 * rng.normal(size=n)
    frame = pd.DataFrame({"x": x, "y": y, "group": np.array(["p", "q"])[group]})
    return frame.assign(x=frame.x.mask(rng.random(n) < 1 / (1 + np.exp(1.0 - 0.8 * y))))


def test_slopes_of_each_level_compete_under_both_transforms_each_with_its_number_of_components(tmp_path: Path) -> None:
    quick = {"bootstrap": "none", "trees": "none"}
    vgi_cli.fit(skewed(500, 1), out=tmp_path / "run", threads=1, set=quick)
    candidates = json.loads((tmp_path / "run" / "contest.json").read_text())["candidates"]
    by = {one["transform"]: one["settings"] for one in candidates if one["settings"].get("by") == "group"}
    assert set(by) == {"normal", "linear"}
    assert by["linear"]["components"] > 1  # a line and normal noise of one width do not describe x given y


def test_candidates_without_slopes_of_each_level_win_where_these_are_worse_beyond_noise() -> None:
    best = torch.rand(300, 3, generator=torch.Generator().manual_seed(0)).double()
    noise = 0.3 * torch.randn(300, 3, generator=torch.Generator().manual_seed(1)).double()
    noise = noise - noise.mean()
    by = recipe("mixture", components=2, covariance="full", by="group")
    plain = recipe("mixture", components=1, covariance="full")
    for gain, blind in ((-0.1, True), (0.001, True), (0.01, False)):  # a standard error is 0.01
        made = standings_of((plain, best - gain), (by, best + noise))
        leader = made.entries[0 if gain > 0 else 1][1]
        assert [made._is_blind(one, leader) for one, _ in made.entries] == [blind, False]
        assert made.league(range(2)).entries[made.league(range(2)).winner][0].title == ("1" if blind else "0")
    made = standings_of((plain, best - 0.001), (by, best + noise), score="loglik")
    assert not made._against(made.entries[0], made.entries[0][1])  # by the density every one may win


def test_fills_without_slopes_that_differ_are_said() -> None:
    best = torch.rand(300, 3, generator=torch.Generator().manual_seed(0)).double()
    by = recipe("mixture", components=2, covariance="full", by="the group")
    plain = recipe("mixture", components=1, covariance="full")
    league = standings_of((plain, best), (by, best + 0.2)).league(range(2))
    assert league.slopes() == (
        "slopes of numbers differ between the levels of 'the group', and no fills come from models that have such "
        "slopes, as others fill hidden cells better: what 'the group' changes of them may come out too small "
        "(`--model mixture --set 'model.by=the group'` has them in all fills)"
    )
    said: list[str] = []
    contest._tell(league, cast(Any, None), Lines(said.append))
    assert said[-1] == league.slopes()
    some = league._replace(weights=(0.7, 0.3)).slopes()
    assert some is not None and "and 30% of the fills come from models" in some
    assert league._replace(weights=(0.4, 0.6)).slopes() is None
    assert standings_of((plain, best + 0.2), (by, best)).league(range(2)).slopes() is None  # which has won
    assert standings_of((plain, best), (plain, best)).league(range(2)).slopes() is None


@pytest.mark.slow
def test_fills_keep_the_slope_of_each_level(tmp_path_factory: pytest.TempPathFactory) -> None:
    whole = table(600, 5, -0.2, 0.6, holes=0.0)
    frame = whole.copy()
    frame["y"] = frame["y"].mask(np.random.default_rng(1).random(600) < 0.4)
    quick = {"bootstrap": "none", "trees": "none", "table.transform": "linear"}
    run = vgi_cli.fit(frame, out=tmp_path_factory.mktemp("slopes") / "run", threads=1, set=quick)
    for level, slope in (("level 0", -0.2), ("level 1", 0.6)):
        own = [one[(one.group == level) & frame.y.isna()] for one in vgi_cli.impute(run, m=10)]
        found = np.mean([np.polyfit(one.x, one.y, 1)[0] for one in own])
        assert abs(found - slope) < 0.2  # three standard errors of a slope of 180 rows
