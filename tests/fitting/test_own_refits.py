"""Refits of a fit by its own method: what is said, kept and drawn from."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import vgi_cli
from tests.selection import first
from tests.tensors import same_tensors
from vgi_cli.errors import FitError, Interrupted, UsageError
from vgi_cli.evaluation.report import remarks
from vgi_cli.fitting import carry_out, plateau, refits
from vgi_cli.fitting.refits import split_bootstrap
from vgi_cli.machine.work import TimeLimit, TimeUp
from vgi_cli.maths.noise import KeyedNoise
from vgi_cli.methods import reweighted
from vgi_cli.methods.loop import LoopState
from vgi_cli.methods.optimisation import StepFailed
from vgi_cli.samplers.base import Box, Imputer
from vgi_cli.samplers.turns import InTurn, in_turn, pooled

FLOW = {
    "model.steps": 1,
    "model.hidden": 4,
    "method.trunk": [4],
    "method.hidden": [4],
    "method.conditional": "gaussian",
}
WARM = {"optim.warmup_conditionals": 1, "optim.warmup_model": 1}


def frame(rows: int = 60) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(rows, 3)), columns=list("abc"))
    return table.mask(rng.random(table.shape) < 0.2)


def fit(out: Path, **options: Any) -> vgi_cli.Run:
    said = {**FLOW, **WARM, "bootstrap": 3, **options.pop("set", {})}
    return vgi_cli.fit(frame(), model="flow", threads=1, out=out, set=said, **{"epochs": 1, **options})


def test_a_flow_says_what_its_refits_are_and_draws_from_them(tmp_path: Path) -> None:
    said: list[str] = []
    run = fit(tmp_path / "run", say=said.append)
    (line,) = (line for line in said if line.startswith("the uncertainty of the fit: "))
    assert line.startswith("the uncertainty of the fit: 3 refits by vgi to 60 reweighted rows, 2 steps each; about ")
    assert (run.manifest["bootstrap"], run.manifest["bootstrap_by"]) == (3, "vgi")
    assert f"about {run.manifest['bootstrap_work']:.1f} times the work" in line
    said.clear()
    tables = run.impute(m=2, say=said.append)
    assert said[0] == "the draws include the uncertainty of the fit: 3 bootstrap refits by vgi"
    assert not tables[0].isna().any().any()
    (plain,) = run.impute(m=1, uncertainty="none")
    assert not plain.equals(tables[0])


def test_beyond_the_usual_number_refits_serve_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refits, "COUNT", 2)
    run = fit(tmp_path / "run", set={"bootstrap": "auto"})
    said: list[str] = []
    run.impute(m=3, say=said.append)
    assert run.manifest["bootstrap"] == 2
    assert said[0] == (
        "warning: draws 3 to 3 use the 2 bootstrap refits again: refits by vgi are made with the fit; "
        "a fit with --set bootstrap=3 has one for each"
    )


@pytest.mark.parametrize("method", first(1, ["miwae", "vbgi"]))
def test_an_autoencoder_draws_from_its_refits(method: str, tmp_path: Path) -> None:
    small = {"model.latents": 1, "model.encoder": [4], "model.decoder": [4], "bootstrap": 2}
    run = vgi_cli.fit(frame(), model="vae", method=method, epochs=1, threads=1, out=tmp_path / "run", set=small)
    said: list[str] = []
    tables = run.impute(m=2, say=said.append)
    assert said[0] == f"the draws include the uncertainty of the fit: 2 bootstrap refits by {method}"
    assert not tables[0].equals(tables[1])


def test_a_kill_in_the_refits_resumes_bit_for_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = fit(tmp_path / "whole")
    made = []
    draw = reweighted.exponential_weights

    def killed(m: int, generator: torch.Generator) -> torch.Tensor:
        made.append(m)
        if len(made) == 3:
            raise Interrupted("stopped by SIGTERM", 143)
        return draw(m, generator)

    monkeypatch.setattr(refits, "CHECKPOINT_SECONDS", 0.0)
    monkeypatch.setattr(refits, "exponential_weights", killed)
    with pytest.raises(Interrupted, match="in the bootstrap refits; the fit is saved in"):
        fit(tmp_path / "run")
    run = vgi_cli.load(tmp_path / "run")
    assert run.manifest["status"] == "running"
    kept = split_bootstrap(parameters(tmp_path / "run"))[1]
    assert len(kept) == 2
    resumed = vgi_cli.fit(frame(), out=tmp_path / "run", resume=True)
    assert len(made) == 4 and resumed.manifest["bootstrap"] == 3
    assert same_tensors(parameters(tmp_path / "run"), parameters(tmp_path / "whole"))
    assert all(a.equals(b) for a, b in zip(whole.impute(m=1), resumed.impute(m=1), strict=True))


def test_held_out_rows_that_ended_the_fit_do_not_end_its_refits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was made of the refits of a fit with --val is not made again, nor lost to a time limit."""
    made: list[int] = []
    draw = reweighted.exponential_weights

    def ended(stop: int) -> Callable[[int, torch.Generator], torch.Tensor]:
        def weights(m: int, generator: torch.Generator) -> torch.Tensor:
            made.append(m)
            if len(made) == stop:
                raise Interrupted("stopped by SIGTERM", 143)
            return draw(m, generator)

        return weights

    monkeypatch.setattr(refits, "CHECKPOINT_SECONDS", 0.0)
    said = {"bootstrap": 4, "patience": 1, "optim.schedule": "constant", "optim.lr": 50.0}
    monkeypatch.setattr(refits, "exponential_weights", ended(3))
    with pytest.raises(Interrupted, match="in the bootstrap refits; the fit is saved in"):
        fit(tmp_path / "run", set=said, val=0.2, epochs=8)
    run = vgi_cli.load(tmp_path / "run")
    assert run.manifest["stopped_by"] == "early_stopping" and run.manifest["epochs"] < 8
    assert len(split_bootstrap(parameters(run.path))[1]) == 2

    with monkeypatch.context() as now:

        def late(*args: Any) -> refits.Refitted:
            now.setattr(TimeLimit, "over", lambda self: True)
            return refits.refit(*args)

        now.setattr(carry_out, "refit", late)
        done = vgi_cli.fit(frame(), out=tmp_path / "run", resume=True, time_limit="1h")
    assert done.manifest["bootstrap"] == 2 and done.manifest["stopped_by"] == "early_stopping"
    assert len(split_bootstrap(parameters(run.path))[1]) == 2 and len(made) == 3
    monkeypatch.setattr(refits, "exponential_weights", ended(0))
    again = vgi_cli.fit(frame(), out=tmp_path / "run", resume=True)  # what the limit left out
    assert again.manifest["bootstrap"] == 4 and len(made) == 5
    monkeypatch.setattr(refits, "exponential_weights", draw)
    whole = fit(tmp_path / "whole", set=said, val=0.2, epochs=8)
    assert same_tensors(parameters(run.path), parameters(whole.path))


