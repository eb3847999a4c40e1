"""What a fit chooses stands in its run, and the recipe with it repeats the fit."""

from __future__ import annotations

import json
import platform
from pathlib import Path

import pytest
import torch
import yaml

from tests.program import Vgi, vgi
from tests.selection import some
from vgi_cli.data import make_table
from vgi_cli.fitting.choosing import ONE_CHAIN, adapting_config, settled_chains
from vgi_cli.runs.folder import RunFolder
from vgi_cli.settings.gather import load_recipe
from vgi_cli.settings.recipe import MethodChoice, ModelChoice, Recipe, as_settings
from vgi_cli.version import __version__, provenance, said

__all__ = ["vgi"]

NETS = ["--set", "method.trunk=[4]", "--set", "method.hidden=[4]", "--set", "optim.warmup_model=1"]
WARM = ["--set", "optim.warmup_conditionals=1"]
FLOW = ["--model", "flow", "--epochs", "1", "--set", "model.hidden=4", "--set", "model.steps=1", *NETS, *WARM]
FITS = {
    "mixture": ["--model", "mixture", "--set", "bootstrap=1"],
    "fa": ["--model", "fa"],
    "flow": FLOW,
    "objective": [*FLOW, "--val", "0.5", "--select", "objective"],
    "vae": ["--model", "vae", "--epochs", "1", "--set", "model.decoder=[4]", "--set", "optim.warmup_model=1"],
    "mvae": ["--model", "vae", "--method", "mvae", "--epochs", "1", "--val", "0.5", "--select", "objective"],
}
NOT_USED = {
    "model.by",
    "model.shrinkage",
    "mask",
    "table.delimiter",
    "table.decimal",
    "table.blocks",
    "table.weight",
    "val",
    "holdout_cells",
}
NOT_USED |= {"time_limit", "stop_after", "posterior_components"}
"""Null means here: there is none."""
OF_THE_MACHINE = {"compile", "method.chains"}
"""How and where a fit computes changes no result."""
OF_THE_MODEL = {"method.floor"}
"""Each of several models has its own."""
FULL = {"model.factors"}
"""Covariances of the mixture are full."""
LATENT_BLOCKS = {"method.layout", "method.scan", "method.block_columns"}
"""A method whose blocks are latents and missing cells has no networks and moves of single columns."""


def write_table() -> None:
    torch.manual_seed(0)
    x = torch.randn(40, 3) @ torch.randn(3, 3)
    holes = torch.rand(40, 3) < 0.2
    rows = (
        "".join(["", ""]) + ",".join("" if h else f"{v:.3f}" for v, h in zip(*r, strict=True))
        for r in zip(x, holes, strict=True)
    )
    Path("data.csv").write_text("a,b,c\n" + "\n".join(rows) + "\n")


@pytest.mark.parametrize("name", some(["mixture", "flow", "mvae"], FITS))
def test_the_recipe_of_a_run_leaves_nothing_open_and_repeats_the_fit(vgi: Vgi, name: str) -> None:
    write_table()
    arguments = ["fit", "data.csv", *FITS[name], "--out", "run"]
    assert vgi(*arguments).code == 0
    recipe = load_recipe(Path("run/recipe.yaml"))
    plain = yaml.safe_load(Path("run/recipe.yaml").read_text())
    flat = {f"{s}.{k}": v for s, inner in plain.items() if isinstance(inner, dict) for k, v in inner.items()}
    flat |= {key: value for key, value in plain.items() if not isinstance(value, dict)}
    still_open = {key for key, value in flat.items() if value in (None, "auto")}
    allowed = NOT_USED | OF_THE_MACHINE | OF_THE_MODEL | FULL | (LATENT_BLOCKS if name == "vae" else set())
    assert still_open <= allowed
    assert vgi("fit", "--recipe", "run/recipe.yaml", "--out", "again").code == 0
    for file in ("recipe.yaml", "schema.json", "model.safetensors"):
        assert Path("run", file).read_bytes() == Path("again", file).read_bytes(), file
    first, again = (RunFolder.open(Path(path)).record for path in ("run", "again"))
    settings = as_settings(recipe)
    assert all(settings[key].value == value for key, value in first.chosen.items())
    assert not set(first.chosen) & set(first.requested) and again.chosen == {}
    assert first.chosen.keys() >= {"table.transform", "threads", "device"}
    assert first.argv == tuple(arguments)
    assert first.versions.keys() - {"numba"} == {"vgi", "python", "torch", "numpy", "pyarrow"}
    assert (first.versions["vgi"], first.versions["python"]) == (__version__, platform.python_version())


