"""A flow's number of epochs is chosen on held-out rows, where nobody said it and overfitting is near."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import vgi_cli
from tests.clocks import ticking
from vgi_cli.errors import FitError
from vgi_cli.evaluation.likelihood.loglik import LogLik
from vgi_cli.fitting import pilot
from vgi_cli.machine.work import TimeUp

SMALL = {"method.imputations": 2, "optim.batch_size": 16, "model.steps": 1, "model.hidden": 8, "model.blocks": 0}
SMALL |= {"bootstrap": "none"}


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


def test_the_pilot_ends_long_before_the_planned_epochs_and_says_why(tmp_path: Path) -> None:
    manifest, said = fit(60, tmp_path / "run")
    assert 1 <= manifest["epochs"] < 400  # 4,000 steps would be 1,000 epochs
    assert any("epochs: a trial fit described held-out rows best" in line for line in said)
    assert manifest["data"]["rows_fitted"] == int((~frame(60).isna().all(axis=1)).sum())  # no row is lost


@pytest.mark.parametrize("options", [{"epochs": 2}, {"val": 0.2}])
def test_no_pilot_where_the_epochs_are_given_or_rows_are_held_out_anyway(options: dict, tmp_path: Path) -> None:
    _, said = fit(60, tmp_path / "run", {"stop_after": 1}, **options)
    assert not any("epochs: best" in line for line in said)


def test_no_pilot_on_a_handful_of_rows(tmp_path: Path) -> None:
    _, said = fit(20, tmp_path / "run", {"stop_after": 1})
    assert not any("epochs: best" in line for line in said)


def test_a_pilot_that_has_no_time_for_its_imputations_leaves_the_planned_epochs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticking(monkeypatch, 0.01)
    said: list[str] = []
    set = SMALL | {"method.iterations": 10**6, "method.imputer": "mice"}
    with pytest.raises(TimeUp, match="before the first epoch had ended; nothing was kept"):
        vgi_cli.fit(frame(60), model="flow", set=set, out=tmp_path / "run", threads=1, say=said.append, time_limit=2)
    assert any("the time limit left no time to find out how many are enough" in line for line in said)
    assert not (tmp_path / "run").exists()


def test_a_pilot_without_a_finite_score_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = pilot.observed_log_prob

    def broken(*arguments: object, **options: object) -> LogLik:
        return real(*arguments, **options)._replace(values=torch.full((3,), torch.nan))

    monkeypatch.setattr(pilot, "observed_log_prob", broken)
    with pytest.raises(FitError, match="no number of epochs gives the held-out rows of the pilot a finite log-like"):
        fit(60, tmp_path / "run")
    assert not (tmp_path / "run").exists()
