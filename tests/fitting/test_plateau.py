"""A flow trains until held-out rows gain no more, where nobody says how long, and then all rows at a falling rate."""

from __future__ import annotations

import math
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
import yaml

import vgi_cli
from tests.selection import first
from vgi_cli.completers.base import never
from vgi_cli.data import make_table
from vgi_cli.errors import FitError, Interrupted, UsageError
from vgi_cli.evaluation.likelihood.estimate import observed_log_prob
from vgi_cli.evaluation.likelihood.loglik import LogLik
from vgi_cli.fitting import driver, job, pace, plateau
from vgi_cli.fitting.job import Job, start
from vgi_cli.fitting.rows import Rows
from vgi_cli.machine.work import Work
from vgi_cli.methods.loop import LoopState
from vgi_cli.runs.folder import RunFolder
from vgi_cli.settings.recipe import MethodChoice, ModelChoice, Recipe

SMALL = {"method.imputations": 2, "optim.batch_size": 16, "model.steps": 1, "model.hidden": 8, "model.blocks": 0}
SMALL |= {
    "method.trunk": [4],
    "method.hidden": [4],
    "bootstrap": "none",
    "optim.warmup_conditionals": 2,
    "optim.warmup_model": 2,
}


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Patience counts from the first step."""
    monkeypatch.setattr(plateau, "LEAST", 0)


def frame(rows: int) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    z = rng.normal(size=rows)
    frame = pd.DataFrame({"a": z, "b": z + 0.5 * rng.normal(size=rows), "c": rng.normal(size=rows)})
    return frame.mask(rng.random(frame.shape) < 0.15)


def fit(rows: int, path: Path, more: dict | None = None, **options: object) -> tuple[dict, list[str]]:
    said: list[str] = []
    settings = SMALL | (more or {})
    run = vgi_cli.fit(frame(rows), model="flow", set=settings, out=path, threads=1, say=said.append, **options)
    return run.manifest, said


def schedule(path: Path) -> str:
    return str(yaml.safe_load((path / "recipe.yaml").read_text())["optim"]["schedule"])


def scripted(monkeypatch: pytest.MonkeyPatch, *scores: float) -> None:
    """The held-out rows score so, one time after the other."""
    values = iter(scores)

    def given(*arguments: Any, **options: Any) -> LogLik:
        found = observed_log_prob(*arguments, **options)
        return found._replace(values=torch.full_like(found.values, next(values)))

    monkeypatch.setattr(plateau, "observed_log_prob", given)


def test_a_fit_ends_long_before_the_planned_epochs_and_says_why(tmp_path: Path) -> None:
    manifest, said = fit(60, tmp_path / "run")
    assert 1 <= manifest["epochs"] < 400  # 4,000 steps would be 1,000 epochs
    assert any(line.startswith("held-out rows gained no more after") for line in said)
    assert manifest["data"]["rows_fitted"] == int((~frame(60).isna().all(axis=1)).sum())  # no row is lost
    assert schedule(tmp_path / "run") == "plateau" and manifest["chosen"]["optim.schedule"] == "plateau"


def test_the_rate_falls_from_the_first_epoch_with_all_rows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    scripted(monkeypatch, -3.0, -2.0, -2.0, -2.1, -1.99)  # after 1, 2, 3, 4, 5 epochs
    kept: list[tuple[dict[str, torch.Tensor], LoopState]] = []
    real, rows, factors = LoopState.fall, [], []

    def fall(state: LoopState, parameters: dict[str, torch.Tensor], epochs: int) -> None:
        rows.append(state.rows_per_epoch)
        real(state, parameters, epochs)
        rows.append(state.rows_per_epoch)
        kept.append((parameters, state))
        for name, value in state.theta.state_dict().items():
            assert torch.equal(value, parameters[f"theta/{name}"])
        for name, value in state.networks["conditionals"].state_dict().items():
            assert torch.equal(value, parameters[f"conditionals/{name}"])

    def set_rates(state: LoopState, factor: float | None = None) -> None:
        real_rates(state, factor)
        factors.append((state.epoch, state.optim_theta.param_groups[0]["lr"] / state.lr))

    real_rates = LoopState.set_rates
    monkeypatch.setattr(LoopState, "fall", fall)
    monkeypatch.setattr(LoopState, "set_rates", set_rates)
    manifest, said = fit(60, tmp_path / "run")
    ((_, state),) = kept
    assert (state.turn, manifest["epochs"]) == (5, 7)  # as many epochs as were best
    used = manifest["data"]["rows_fitted"]
    assert rows == [used - round(0.2 * used), used]
    assert {factor for epoch, factor in factors if epoch < 5} == {1.0}
    falling = [factor for epoch, factor in factors if epoch >= 5]
    n = len(falling)
    assert falling == pytest.approx([0.5 * (1 + math.cos(math.pi * i / n)) for i in range(n)])
    assert "held-out rows gained no more after 2 epochs; now all rows, for 2 epochs at a falling learning rate" in said


def test_where_the_epochs_end_first_the_fit_goes_on_from_the_best(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("vgi_cli.methods.optimisation.STEPS", 20)
    scripted(monkeypatch, *range(20))  # better each time
    starts: list[dict[str, torch.Tensor]] = []
    snapshots: list[dict[str, torch.Tensor]] = []
    real, taken = LoopState.fall, LoopState.snapshot

    def snapshot(state: LoopState) -> dict[str, torch.Tensor]:
        snapshots.append(taken(state))
        return snapshots[-1]

    def fall(state: LoopState, parameters: dict[str, torch.Tensor], epochs: int) -> None:
        starts.append(parameters)
        real(state, parameters, epochs)

    monkeypatch.setattr(LoopState, "snapshot", snapshot)
    monkeypatch.setattr(LoopState, "fall", fall)
    manifest, said = fit(60, tmp_path / "run")
    planned = math.ceil(0.75 * 5)  # four batches an epoch: 20 steps are 5 epochs
    kept = int(planned * 0.7)
    assert manifest["epochs"] == kept + math.ceil(kept * 0.3 / 0.7) and len(snapshots) == kept
    assert all(torch.equal(starts[0][name], value) for name, value in snapshots[-1].items())
    assert any(line.startswith("held-out rows may gain still; now all rows, for ") for line in said)


def test_rows_that_are_held_out_change_nothing_before_the_rate_falls(tmp_path: Path) -> None:
    """Not the model, not the conditionals, and not the chains of other rows."""
    x = torch.randn(60, 3, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    missing = torch.rand(60, 3, generator=torch.Generator().manual_seed(4)) < 0.2
    found = []
    for shift in (0.0, 5.0):
        table = make_table(x.masked_fill(missing, 0.0).float(), missing)
        config = MethodChoice("vgi", {"imputations": 2})
        recipe = Recipe(model=ModelChoice("flow", {"steps": 1, "hidden": 4}), method=config)
        keys = torch.arange(60)
        _, state = start(Job(recipe, Rows(table, keys, keys), None, torch.device("cpu"), Work()))
        assert isinstance(state, LoopState)
        held = torch.arange(48, 60)
        state.schedule = "plateau"
        state.hold_out(held)
        state.chains.x[held] = state.chains.x[held] + shift
        events = recipe.method.algorithm.run(state, never)
        while state.epoch < 1:
            next(events)
        found.append(state.parts())
    for stem in ("model", "conditionals"):
        assert all(torch.equal(found[0][stem][name], value) for name, value in found[1][stem].items())


SCORES = (-3.0, -2.0, -1.0, -1.0, -1.0, -1.0)
"""After 1, 2, 3, 4, 5, 7 epochs: the rate falls after 7, for 3."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, torch.Tensor]]:
    """The parts of a fit that was not stopped, of 10 epochs."""
    path = tmp_path_factory.mktemp("whole") / "run"
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(plateau, "LEAST", 0)
        scripted(patched, *SCORES)
        assert fit(60, path)[0]["epochs"] == 10
    return RunFolder.open(path).parts()