def early(out: Path, monkeypatch: pytest.MonkeyPatch, **options: Any) -> vgi_cli.Run:
    """A fit that held-out rows end as soon as they may."""
    monkeypatch.setattr(plateau, "GAIN", 10.0)
    said = {**FLOW, **WARM, "bootstrap": 3, **options.pop("set", {})}
    return vgi_cli.fit(frame(), model="flow", out=out, set=said, **{"threads": 1, **options})


@pytest.mark.slow
def test_where_held_out_rows_ended_the_fit_each_refit_is_a_fit_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    measured: list[int] = []
    chains = carry_out.measured_chains

    def counted(*args: Any) -> dict[str, torch.Tensor]:
        measured.append(1)
        return chains(*args)

    monkeypatch.setattr(carry_out, "measured_chains", counted)
    run = early(tmp_path / "run", monkeypatch, say=said.append)
    assert measured == [1]  # nobody imputes by the chains of a refit
    assert (
        "the uncertainty of the fit: 3 fits by vgi to 60 reweighted rows, each anew: held-out rows ended this one early"
    ) in said
    assert (run.manifest["bootstrap"], run.manifest["bootstrap_by"], run.manifest["bootstrap_work"]) == (3, "vgi", 3.0)
    own, each = split_bootstrap(parameters(run.path))
    first = [one[next(iter(own))] for one in (own, *each)]
    far = [float((a - b).abs().max()) for i, a in enumerate(first) for b in first[:i]]
    assert min(far) > 0.05  # random numbers of their own from the first one on
    one = split_bootstrap(parameters(early(tmp_path / "one", monkeypatch, set={"bootstrap": 1}).path))[1]
    assert same_tensors(one[0], each[0])
    said.clear()
    assert not run.impute(m=2, say=said.append)[0].isna().any().any()
    assert said[0] == "the draws include the uncertainty of the fit: 3 bootstrap refits by vgi"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="forks are made on Linux only")
