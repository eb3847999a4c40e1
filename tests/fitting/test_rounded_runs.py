"""Runs whose rounded cells are drawn within their rounding, and those of versions that did not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import vgi_cli
from tests.selection import first
from vgi_cli.commands.samplers import rounding_in
from vgi_cli.fitting.fitted import load_run
from vgi_cli.methods.em import em
from vgi_cli.reporting import Silent
from vgi_cli.runs.store import RunStore


def answers(N: int = 200) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    trait = rng.normal(size=(N, 1))
    items = np.digitize(0.8 * trait + 0.6 * rng.normal(size=(N, 3)), [-0.8, 0, 0.8]).astype(float)
    frame = pd.DataFrame(items, columns=["q1", "q2", "q3"]).mask(rng.random((N, 3)) < 0.25)
    return frame.assign(y=trait[:, 0] + 0.5 * rng.normal(size=N))


@pytest.mark.parametrize("model", first(1, ["mixture", "fa"]))
def test_a_run_says_how_often_and_imputes_alike(model: str, tmp_path: Path) -> None:
    run = vgi_cli.fit(answers(), model=model, out=tmp_path / "run", seed=1, threads=1, set={"bootstrap": 3})
    fitted = load_run(tmp_path / "run", Silent())
    assert fitted.recipe.value("method.redraws") == em.REDRAWS and rounding_in(fitted, None) is not None
    first, again = run.impute(m=2), vgi_cli.load(tmp_path / "run").impute(answers(), m=2)
    holes = answers()
    for one, other in zip(first, again, strict=True):
        pd.testing.assert_frame_equal(one, other)
        assert not one.isna().any().any() and set(one.q1) <= {0.0, 1.0, 2.0, 3.0}
        kept = holes.notna().to_numpy()
        assert (one.to_numpy()[kept] == holes.to_numpy()[kept]).all()


def test_a_run_of_an_earlier_version_keeps_cells_spread_evenly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings: dict[str, Any] = {"bootstrap": "none", "method.redraws": 0}
    vgi_cli.fit(answers(), model="fa", out=tmp_path / "run", seed=1, threads=1, set=settings)
    before = [frame.copy() for frame in vgi_cli.load(tmp_path / "run").impute(answers(), m=2)]
    recipe = RunStore.recipe

    def old(self: RunStore) -> Any:
        return recipe(self).with_values({"method.redraws": None})

    monkeypatch.setattr(RunStore, "recipe", old)
    fitted = load_run(tmp_path / "run", Silent())
    assert fitted.recipe.value("method.redraws") == 0 and rounding_in(fitted, None) is None
    for one, other in zip(vgi_cli.load(tmp_path / "run").impute(answers(), m=2), before, strict=True):
        pd.testing.assert_frame_equal(one, other)


def test_other_methods_leave_cells_as_they_are(tmp_path: Path) -> None:
    settings = {"model.factors": 1, "bootstrap": "none"}
    vgi_cli.fit(answers(), model="fa", method="vgi", epochs=2, out=tmp_path / "run", threads=1, set=settings)
    assert rounding_in(load_run(tmp_path / "run", Silent()), None) is None