@pytest.mark.parametrize("at", first(1, [5, 2, 8]))
def test_stopped_before_or_after_the_rate_falls_and_resumed_equals_not_stopped(
    at: int, tmp_path: Path, whole: dict[str, dict[str, torch.Tensor]], monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted(monkeypatch, *SCORES)
    real = driver.Drive._write

    def write(self: driver.Drive, line: dict[str, Any], seconds: float) -> None:
        real(self, line, seconds)
        if line.get("stage") == "main" and line["epoch"] == at:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(driver.Drive, "_write", write)
    with pytest.raises(Interrupted):
        fit(60, tmp_path / "cut")
    monkeypatch.setattr(driver.Drive, "_write", real)
    run = vgi_cli.fit(frame(60), out=tmp_path / "cut", resume=True)
    assert run.manifest["epochs"] == 10
    parts = RunFolder.open(tmp_path / "cut").parts()
    for stem, tensors in whole.items():
        assert all(torch.equal(tensors[name], parts[stem][name]) for name in tensors), stem


@pytest.mark.parametrize("options", [{"epochs": 2}, {"val": 0.2}, {"set": {"optim.schedule": "cosine"}}])
def test_nothing_is_held_out_where_somebody_says_how_long(options: dict[str, Any], tmp_path: Path) -> None:
    fit(60, tmp_path / "run", {"stop_after": 1, **options.pop("set", {})}, **options)
    assert schedule(tmp_path / "run") == "cosine"


@pytest.mark.parametrize(("model", "epochs"), [("flow", plateau.FEW_EPOCHS), ("vae", plateau.FEW_EPOCHS_LATENT)])
def test_nothing_is_held_out_of_a_handful_of_rows(model: str, epochs: int, tmp_path: Path) -> None:
    """Few epochs are made: 2,000 learnt 45 rows by heart (intervals of 90 % held 45 % of the hidden cells)."""
    said: list[str] = []
    small = {"bootstrap": "none", "stop_after": 1}
    run = vgi_cli.fit(frame(20), model=model, set=small, out=tmp_path / "run", threads=1, say=said.append)
    assert schedule(tmp_path / "run") == "cosine"
    assert yaml.safe_load((run.path / "recipe.yaml").read_text())["epochs"] == epochs
    assert any(f"20 rows are too few to hold any out: {epochs} epochs are made" in line for line in said)
    _, said = fit(20, tmp_path / "own", {"stop_after": 1}, epochs=40)
    assert not any("too few to hold any out" in line for line in said)


@pytest.mark.parametrize(
    ("method", "optim", "epochs"), [("plmcmc", {}, 15), ("vgi", {"schedule": "cosine"}, 15), ("vgi", {}, 15)]
)
def test_few_rows_have_few_epochs_by_any_method(method: str, optim: dict[str, Any], epochs: int) -> None:
    recipe = Recipe(model=ModelChoice("flow"), method=MethodChoice(method)).with_optim(**optim)
    table = make_table(torch.randn(45, 3), torch.zeros(45, 3, dtype=torch.bool))
    assert plateau.settled(recipe, table, [f"optim.{name}" for name in optim]).epochs == epochs
    assert plateau.settled(recipe.replace(epochs=70), table, ["epochs"]).epochs == 70


def test_patience_counts_after_so_many_steps(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where half of the cells are missing a model has not begun to learn after the first epochs."""
    monkeypatch.setattr(plateau, "LEAST", 24)  # four batches an epoch
    scripted(monkeypatch, *[-3.0] * 5, *[-1.0] * 20)  # after 1 to 5 epochs, ...
    _, said = fit(60, tmp_path / "run")
    (line,) = (line for line in said if line.startswith("held-out rows gained no more after"))
    assert int(line.split()[6]) >= 6  # four scores did not gain on the first one


@pytest.mark.slow  # test_patience_counts_after_so_many_steps is of the same steps
def test_a_model_learns_what_few_cells_say(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It ended after one epoch, without a relation between columns. (A small network that learns faster than usual.)"""
    monkeypatch.undo()
    monkeypatch.setattr("vgi_cli.methods.optimisation.STEPS", 1000)
    rng = np.random.default_rng(1)
    z = rng.normal(size=240)
    table = pd.DataFrame({name: z + 0.3 * rng.normal(size=240) for name in "abcd"}).mask(rng.random((240, 4)) < 0.7)
    small = {"model.encoder": [20], "model.decoder": [20], "model.latents": 1, "optim.lr": 0.04, "bootstrap": "none"}
    run = vgi_cli.fit(table, model="vae", set=small, out=tmp_path / "run", threads=1)
    assert run.sample(n=2000).corr().to_numpy()[0, 1] > 0.6  # of 0.92


def test_a_score_that_is_no_number_ends_the_constant_rate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scripted(monkeypatch, -3.0, -2.0, math.nan)
    manifest, said = fit(60, tmp_path / "run")
    assert manifest["epochs"] == 3 + 2
    assert any(line.startswith("held-out rows gained no more after 2 epochs") for line in said)


def test_scores_that_are_no_numbers_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scripted(monkeypatch, math.nan)
    with pytest.raises(FitError, match="no number of epochs gives the held-out rows a finite log-likelihood"):
        fit(60, tmp_path / "run")


def test_what_held_out_rows_ended_no_time_limit_did(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And so there is nothing for --resume to go on to."""
    scripted(monkeypatch, -3.0, -2.0, -2.0, -2.0, -2.0)  # the rate falls after 5 epochs, for 2
    monkeypatch.setattr(pace, "_epoch_seconds", lambda *_: 10.0)
    manifest, said = fit(60, tmp_path / "run", time_limit=3600)
    assert any(line.startswith("the time limit leaves room for about ") for line in said)
    assert (manifest["epochs"], manifest["stopped_by"]) == (7, "epochs")
    assert manifest["time_limit"] == {"seconds": 3600.0, "ended_early": []}
    assert vgi_cli.fit(frame(60), out=tmp_path / "run", resume=True).manifest["epochs"] == 7


def test_more_epochs_than_it_came_to_and_fewer_than_were_planned_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted(monkeypatch, -3.0, -2.0, -2.0, -2.0, -2.0)
    fit(60, tmp_path / "run")
    with pytest.raises(UsageError, match="the run has at most 750, and held-out rows ended it after 7, got 20"):
        vgi_cli.fit(frame(60), out=tmp_path / "run", resume=True, epochs=20)


@pytest.mark.parametrize("epochs", first(2, [2, 10, 1]))
def test_by_hand_there_are_no_more_epochs_than_were_said(
    epochs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted(monkeypatch, *range(epochs))  # held-out rows go on gaining
    manifest, _ = fit(60, tmp_path / "run", {"optim.schedule": "plateau"}, epochs=epochs)
    assert manifest["epochs"] == manifest["epochs_planned"] == epochs


def test_a_single_epoch_of_all_rows_goes_on_as_planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was held out of it, and so nothing is when more epochs are asked for."""
    fit(60, tmp_path / "run", {"optim.schedule": "plateau"}, epochs=1)
    scripted(monkeypatch)
    run = vgi_cli.fit(frame(60), out=tmp_path / "run", resume=True, epochs=3)
    assert run.manifest["epochs"] == 3


@pytest.mark.parametrize(("rows", "used"), [(2, 2), (40, 39)])
def test_too_few_rows_to_hold_any_out_are_refused_by_hand(rows: int, used: int, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=f"for which {used} rows with an observed cell are too few: it takes 50"):
        fit(rows, tmp_path / "run", {"optim.schedule": "plateau"})
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("model", "method", "rows", "expected"),
    [
        ("vae", "miwae", 49, None),
        ("vae", "miwae", 50, "plateau"),
        ("vae", "miwae", plateau.LATENT_ROWS - 1, "plateau"),
        ("vae", "miwae", plateau.LATENT_ROWS, None),
        ("flow", "vgi", plateau.LATENT_ROWS, "plateau"),
    ],
)
def test_a_model_with_latents_is_watched_where_rows_are_few(
    model: str, method: str, rows: int, expected: str | None
) -> None:
    recipe = Recipe(model=ModelChoice(model), method=MethodChoice(method))
    table = make_table(torch.randn(rows, 3), torch.zeros(rows, 3, dtype=torch.bool))
    assert plateau.settled(recipe, table, ()).optim.get("schedule") == expected


def test_plmcmc_is_refused_by_hand(tmp_path: Path) -> None:
    """Its rounds come at shares of all epochs: rows that enter would be fitted with values from before any round."""
    settings = {"optim.schedule": "plateau", "bootstrap": "none", "model.steps": 1, "model.hidden": 8}
    with pytest.raises(UsageError, match="plateau is not for method plmcmc, whose first epochs say little of its last"):
        vgi_cli.fit(frame(60), model="flow", method="plmcmc", set=settings, out=tmp_path / "run", epochs=10)


def test_a_method_with_a_state_of_its_own_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "LoopState", type(None))
    with pytest.raises(UsageError, match=r"method vgi cannot follow optim\.schedule=plateau"):
        fit(60, tmp_path / "run")
