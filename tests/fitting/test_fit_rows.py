"""A fit in memory: no file is written, and it is the fit of the folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from tests.tensors import same_tensors
from vgi_cli.commands.fit import fit, fit_in_memory
from vgi_cli.commands.requests import FitRequest, ImputeRequest, source
from vgi_cli.data import TensorTable, make_table
from vgi_cli.encoding.encoder import encode
from vgi_cli.errors import UsageError
from vgi_cli.fitting.fit_rows import fit_rows
from vgi_cli.fitting.rows import Rows, new_schema, quiet_schema
from vgi_cli.layout import Layout
from vgi_cli.machine.work import TimeLimit, TimeUp, Work
from vgi_cli.reporting import Lines, Silent
from vgi_cli.runs.store import RunStore
from vgi_cli.settings.gather import gather
from vgi_cli.settings.recipe import MethodChoice, ModelChoice, Recipe
from vgi_cli.table.frames import from_frame

TINY = {
    "epochs": 2,
    "threads": 1,
    "method.trunk": [4],
    "method.imputations": 2,
    "optim.warmup_conditionals": 1,
    "optim.warmup_model": 1,
}


def frame(rows: int = 80) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, 2)) @ rng.normal(size=(2, 4)) + 0.5 * rng.normal(size=(rows, 4))
    return pd.DataFrame(x, columns=list("abcd")).round(2).mask(rng.random((rows, 4)) < 0.25)


def asked(**settings: Any) -> FitRequest:
    table, _ = source(frame())
    said = {key.replace("__", "."): (value, key) for key, value in {**TINY, **settings}.items()}
    return FitRequest(settings=gather(said), table=table)


def filled(run: RunStore, sampler: str) -> list[pd.DataFrame]:
    table, _ = source(frame())
    return list(ImputeRequest(settings={}, checkpoint=run, table=table, m=2, sampler=sampler).frames(Silent(), False))


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


@pytest.mark.parametrize(
    ("settings", "samplers"),
    [
        ({"model__name": "fa", "method__name": "vgi", "bootstrap": 2}, ["exact", "gibbs", "chains"]),
        pytest.param(
            {"model__name": "vae", "method__name": "vgi", "val": 0.2}, ["latent", "gibbs"], marks=pytest.mark.slow
        ),
    ],
)
def test_a_fit_in_memory_is_that_of_the_folder(
    empty: Path, tmp_path: Path, settings: dict[str, Any], samplers: list[str]
) -> None:
    here = fit_in_memory(asked(**settings), Silent()).run
    assert list(empty.iterdir()) == []
    there = fit(replace(asked(**settings), out=str(tmp_path / "run")), Silent())
    assert all(same_tensors(here.tensors(stem), there.tensors(stem)) for stem in there.parts())
    assert here.recipe() == there.recipe() and here.text("schema.json") == there.text("schema.json")
    for sampler in samplers:
        for ours, theirs in zip(filled(here, sampler), filled(there, sampler), strict=True):
            pd.testing.assert_frame_equal(ours, theirs, check_exact=True)
    assert list(empty.iterdir()) == []
    other = {"timings", "progress", "metrics_bytes", "argv", "card"}
    ours, theirs = here.record.model_dump(exclude=other), there.record.model_dump(exclude=other)
    assert ours == {key: theirs[key] for key in ours}


def test_a_table_is_encoded_as_in_its_fit(empty: Path) -> None:
    """The noise of rounded cells is that of the fit's seed."""
    table, _ = source(frame())
    said = {"model.name": "fa", "model.factors": 1, "seed": 5, "bootstrap": "none", "threads": 1}
    settings = gather({key: (value, key) for key, value in said.items()})
    fitted = fit_in_memory(FitRequest(settings=settings, table=table), Silent())
    assert table is not None
    own = fitted.rows(table)
    expected, other = (encode(table, fitted.schema, seed=seed).table for seed in (5, 6))
    assert torch.equal(own.table.x, expected.x) and not torch.equal(own.table.x, other.x)