def test_they_are_the_same_by_several_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = early(tmp_path / "alone", monkeypatch)
    here, anew = os.getpid(), carry_out._anew

    def elsewhere(*args: Any) -> dict[str, torch.Tensor]:
        assert os.getpid() != here
        return anew(*args)

    monkeypatch.setattr(carry_out, "_anew", elsewhere)
    assert same_tensors(parameters(early(tmp_path / "two", monkeypatch, threads=2).path), parameters(alone.path))


@pytest.mark.slow
def test_they_are_resumed_where_they_were_stopped_and_left_out_where_there_is_no_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = early(tmp_path / "whole", monkeypatch)
    anew, made = carry_out._anew, list[int]()

    def stopped(*args: Any) -> dict[str, torch.Tensor]:
        made.append(len(made))
        if len(made) == 3:
            raise Interrupted("stopped by SIGTERM", 143)
        return anew(*args)

    monkeypatch.setattr(refits, "CHECKPOINT_SECONDS", 0.0)
    monkeypatch.setattr(carry_out, "_anew", stopped)
    with pytest.raises(Interrupted, match=r"stopped by SIGTERM in the bootstrap refits; the fit is saved in"):
        early(tmp_path / "run", monkeypatch)
    assert len(split_bootstrap(parameters(tmp_path / "run"))[1]) == 2
    vgi_cli.fit(frame(), out=tmp_path / "run", resume=True)
    assert len(made) == 4 and same_tensors(parameters(tmp_path / "run"), parameters(whole.path))

    def late(*_: Any) -> dict[str, torch.Tensor]:
        raise TimeUp("over", "more")

    monkeypatch.setattr(carry_out, "_anew", late)
    said: list[str] = []
    run = early(tmp_path / "late", monkeypatch, say=said.append)
    assert run.manifest["bootstrap"] == 0
    assert any(line.startswith("warning: 0 of 3 refits were made within the time limit") for line in said)


def test_one_that_fails_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failed(*_: Any) -> dict[str, torch.Tensor]:
        raise FitError("training has diverged", "take smaller steps")

    monkeypatch.setattr(carry_out, "_anew", failed)
    monkeypatch.setattr(plateau, "LEAST", 0)  # held-out rows may end the fit after its first steps
    with pytest.raises(FitError, match=r"^refit 1 by vgi: training has diverged; the fit itself is saved$"):
        early(tmp_path / "run", monkeypatch)


def test_long_fits_have_short_refits() -> None:
    most = reweighted.ANEW * reweighted._allowed(1.0, 1.0)
    assert reweighted.anew(most / 20, 20) and not reweighted.anew(most / 10, 20) and reweighted.anew(most / 10, 5)


def parameters(path: Path) -> dict[str, torch.Tensor]:
    from vgi_cli.runs.folder import RunFolder

    return RunFolder.open(path).tensors("model")


def test_a_refit_is_the_same_whatever_the_others_are(tmp_path: Path) -> None:
    few, more = (split_bootstrap(parameters(fit(tmp_path / str(n), set={"bootstrap": n}).path))[1] for n in (1, 3))
    assert len(few) == 1 and len(more) == 3 and same_tensors(few[0], more[0])
    assert any(not torch.equal(more[0][name], more[1][name]) for name in more[0])


@pytest.mark.full_fits
def test_refits_that_cost_too_much_are_not_made_and_a_warning_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = reweighted.Size(0, 60, 32, 16, 1e9)
    monkeypatch.setattr(refits, "own_size", lambda *_: size)
    said: list[str] = []
    run = fit(tmp_path / "run", set={"bootstrap": "auto"}, say=said.append)
    assert run.manifest["bootstrap"] == 0 and run.manifest["bootstrap_by"] is None
    (line,) = (line for line in said if line.startswith("warning: no refits by vgi: they would take "))
    assert line.endswith("--set bootstrap=20 makes them all the same")
    assert "bootstrap: none" in (run.path / "recipe.yaml").read_text()


