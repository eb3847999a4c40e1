"""A run of this process alone is evaluated and scored as the folder that holds the same fit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from vgi_cli.commands.fit import fit, fit_in_memory
from vgi_cli.commands.requests import EvaluateRequest, FitRequest, ScoreRequest, source
from vgi_cli.errors import UsageError
from vgi_cli.reporting import Silent
from vgi_cli.runs.store import RunStore
from vgi_cli.settings.gather import gather
from vgi_cli.table.base import Table

SAID = {"model.name": "mixture", "model.components": 1, "bootstrap": 2, "threads": 1}


def complete() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 1)) + 0.5 * rng.normal(size=(40, 3))
    return pd.DataFrame(x, columns=list("abc")).round(2)


def with_holes() -> pd.DataFrame:
    return complete().mask(np.random.default_rng(1).random((40, 3)) < 0.25)


def table(frame: pd.DataFrame) -> Table:
    found, _ = source(frame)
    assert found is not None
    return found


def asked(**more: Any) -> FitRequest:
    settings = gather({key: (value, key) for key, value in SAID.items()})
    return FitRequest(settings=settings, table=table(with_holes()), **more)


def here() -> RunStore:
    return fit_in_memory(asked(), Silent()).run


def report(run: RunStore | Path) -> dict[str, Any]:
    request = EvaluateRequest(
        checkpoint=run, settings={}, table=table(with_holes()), truth_table=table(complete()), json=True
    )
    values: dict[str, Any] = json.loads(request.carry_out(Silent()).json_text())
    return values


def test_evaluate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Likelihood and imputations, to the last digit; nothing is written."""
    there = fit(asked(out=str(tmp_path / "run")), Silent())
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    ours, theirs = report(here()), report(there.path)
    assert ours == theirs and ours["loglik"]["estimator"] == "exact" and ours["imputation"]["coverage90"] > 0.5
    assert list(Path().iterdir()) == []


def test_score() -> None:
    run = here()
    scores = ScoreRequest(checkpoint=run, settings={}, table=table(with_holes())).carry_out(Silent()).columns["loglik"]
    known = [score for score in scores if score is not None]
    assert np.isclose(np.mean(known), report(run)["loglik"]["mean"], rtol=1e-12)


def test_a_report_needs_a_place(tmp_path: Path) -> None:
    run = here()
    with pytest.raises(UsageError, match="a run in memory has no folder for evaluations"):
        EvaluateRequest(checkpoint=run, settings={}, table=table(with_holes())).carry_out(Silent())
    out = tmp_path / "report"
    EvaluateRequest(checkpoint=run, settings={}, table=table(with_holes()), out=str(out)).carry_out(Silent())
    assert sorted(path.name for path in out.iterdir()) == ["report.json", "report.md"]


def test_scores_by_content_are_those_of_the_rows_alone() -> None:
    """The noise of rounded cells, too; by number it is that of the place in the table."""
    run, frame = here(), with_holes()

    def scores(frame: pd.DataFrame, by_content: bool) -> list[float]:
        request = ScoreRequest(checkpoint=run, settings={}, table=table(frame), by_content=by_content)
        return [score for score in request.carry_out(Silent()).columns["loglik"] if score is not None]

    assert np.allclose(scores(frame, True)[::-1], scores(frame[::-1], True), rtol=0, atol=1e-9)
    assert not np.allclose(scores(frame, False)[::-1], scores(frame[::-1], False), rtol=0, atol=1e-9)
