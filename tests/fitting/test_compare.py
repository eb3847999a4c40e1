"""`--compare flow`: models that EM does not fit beside the candidates of `--model auto`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import vgi_cli
from tests.fitting import test_contest
from tests.fitting.test_contest import holes, normal, recipe, rows
from vgi_cli.cli.app import main
from vgi_cli.commands import fit_plan
from vgi_cli.commands.dry_run import about
from vgi_cli.commands.requests import FitRequest
from vgi_cli.errors import FitError, Interrupted, UsageError
from vgi_cli.fitting import fit_rows
from vgi_cli.fitting.contest import contest, scoring
from vgi_cli.fitting.contest.candidates import Candidate
from vgi_cli.fitting.contest.judges import FitFold, Judge, fit_as_ever
from vgi_cli.fitting.contest.league import League
from vgi_cli.fitting.contest.scoring import CALIBRATED, Drawn, Folds, Scores
from vgi_cli.fitting.contest.standings import Standings
from vgi_cli.fitting.fitted import Fitted
from vgi_cli.fitting.rows import Rows
from vgi_cli.fitting.trial import Trial, when_compared
from vgi_cli.machine.work import TimeUp, Work
from vgi_cli.reporting import Silent
from vgi_cli.settings.gather import load_recipe
from vgi_cli.settings.problems import Setting
from vgi_cli.settings.recipe import MethodChoice, ModelChoice, Recipe

QUICK = {**test_contest.QUICK, "table.transform": "linear"}
"""Half as many models as there are where the transform is compared as well."""


def fit(rows: Rows, recipe: Recipe, work: Work) -> Fitted:
    return fit_rows.fit_rows(rows, recipe, work=work)


def never() -> bool:
    return False


def scored(frame: pd.DataFrame, of: Recipe, by: FitFold | None) -> Scores:
    encoded = rows(frame, of)
    generator = torch.Generator().manual_seed(0)
    columns = scoring.columns_of(encoded)
    parts = torch.randint(scoring.PARTS, (len(frame), len(columns)), generator=generator)
    fold = torch.randperm(len(frame), generator=generator) % scoring.FOLDS
    even = torch.ones(parts.shape, dtype=torch.float64)
    *_, last = scoring.score(Candidate("one", of, encoded), columns, parts, fold, Folds({}, {}), even, by)
    assert isinstance(last, Scores)
    return last


def test_a_model_scores_alike_by_a_whole_fit_and_by_a_short_climb() -> None:
    """EM fits it either way, here to where nothing changes: what is left is the start."""
    frame, of = holes(normal(300, 1), 0.2, 2), recipe("mixture", components=1, covariance="full", outliers=False)
    whole = scored(frame, of, lambda one, some, _: fit_as_ever(one, some, fit, Work(), never))
    climb = scored(frame, of, None)
    assert whole.parameters > 0 and climb.parameters == 9  # three means and six covariances
    assert float((whole.loglik - climb.loglik).abs().max()) < 0.05
    assert whole.crps == pytest.approx(climb.crps, rel=0.01) and whole.coverage == pytest.approx(
        climb.coverage, abs=0.02
    )


@pytest.mark.parametrize(
    ("model", "method", "settings"),
    [
        ("flow", "vgi", {"steps": 1, "hidden": 4}),
        pytest.param("vae", "miwae", {"latents": 1}, marks=pytest.mark.slow),
    ],
)
def test_what_is_fitted_by_gradients_has_the_scores_of_its_density(model: str, method: str, settings: dict) -> None:
    """Normal columns: the log-likelihood of the truth is known, and a few epochs come near it from below."""
    frame = normal(400, 3, 0.0)
    of = Recipe(model=ModelChoice(model, settings), epochs=8, method=MethodChoice(method))
    of = of.with_table(transform="linear")
    found = scored(frame, of, lambda one, some, _: fit_as_ever(one, some, fit, Work(), never))
    truth = -1.5 * np.log(2 * np.pi * np.e)
    error = float(found.loglik.std()) / 20
    assert truth - 0.5 < float(found.loglik.mean()) < truth + 4 * error
    assert found.crps == pytest.approx(1.0, abs=0.06) and found.coverage == pytest.approx(CALIBRATED, abs=0.07)


@pytest.mark.parametrize(
    ("names", "title"),
    [
        (["vae"], "variational autoencoder, columns standardised"),
        pytest.param(["flow", "vae"], "neural spline flow, columns standardised", marks=pytest.mark.slow),
    ],
)
def test_a_flow_and_a_vae_take_part_and_are_reported(tmp_path: Path, names: list[str], title: str) -> None:
    frame = holes(normal(40, 4), 0.2, 5)
    run = vgi_cli.fit(frame, out=tmp_path / "run", compare=names, epochs=2, set=QUICK, threads=1)
    league = json.loads((tmp_path / "run" / "contest.json").read_text())["candidates"]
    by_name = {entry["model"]: entry for entry in league}
    assert {"mixture", "fa", *names} <= set(by_name)
    assert by_name[names[0]]["title"] == title
    assert all(np.isfinite(entry["loglik"]) and np.isfinite(entry["cells"]) for entry in league)
    again = load_recipe(tmp_path / "run" / "recipe.yaml")
    assert again.compare == () and run.manifest["requested"]["compare"] == names


def entry(of: Recipe, cells: float, parameters: int, seed: int, bias: float) -> tuple[Candidate, Scores]:
    """A candidate whose draws are off by a bias."""
    noise = torch.randn(scoring.DRAWS, 200, generator=torch.Generator().manual_seed(seed)) + bias
    drawn = Drawn(
        noise, torch.zeros(scoring.DRAWS, 0), torch.zeros(0), torch.full((200,), 1 / 200, dtype=torch.float64)
    )
    spread = torch.linspace(-0.01, 0.01, 50, dtype=torch.float64)
    return Candidate(of.model.name, of, ROWS), Scores(
        spread + cells, -spread - cells, cells, None, (spread + cells)[:, None], 0.9, drawn, parameters, torch.zeros(1)
    )


ROWS = rows(normal(50, 0), recipe("mixture"))


def held(entries: list[tuple[Candidate, Scores]], score: str = "cells") -> League:
    of = recipe("mixture").replace(score=score)
    return Standings(of, ROWS.table.layout, 50, entries).decided()


def test_where_each_model_has_something_against_it_nothing_is_averaged(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [entry(recipe("mixture"), 0.5, 3, 0, 0.1), entry(recipe("fa"), 0.7, 2, 1, 0.2)]
    assert sum(held(entries).weights) == pytest.approx(1, abs=1e-3)
    monkeypatch.setattr(Standings, "_against", lambda *_: "it")
    league = held(entries)
    assert league.winner == 0 and league.weights == ()


FLOW = recipe("flow").with_method("vgi")


@pytest.mark.parametrize(
    ("flow_bias", "score", "winner"), [(0.0, "cells", "flow"), (1.2, "cells", "mixture"), (1.2, "loglik", "flow")]
)
def test_by_hidden_cells_a_flow_has_to_beat_the_average_of_the_others(
    flow_bias: float, score: str, winner: str
) -> None:
    """Two models that are off to either side are right together: what is best alone is not better than both."""
    mixture, fa = entry(recipe("mixture"), 0.50, 20, 1, 1.0), entry(recipe("fa"), 0.51, 10, 2, -1.0)
    league = held([mixture, fa, entry(FLOW, 0.40, 500, 3, flow_bias)], score)
    assert league.entries[0][0].recipe.model.name == "flow"  # best alone
    assert league.entries[league.winner][0].recipe.model.name == winner
    weights = {one.recipe.model.name: w for (one, _), w in zip(league.entries, league.weights, strict=False)}
    assert weights == ({} if winner == "flow" else pytest.approx({"flow": 0.0, "mixture": 0.5, "fa": 0.5}, abs=0.05))


def test_a_flow_that_is_no_better_than_noise_does_not_win() -> None:
    league = held([entry(recipe("mixture"), 0.5, 20, 1, 0.0), entry(FLOW, 0.4999, 500, 3, 0.0)])
    assert league.entries[league.winner][0].recipe.model.name == "mixture"


def test_a_candidate_whose_training_fails_takes_no_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> Judge:
        raise FitError("the loss is not finite")

    monkeypatch.setattr(contest, "fit_as_ever", broken)
    said: list[str] = []
    frame = holes(normal(60, 4), 0.2, 5)
    vgi_cli.fit(frame, out=tmp_path / "run", compare="flow", set=QUICK, threads=1, say=said.append)
    line = "neural spline flow, columns standardised takes no part in the comparison: the loss is not finite"
    assert f"warning: {line}" in said
    assert "flow" not in (tmp_path / "run" / "contest.json").read_text()


def test_a_time_limit_may_leave_no_time_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def late(*_: object) -> Fitted:
        raise TimeUp("stopped before training began")

    monkeypatch.setattr(fit_rows, "_alone", late)
    said: list[str] = []
    frame = holes(normal(60, 4), 0.2, 5)
    run = vgi_cli.fit(
        frame, out=tmp_path / "run", compare="flow", set=QUICK, threads=1, time_limit="1h", say=said.append
    )
    assert "warning: the time limit left no time to compare flow" in said
    assert "comparing models on hidden cells" in run.manifest["time_limit"]["ended_early"]
    assert len(json.loads((tmp_path / "run" / "contest.json").read_text())["candidates"]) > 3


def test_an_interruption_keeps_what_was_scored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> Fitted:
        raise Interrupted("stopped by SIGINT", 130)

    monkeypatch.setattr(fit_rows, "_alone", interrupted)
    with pytest.raises(
        Interrupted, match="while models were compared, before the run was begun: what 4 models"
    ) as caught:
        vgi_cli.fit(holes(normal(60, 4), 0.2, 5), out=tmp_path / "run", compare="flow", set=QUICK, threads=1)
    assert caught.value.hint == f"continue with: vgi fit --resume --out {tmp_path / 'run'}"
    assert not (tmp_path / "run" / "manifest.json").exists()


@pytest.mark.parametrize(
    ("frame", "why"),
    [(normal(80, 0), "no row has a hole beside a cell"), (holes(normal(20, 0), 0.2, 1), "too few rows, or no time")],
)
def test_where_nothing_is_compared_a_line_says_why(frame: pd.DataFrame, why: str, tmp_path: Path) -> None:
    said: list[str] = []
    vgi_cli.fit(frame, out=tmp_path / "run", compare="flow", set=QUICK, threads=1, say=said.append)
    assert f"warning: --compare flow: nothing was compared: {why}" in said
    assert load_recipe(tmp_path / "run" / "recipe.yaml").compare == ()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"compare": "fow"}, "unknown model 'fow'"),
        ({"compare": "fa"}, "'fa' is compared anyway in tables of three or more columns of numbers and no others"),
        ({"compare": "mixture"}, "'mixture' is compared anyway$"),
        ({"compare": ["vae", "vae"]}, "'vae' is named twice"),
        ({"compare": "vae", "model": "flow"}, "models are compared where nobody chooses one, and --model flow does"),
        ({"compare": "vae", "method": "em"}, "models are compared where nobody chooses one, and --method em does"),
        ({"compare": "vae", "set": {"uncertainty": "posterior"}}, "and uncertainty=posterior does"),
    ],
)
def test_what_cannot_be_compared_is_refused(options: dict, message: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=message):
        vgi_cli.fit(normal(40, 0), out=tmp_path / "run", **options)
    assert not (tmp_path / "run").exists()


def test_settings_are_taken_by_those_of_the_compared_that_have_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: dict[str, Recipe] = {}

    def fitted(recipe: Recipe, *_: object) -> contest.Judge:
        taken[recipe.model.name] = recipe
        raise FitError("no")

    monkeypatch.setattr(contest, "fit_as_ever", fitted)
    said: list[str] = []
    own = {"model.hidden": 4, "model.latents": 1, "optim.lr": 0.02, "method.imputations": 2}
    frame = holes(normal(60, 4), 0.2, 5)
    vgi_cli.fit(frame, out=tmp_path / "run", compare=["flow", "vae"], set={**QUICK, **own}, threads=1, say=said.append)
    assert "model.hidden=4 is for flow alone; vae, the models that EM fits go without" in said
    assert "model.latents=1 is for vae alone; flow, the models that EM fits go without" in said
    assert "optim.lr=0.02, method.imputations=2 are for flow and vae alone; the models that EM fits go without" in said
    flow, vae = taken["flow"], taken["vae"]
    assert (flow.model.settings, vae.model.settings) == ({"hidden": 4}, {"latents": 1})
    for one in (flow, vae):
        assert one.optim == {"lr": 0.02} and one.method.settings == {"imputations": 2}
    models = json.loads((tmp_path / "run" / "contest.json").read_text())["candidates"]
    assert {one["model"] for one in models} == {"mixture", "fa"}


@pytest.mark.parametrize(
    ("key", "value", "message", "hint"),
    [
        ("model.hiden", 4, "unknown key 'model.hiden'", "did you mean 'model.hidden'?"),
        ("method.imputation", 4, "unknown key 'method.imputation'", "did you mean 'method.imputations'?"),
        ("model.latents", 4, "model.latents needs a named model", "say --model vae"),
        ("model.hidden", "x", "model.hidden: expected a whole number, got 'x'", "give a whole number"),
        ("optim.lr", -1, "optim.lr: expected a number above 0, at most 100, got -1", None),
    ],
)
def test_settings_that_none_of_the_compared_can_take_are_refused(
    key: str, value: object, message: str, hint: str | None, tmp_path: Path
) -> None:
    with pytest.raises(UsageError) as caught:
        vgi_cli.fit(normal(40, 0), out=tmp_path / "run", compare="flow", set={key: value})
    assert caught.value.message.endswith(message)
    assert hint is None or caught.value.hint == hint
    assert not (tmp_path / "run").exists()


def test_a_dry_run_says_what_it_takes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    holes(normal(60, 4), 0.2, 5).to_csv(tmp_path / "t.csv", index=False)
    assert main(["fit", str(tmp_path / "t.csv"), "--compare", "vae", "--set", "model.latents=1", "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert "# compared too  vae (at most " in out
    assert re.search(
        r"^# time +up to .*; with what is compared too, and the fit to all rows should that win\)$", out, re.M
    )


def test_the_time_of_a_dry_run_has_what_is_compared_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It stood beside and was not counted: four fits to three quarters of the rows, and one to all if it wins."""
    holes(normal(60, 4), 0.2, 5).to_csv(tmp_path / "t.csv", index=False)

    def tried(rows: Rows, recipe: Recipe) -> Trial:
        seconds = {"vae": 100.0 if recipe.bootstrap == "none" else 500.0}.get(recipe.model.name, 10.0)
        return Trial(recipe.model.name, "em", seconds, 1, None, rows.table.N)

    monkeypatch.setattr(fit_plan, "tried", tried)
    assert main(["fit", str(tmp_path / "t.csv"), "--compare", "vae", "--dry-run"]) == 0
    out = capsys.readouterr().out
    total = scoring.FOLDS * 100.0 + 500.0 + when_compared(10.0)
    assert f"vae (at most {about(scoring.FOLDS * 100.0)} for" in out and f"up to {about(total)} (" in out
    monkeypatch.setattr(fit_plan, "tried", lambda rows, of: tried(rows, of)._replace(seconds=None, why_not="no"))
    lines = fit_plan._others(
        ROWS, recipe("mixture"), FitRequest(settings={"compare": Setting(("vae",), "--compare")}), Silent()
    )
    assert lines == (f"vae (time not known for {scoring.FOLDS} fits)", 0.0, 0.0, ("vae",))


def test_the_manifest_has_the_seconds_of_the_comparison_alone_where_there_was_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = holes(normal(40, 4), 0.2, 5)
    frame.to_csv(tmp_path / "t.csv", index=False)
    settings = [word for name, value in QUICK.items() for word in ("--set", f"{name}={value}")]
    assert main(["fit", str(tmp_path / "t.csv"), "--out", str(tmp_path / "run"), "-v", *settings]) == 0
    timings = json.loads((tmp_path / "run" / "manifest.json").read_text())["timings"]
    assert 0 < timings["comparison_seconds"] < timings["command_seconds"]
    said = f"the comparison of models took {timings['comparison_seconds']:.1f} s"
    assert said in capsys.readouterr().err.splitlines()
    assert "seconds" not in (tmp_path / "run" / "contest.json").read_text()
    named = vgi_cli.fit(frame, out=tmp_path / "named", model="fa", set={"bootstrap": "none"}, threads=1)
    assert set(named.manifest["timings"]) == {"training_seconds", "command_seconds"}
