"""Recipes open with the command line that runs them; all their settings are valid; the toy tables are what they say."""

from __future__ import annotations

import json
import math
import shlex
import shutil
import tomllib
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.scripts import module, script
from vgi_cli.cli.app import main
from vgi_cli.commands.evaluate.truth_model import parse_truth
from vgi_cli.errors import UsageError
from vgi_cli.fitting.plan import make_plan
from vgi_cli.settings.gather import find_recipe, gather, load_recipe, recipe_names

ROOT = Path(__file__).parents[1]
RECIPES = sorted((ROOT / "recipes").rglob("*.yaml"))


def first_comment(recipe: Path) -> list[str]:
    lines = recipe.read_text(encoding="utf-8").splitlines()
    end = next(i for i, line in enumerate(lines) if not line.startswith("#"))
    return [line.removeprefix("#").strip() for line in lines[:end]]


def test_there_are_recipes() -> None:
    paper = ["fa-frey", "gas", "hepmass", "miniboone", "power", "toy-fa", "vae-frey"]
    names = [recipe.relative_to(ROOT / "recipes").as_posix() for recipe in RECIPES]
    assert names == ["fa-frey.yaml", *(f"paper/{name}.yaml" for name in paper), "toy-fa.yaml", "vae-frey.yaml"]


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.relative_to(ROOT).as_posix())
def test_recipe_opens_with_its_command_cost_and_target(recipe: Path) -> None:
    opening = first_comment(recipe)
    words = shlex.split(opening[0].split("&&")[-1])
    assert words[:2] == ["vgi", "fit"]
    assert words[words.index("--recipe") + 1] == recipe.relative_to(ROOT).as_posix()
    assert any("Cost: " in line for line in opening) and any(line.startswith("To reach: ") for line in opening)


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.relative_to(ROOT).as_posix())
def test_recipe_has_only_valid_settings(recipe: Path) -> None:
    settings = gather({"data": (["table.csv"], "DATA")}, recipe=recipe)
    plan = make_plan(settings)
    assert plan.model.name == load_recipe(recipe).model.name


@pytest.mark.parametrize("name", ["toy-fa.yaml", "toy-fa", "recipes/toy-fa.yaml", "paper/gas", "paper/gas.yaml"])
def test_a_shipped_recipe_is_found_by_its_name(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = gather({}, recipe=Path(name))
    assert found["model.name"].value == ("flow" if "gas" in name else "fa")
    Path(name).parent.mkdir(exist_ok=True)
    Path(name).write_text("seed: 7\n")
    assert gather({}, recipe=Path(name))["seed"].value == 7  # a file of the user's own comes first


def test_a_recipe_that_is_nowhere_is_refused_with_the_names_of_those_that_are() -> None:
    with pytest.raises(UsageError) as caught:
        gather({}, recipe=Path("tooy-fa.yaml"))
    assert caught.value.message == "--recipe: no file 'tooy-fa.yaml'"
    assert caught.value.hint is not None and "comes with vgi: fa-frey.yaml, paper/fa-frey.yaml, " in caught.value.hint


def test_recipes_are_a_part_of_the_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]
    assert build["targets"]["wheel"]["force-include"] == {"recipes": "vgi_cli/recipes"}
    assert "COPY recipes recipes" in (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert "!recipes" in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    shutil.copytree(ROOT / "recipes", tmp_path / "site-packages" / "vgi_cli" / "recipes")
    monkeypatch.setattr("vgi_cli.settings.gather.PACKAGE", tmp_path / "site-packages" / "vgi_cli")
    assert recipe_names() == [recipe.relative_to(ROOT / "recipes").as_posix() for recipe in RECIPES]
    assert find_recipe(Path("toy-fa")) == tmp_path / "site-packages" / "vgi_cli" / "recipes" / "toy-fa.yaml"


def test_toy_recipe_runs_on_toy_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The two commands of its first line, small and short."""
    make, fit = (shlex.split(part) for part in first_comment(ROOT / "recipes" / "toy-fa.yaml")[0].split("&&"))
    out = str(tmp_path / "toy")
    small = ["--rows", "200", "--test-rows", "50", "--masks", "1", "--sixths", "3"]
    assert make[:2] == ["python", "benchmarks/make_toy.py"]
    made = script("make_toy", out, *small)
    assert made.code == 0, made.err
    table = Path(out) / Path(fit[2]).name
    assert table.exists()
    monkeypatch.chdir(ROOT)
    assert main(["fit", str(table), *fit[3:], "--epochs", "2", "--out", f"{out}/run"]) == 0
    assert json.loads((Path(out) / "run" / "manifest.json").read_text(encoding="utf-8"))["stopped_by"] == "epochs"


def test_toy_truth_and_masks(tmp_path: Path) -> None:
    toy = module("make_toy")
    made = toy.make(tmp_path / "a", rows=600, test_rows=4000, sixths=(1, 5), masks=2, seed=3, suffix="parquet")
    assert [path.name for path in made] == [f"train-{k}-{m}.parquet" for k in (1, 5) for m in (1, 2)]
    truth = json.loads((tmp_path / "a" / "truth.json").read_text(encoding="utf-8"))
    covariance = np.array(truth["covariance"])
    assert np.allclose(covariance, np.array(truth["F"]) @ np.array(truth["F"]).T + np.diag(truth["Psi"]))
    law = parse_truth((tmp_path / "a" / "law.json").read_text(encoding="utf-8"), "law.json")
    assert law.columns == toy.NAMES and np.allclose(law.normals.covariances[0].numpy(), covariance)
    expected = -0.5 * (6 * (math.log(2 * math.pi) + 1) + np.linalg.slogdet(covariance)[1])
    assert abs(truth["test_loglik"] - expected) < 4 * math.sqrt(6 / 2 / 4000)  # variance of a Gaussian's log p: D / 2
    train = pq.read_table(tmp_path / "a" / "train.parquet")
    for path in made:
        table, k = pq.read_table(path), int(path.stem.split("-")[1])
        assert sum(table[name].null_count for name in table.column_names) == 600 * k
        for name in table.column_names:
            pairs = zip(table[name].to_pylist(), train[name].to_pylist(), strict=True)
            assert all(cell is None or cell == full for cell, full in pairs)


def test_toy_tables_do_not_depend_on_what_else_is_made(tmp_path: Path) -> None:
    toy = module("make_toy")
    toy.make(tmp_path / "a", rows=50, test_rows=10, sixths=(2, 4), masks=2, seed=1, suffix="csv")
    toy.make(tmp_path / "b", rows=50, test_rows=20, sixths=(4,), masks=1, seed=1, suffix="csv")
    toy.make(tmp_path / "c", rows=50, test_rows=20, sixths=(4,), masks=1, seed=2, suffix="csv")
    texts = [(tmp_path / folder / "train-4-1.csv").read_text(encoding="utf-8") for folder in "abc"]
    assert texts[0] == texts[1] != texts[2]