def rows(N: int = 200) -> TensorTable:
    g = torch.Generator().manual_seed(0)
    x = torch.randn(N, 1, generator=g, dtype=torch.float64) + 0.5 * torch.randn(N, 3, generator=g, dtype=torch.float64)
    return make_table(x, torch.rand(N, 3, generator=g) < 0.3, Layout.of("abc"))


def test_rows_that_come_encoded_are_fitted_as_they_are(empty: Path) -> None:
    """By EM: the observed cells have no higher likelihood nearby; what is left open is chosen and recorded."""
    lines: list[str] = []
    recipe = Recipe(model=ModelChoice("fa"), threads=1, bootstrap=3)
    fitted = fit_rows(Rows.of(rows()), recipe, work=Work(Lines(lines.append)))
    assert list(empty.iterdir()) == []
    assert fitted.recipe.method.name == "em" and fitted.recipe.model.settings["factors"] == 1
    assert lines[0].startswith("fitting by expectation maximisation") and len(fitted.refits) == 3
    assert fitted.run.record.data.rows_fitted == 197 and fitted.run.finished and fitted.run.last_metrics()["loglik"] < 0
    model, table = fitted.model, rows()
    with torch.no_grad():
        best = float(model.marginal_log_prob(table.x, table.missing).sum())  # type: ignore[operator]
        for parameter in model.parameters():
            for step in (0.02, -0.02):
                parameter.add_(step)
                assert float(model.marginal_log_prob(table.x, table.missing).sum()) < best  # type: ignore[operator]
                parameter.sub_(step)


def test_rows_that_come_encoded_are_held_out_and_scored(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a table behind them: held-out rows are scored in encoded units."""
    monkeypatch.setattr("vgi_cli.methods.optimisation.STEPS", 20)
    small = {"steps": 1, "hidden": 4, "bins": 3, "blocks": 1}
    method = MethodChoice("complete")
    complete = Rows.of(rows()._replace(missing=torch.zeros(200, 3, dtype=torch.bool)))
    lines: list[str] = []
    recipe = Recipe(model=ModelChoice("flow", small), method=method, threads=1)
    fit_rows(complete, recipe, work=Work(Lines(lines.append)))
    assert any(line.startswith("held-out rows ") for line in lines)
    scored = fit_rows(complete, recipe.replace(epochs=2, val=0.2), work=Work(Lines(lines.append)))
    assert "nats a row" in lines[-1] and scored.run.record.data.rows_held_out == 40
    assert list(empty.iterdir()) == []


def test_settings_that_cannot_work_are_refused_by_name() -> None:
    recipe = Recipe(model=ModelChoice("fa", {"factors": 4}), threads=1)
    with pytest.raises(UsageError, match=r"model\.factors=4: the table has 3 columns to model"):
        fit_rows(Rows.of(rows()), recipe)
    with pytest.raises(UsageError, match="method 'em' needs EM steps in closed form"):
        fit_rows(Rows.of(rows()), Recipe(model=ModelChoice("flow"), method=MethodChoice("em")))


def test_a_fit_without_time_leaves_nothing() -> None:
    over = TimeLimit(1.0, 0.0, clock=lambda: 2.0)
    with pytest.raises(TimeUp, match="stopped before training began"):
        fit_rows(Rows.of(rows()), Recipe(model=ModelChoice("fa")), work=Work(limit=over))


def test_rows_without_dimensions_are_a_fit_of_nothing() -> None:
    nothing = make_table(torch.zeros(5, 0), torch.zeros(5, 0, dtype=torch.bool))
    fitted = fit_rows(Rows.of(nothing), Recipe(model=ModelChoice("fa")))
    assert fitted.empty and fitted.run.record.stopped_by == "converged"


@pytest.mark.parametrize("carry", [True, False])
def test_a_schema_of_which_nothing_is_said_is_the_same(carry: bool) -> None:
    """By the rows that are fitted, and with columns carried that the model does not take."""
    table = from_frame(frame().assign(kind=["u", "v"] * 40))
    of = Recipe(model=ModelChoice("fa"), method=MethodChoice("em"), val=0.3).with_table(carry_others=carry)
    schema = quiet_schema(table, of)
    assert schema == new_schema(table, of, Silent())
    assert schema != quiet_schema(table, of.replace(val=None))
    assert ("kind" in schema.modelled) != carry
