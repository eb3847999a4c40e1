"""`--model auto`: the mixture, and next to no work where nothing is to be filled."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

import vgi_cli
from vgi_cli.fitting.choosing import choose
from vgi_cli.layout import Layout
from vgi_cli.models.gaussian.mixture import FULL_UP_TO, GaussianMixture, MixtureConfig
from vgi_cli.settings.gather import load_recipe

FLOW = "--compare flow tells whether a flow describes so many rows better, in tens of times the time"


@pytest.mark.parametrize(
    ("N", "d", "missing", "flow"),
    [
        (344, 6, 0.02, False),
        (25_000, 9, 0.1, True),
        (25_000, 9, 0.3, False),
        (10**6, 1, 0.1, False),
        (10**6, 5, 0.5, True),
    ],
)
def test_the_mixture_whatever_the_size(N: int, d: int, missing: float, flow: bool) -> None:
    choice = choose(N, d, missing, partial=10)
    assert (choice.model, choice.method, dict(choice.settings), choice.refits) == ("mixture", "em", {}, True)
    assert choice.why.startswith(f"{N:,} rows, {d} column") and (FLOW in choice.why) == flow


def test_wide_tables_need_more_rows_for_a_flow_to_be_named() -> None:
    assert FLOW not in choose(49_999, 100, 0.0, partial=1).why
    assert FLOW in choose(50_000, 100, 0.0, partial=1).why


@pytest.mark.parametrize(
    ("missing", "why"), [(0.0, "there is nothing to fill"), (4 / 25_000, "only whole rows are missing")]
)
@pytest.mark.parametrize("d", [1, 9, FULL_UP_TO, FULL_UP_TO + 1, 500])
def test_one_gaussian_where_no_row_has_a_hole_beside_an_observed_cell(missing: float, why: str, d: int) -> None:
    choice = choose(25_000, d, missing, partial=0)
    assert (choice.model, choice.method, choice.refits) == ("mixture", "em", False)
    assert (
        f": {why}, so one Gaussian is enough (--model mixture makes a full fit" in choice.why and FLOW not in choice.why
    )
    config = MixtureConfig(**choice.settings)
    (path,) = GaussianMixture.sizes(config, 25_000, d)
    assert len(path) == 1 and path[0].components == 1  # no search
    assert not GaussianMixture.build(config, Layout.plain(d)).independent or d == 1


def test_what_holds_levels_is_no_gaussian() -> None:
    """One cluster of a table of which some columns hold levels; how wide a covariance is, is for the numbers."""
    choice = choose(400, FULL_UP_TO + 9, 0.0, partial=0, levels=9)
    assert "so one cluster is enough" in choice.why and "Gaussian" not in choice.why
    assert dict(choice.settings) == {"components": 1}
    assert choose(400, FULL_UP_TO + 9, 0.0, partial=0, levels=8).settings["covariance"] == "factor"


@pytest.mark.parametrize(
    ("columns", "what"),
    [("xs", "mixture of Gaussians and categories"), ("st", "mixture of categories"), ("xy", "Gaussian mixture")],
)
def test_the_model_is_called_what_it_is(columns: str, what: str, tmp_path: Path) -> None:
    cells = {
        "x": [0.5, 1.25, 2.5, None] * 6,
        "y": [1.5, 0.25, -1.0] * 8,
        "s": ["a", "b", None] * 8,
        "t": ["u", "v"] * 12,
    }
    lines: list[str] = []
    table = pd.DataFrame({name: cells[name] for name in columns})
    vgi_cli.fit(table, out=tmp_path / "run", epochs=1, say=lines.append, set={"bootstrap": "none"})
    assert any(line.startswith(f"model: {what}, fitted by") for line in lines)


def frame() -> pd.DataFrame:
    values = pd.DataFrame({"a": range(40), "b": [i * i % 17 for i in range(40)], "t": "x"}).astype({"a": float})
    values.loc[3, "t"] = None
    return values


def test_a_table_without_modelled_holes_is_fitted_cheaply_and_fills_new_rows(tmp_path: Path) -> None:
    said: list[str] = []
    run = vgi_cli.fit(frame(), out=tmp_path / "run", threads=1, say=said.append)
    (line,) = [line for line in said if line.startswith("model: ")]
    assert line.startswith(
        "model: Gaussian mixture, fitted by expectation maximisation: 40 rows, 2 columns, 0% of the cells missing: "
        "there is nothing to fill, so"
    )
    assert not any("held-out" in line for line in said)
    recipe = load_recipe(tmp_path / "run" / "recipe.yaml")
    assert (recipe.model.settings["components"], recipe.bootstrap) == (1, "none")
    assert json.loads((tmp_path / "run" / "manifest.json").read_text())["bootstrap"] == 0
    new = frame().astype({"b": float})
    new.loc[5, "b"] = None
    assert not run.impute(new, m=1)[0]["b"].isna().any()
    assert run.evaluate(frame())["rows"] == 40


def test_what_was_said_stands_in_a_table_without_holes(tmp_path: Path) -> None:
    run = vgi_cli.fit(frame(), out=tmp_path / "run", threads=1, set={"bootstrap": 3})
    assert run.manifest["bootstrap"] == 3
    settings = {"model.components": 2, "bootstrap": "none"}
    run = vgi_cli.fit(frame(), model="mixture", out=tmp_path / "full", threads=1, set=settings)
    assert load_recipe(tmp_path / "full" / "recipe.yaml").model.settings["components"] == 2
