"""How much hidden cells of a comparison of models count."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import vgi_cli
from vgi_cli.encoding.infer import schema_alone
from vgi_cli.fitting.contest import contest
from vgi_cli.fitting.contest.candidates import candidates
from vgi_cli.fitting.contest.odds import MOST, hole_odds
from vgi_cli.fitting.contest.scoring import columns_of, weighted
from vgi_cli.fitting.rows import Rows, rows_of
from vgi_cli.settings.recipe import ModelChoice, Recipe
from vgi_cli.table.frames import from_frame


def table(by: str | None, n: int = 1500, slope: float = 1.0) -> tuple[Rows, pd.DataFrame, np.ndarray]:
    """Holes in `z` at random, and in `level` by y, by `group`, by whether `z` is missing, or at random; the chance of
    one there."""
    rng = np.random.default_rng(0)
    y, z, group = rng.normal(size=n), rng.normal(size=n), rng.integers(2, size=n)
    level = rng.integers(3, size=n) + (y > 0)
    away = rng.random(n) < 0.3
    cause = {None: np.zeros(n), "y": y, "group": 2.0 * group, "hole": 2.0 * away}[by]
    chance = 1 / (1 + np.exp(-(slope * cause - 0.5)))
    frame = pd.DataFrame({"y": y.round(3), "z": z.round(3), "group": group, "level": [f"l{k}" for k in level]})
    frame.loc[away, "z"] = np.nan
    frame.loc[rng.random(n) < chance, "level"] = None
    found = from_frame(frame)
    return rows_of(found, schema_alone(found), 0), frame, chance


@pytest.mark.parametrize("by", ["y", "group", "hole"])
def test_cells_count_by_the_odds_of_a_hole(by: str) -> None:
    """Of the law that made the holes, up to a constant."""
    rows, frame, chance = table(by)
    odds, seen = hole_odds(rows)[:, 3].numpy(), frame.level.notna().to_numpy()
    true = chance / (1 - chance) / (chance / (1 - chance))[seen].mean()
    assert odds[seen].mean() == pytest.approx(1.0)
    assert np.abs(np.log(odds / true))[seen].mean() < 0.12
    assert bool((hole_odds(rows)[:, 1] == 1).all()) == (by != "hole")  # whether z is missing goes with nothing else


def test_cells_count_alike_where_holes_are_at_random() -> None:
    rows, *_ = table(None)
    assert bool((hole_odds(rows) == 1).all())


def test_no_cell_counts_much_more_than_the_others() -> None:
    rows, frame, _ = table("y", slope=6.0)
    assert 0.8 * MOST < hole_odds(rows)[:, 3].numpy()[frame.level.notna().to_numpy()].max() < 2 * MOST


def test_a_column_alone_is_scored_by_what_its_cells_count() -> None:
    """Without odds as ever; of numbers by the CRPS of all cells at each; of levels by the shares of the odds."""
    rows, *_ = table("y")
    columns, even = columns_of(rows), torch.ones(1500, 4, dtype=torch.float64)
    assert weighted(columns, rows, even) == columns
    odds = even.clone()
    odds[:, 0] = torch.linspace(0.5, 1.5, 1500)
    seen = weighted(columns, rows, odds)
    assert seen[1:] == columns[1:]
    values = rows.source.table.numeric("y") if rows.source is not None else np.zeros(1)
    crps = np.abs(values[:, None] - values).sum(1) / 1499 - np.abs(values[:, None] - values).sum() / (2 * 1500 * 1499)
    assert seen[0].alone == pytest.approx(np.average(crps, weights=odds[:, 0].numpy()), rel=1e-9)
    assert columns[0].alone == pytest.approx(crps.mean(), rel=1e-9)


def confounded(rows: int, seed: int = 0) -> pd.DataFrame:
    """A cause of y in three levels, of which six in ten are missing, the more often the higher y is."""
    rng = np.random.default_rng(seed)
    level = rng.choice(3, rows, p=[0.5, 0.3, 0.2])
    treated = rng.random(rows) < np.array([0.2, 0.5, 0.8])[level]
    y = treated + np.array([0.0, 1.0, 2.5])[level] + 1.2 * rng.normal(size=rows)
    frame = pd.DataFrame({"y": y.round(4), "treated": treated, "cause": np.array(["lo", "mid", "high"])[level]})
    frame.loc[rng.random(rows) < 1 / (1 + np.exp(0.9 - 0.9 * y)), "cause"] = None
    return frame


@pytest.mark.usefixtures("two_models")
def test_cells_of_a_comparison_count_by_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for name, odds in (("odds", hole_odds), ("even", lambda rows: torch.ones_like(hole_odds(rows)))):
        monkeypatch.setattr(contest, "hole_odds", odds)
        few = {"trees": "none", "bootstrap": "none", "table.transform": "linear"}
        vgi_cli.fit(confounded(120), out=tmp_path / name, threads=1, set=few)
        league = json.loads((tmp_path / name / "contest.json").read_text())["candidates"]
        found.append({one["title"]: (one["cells"], one["loglik"]) for one in league})
    assert found[0].keys() == found[1].keys() and len(found[0]) > 1
    for title, (cells, loglik) in found[0].items():
        assert cells != found[1][title][0] and loglik == found[1][title][1]


@pytest.mark.slow
@pytest.mark.full_fits
def test_levels_that_are_missing_by_a_number_are_filled_by_one_cluster_that_they_shift(tmp_path: Path) -> None:
    """The law is one; mixtures of several fill the cells that are there as well, and the holes worse. (It has no weight
    where cells count alike.)"""
    said: list[str] = []
    few = {"trees": "none", "bootstrap": 2, "table.transform": "linear"}
    vgi_cli.fit(confounded(1500, 0), out=tmp_path / "run", threads=1, set=few, say=said.append)
    league = json.loads((tmp_path / "run" / "contest.json").read_text())["candidates"]
    assert sum(one["weight"] for one in league if one["title"].startswith("mixture shifted by the levels")) > 0.4
    assert not [line for line in said if "independent" in line]


@pytest.mark.parametrize(
    ("frame", "settings", "there"),
    [
        (confounded(60), {}, True),
        (confounded(60), {"score": "loglik"}, False),
        (confounded(60), {"uncertainty": "posterior"}, False),
        (confounded(60)[["cause", "treated"]], {}, False),
        (confounded(60)[["y"]].assign(z=np.arange(60) % 7 + 0.5), {}, False),
    ],
)
def test_where_one_cluster_that_levels_shift_is_compared(
    frame: pd.DataFrame, settings: dict[str, Any], there: bool
) -> None:
    recipe = Recipe(model=ModelChoice("mixture")).with_method("em").replace(**settings)
    found = from_frame(frame)
    some = rows_of(found, schema_alone(found), 0)
    one = [own for _, own in candidates(recipe, some, ["linear"]) if own.model.settings.get("components") == 1]
    assert len(one) == there and all(own.model.settings["dependence"] == "linear" for own in one)