def test_what_a_fit_chose_by_its_rows_fine_tuning_chooses_anew(vgi: Vgi) -> None:
    write_table()
    assert vgi("fit", "data.csv", *FLOW, "--out", "run").code == 0
    run = RunFolder.open(Path("run"))
    assert run.record.chosen["optim.batch_size"] == 32 and run.record.chosen["method.layout"] == "shared"
    config = adapting_config(run.recipe(), run.record.chosen)
    assert (config.optim.batch_size, config.scan, config.block_columns) == (None, "auto", None)
    assert (config.layout, config.optim.lr) == ("shared", 0.003)
    said = adapting_config(run.recipe(), {})
    assert (said.optim.batch_size, said.scan, said.block_columns) == (32, "step", 1)
    assert vgi("finetune", "--checkpoint", "run", "data.csv", "--epochs", "1", "--out", "tuned").code == 0
    assert RunFolder.open(Path("tuned")).record.chosen == run.record.chosen


def test_a_run_of_an_older_version_is_continued_and_then_says_what_it_chose(vgi: Vgi) -> None:
    write_table()
    assert vgi("fit", "data.csv", *FLOW, "--out", "run").code == 0
    run = RunFolder.open(Path("run"))
    manifest = {k: v for k, v in run.manifest.items() if k not in ("chosen", "argv", "versions", "checksum")}
    Path("run/manifest.json").write_text(json.dumps(manifest))
    assert vgi("fit", "--resume", "--out", "run", "--epochs", "2").code == 0
    assert RunFolder.open(Path("run")).record.chosen["optim.batch_size"] == 32


def test_a_table_without_a_column_to_model_chooses_nothing(vgi: Vgi) -> None:
    Path("data.csv").write_text("a,b\n1,x\n1,y\n,z\n")
    assert vgi("fit", "data.csv", "--out", "run").code == 0
    assert RunFolder.open(Path("run")).record.chosen == {}


def test_the_words_of_a_command_hold_no_path_of_a_plugin_and_are_text() -> None:
    with said(["fit", "--plugin", "code/mine.py", "--plugin=/home/me/other.py", "caf\udce9.csv"]):
        assert provenance()["argv"] == ["fit", "--plugin", "mine.py", "--plugin=other.py", "caf\\udce9.csv"]
    assert provenance()["argv"] is None


@pytest.mark.parametrize(
    ("model", "rows", "holes", "said", "chains"),
    [
        ("flow", 0, 0.14, {}, 1),
        ("flow", 0, 0.16, {}, 5),
        ("flow", -1, 0.14, {}, 5),
        ("flow", 0, 0.14, {"method.imputations"}, 5),
        ("fa", 0, 0.14, {}, 5),
    ],
)
def test_a_flow_of_many_rows_with_few_holes_takes_one_chain_of_each(
    model: str, rows: int, holes: float, said: set[str], chains: int
) -> None:
    x = torch.zeros(ONE_CHAIN + rows, 2)
    missing = torch.zeros_like(x, dtype=torch.bool)
    missing[: int(2 * holes * ONE_CHAIN), 1] = True
    recipe = Recipe(model=ModelChoice(model), method=MethodChoice("vgi"))
    settled = settled_chains(recipe, make_table(x, missing), said)
    assert settled.method_settings.imputations == chains  # type: ignore[attr-defined]
