"""Imputations of imputers that leave out the uncertainty of their own parameters are said to."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import vgi_cli
from vgi_cli.commands.samplers import NOT_INCLUDED


@pytest.mark.parametrize(("imputer", "proper"), [("mice", True), ("empirical", False)])
def test_stored_imputations_without_the_uncertainty_of_their_imputer_are_said(
    imputer: str, proper: bool, tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(60, 3)), columns=list("abc")).mask(rng.random((60, 3)) < 0.2)
    quick = {"model.components": 1, "bootstrap": "none"}
    run = vgi_cli.fit(table, model="mixture", imputer=imputer, epochs=2, set=quick, out=tmp_path / "run")
    said: list[str] = []
    run.impute(m=3, sampler="chains", say=said.append)
    assert any(NOT_INCLUDED in line for line in said) == (not proper)
    said.clear()
    run.impute(m=3, sampler="exact", say=said.append)
    assert any(NOT_INCLUDED in line for line in said)