def test_a_refit_that_diverges_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refits, "moved", lambda fitted, *_: {name: v * torch.nan for name, v in fitted.items()})
    with pytest.raises(FitError, match="refit 1 by vgi has diverged: a parameter is no longer finite"):
        fit(tmp_path / "run")


def test_a_refit_that_heals_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failed: list[bool] = []

    def watch(state: LoopState, x: torch.Tensor) -> None:
        if state.row_weight is not None and not failed:  # a refit
            failed.append(True)
            raise StepFailed("an imputation is no longer finite", 0)

    monkeypatch.setattr(LoopState, "watch", watch)
    said: list[str] = []
    fit(tmp_path / "run", say=said.append)
    assert [line for line in said if line.startswith("warning: ")] == [
        "warning: 1 step of refit 1 by vgi had numbers that are not finite, or moved nothing: it went back "
        "to where it was good, with smaller steps"
    ]


def test_a_method_without_refits_refuses_a_number_of_them(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="method 'plmcmc' has no bootstrap refits"):
        vgi_cli.fit(frame(), model="flow", method="plmcmc", set={"bootstrap": 3}, out=tmp_path / "run")


class Marked(Imputer):
    """Fills holes with a number of its own plus keyed noise."""

    def __init__(self, mark: float) -> None:
        self.mark, self.shares = mark, list[float]()

    def sample(self, x: torch.Tensor, missing: torch.Tensor, noise: KeyedNoise, box: Box) -> torch.Tensor:
        self.watch(0.5)
        return torch.where(missing, self.mark + noise.normal(), x)

    def diagnostics(self) -> dict[str, object]:
        return {"chains": int(self.mark) + 1, "acceptance": self.mark, "longest_run": int(self.mark)}


def test_imputers_take_the_draws_in_turn() -> None:
    x, missing = torch.zeros(4, 2, dtype=torch.float64), torch.ones(4, 2, dtype=torch.bool)
    noise = KeyedNoise(0, ("a", "b"), torch.arange(4), torch.arange(5))
    box = Box(torch.full((2,), -torch.inf), torch.full((2,), torch.inf))
    alone = [Marked(float(i)) for i in range(2)]
    turns = InTurn(alone)
    shares: list[float] = []
    turns.watch = shares.append
    draws = turns.sample(x, missing, noise, box)
    for i in range(5):
        one = noise.select(draws=torch.tensor([i]))
        assert torch.equal(draws[i], alone[i % 2].sample(x, missing, one, box)[0])
    assert shares[:2] == pytest.approx([0.3, 0.8]) and in_turn(alone[:1]) is alone[0]


def test_the_diagnostics_of_several_imputers_are_one() -> None:
    found = pooled([
        {"chains": 1, "acceptance": 0.2, "longest_run": 3, "sweeps": 9, "by_column": {"a": 0.5}, "memory": 0.1},
        {"chains": 3, "acceptance": 0.6, "longest_run": 2, "sweeps": 9, "by_column": {"a": 0.1}},
    ])  # fmt: skip
    assert found == {
        "chains": 4,
        "acceptance": pytest.approx(0.5),
        "longest_run": 3,
        "sweeps": 9,
        "by_column": {"a": pytest.approx(0.2)},
    }
    assert pooled([]) == {}


@pytest.mark.parametrize("name", ["chains", "sweeps"])
def test_the_diagnostics_of_a_column_are_its_own_whatever_it_is_called(name: str) -> None:
    """Chains of a column that hardly moves are told, also where what weighs the imputers is called so."""
    found = pooled([
        {"chains": 1, "acceptance_by_column": {"b": 0.9, name: 0.04, "of one alone": 0.5}},
        {"chains": 3, "acceptance_by_column": {"b": 0.5, name: 0.0}},
    ])  # fmt: skip
    assert found == {
        "chains": 4,
        "acceptance_by_column": {"b": pytest.approx(0.6), name: pytest.approx(0.01)},
    }
    assert f"(worst: '{name}', 1% of the proposals are accepted)" in remarks(found)[0]
